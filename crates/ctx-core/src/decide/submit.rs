//! Accept a message: it starts a run, waits in the inbox, interrupts or steers the run, or answers
//! a suspension or a question (design section 6). A session that does not exist is created in the
//! same transaction.

use crate::command::Command;
use crate::compaction;
use crate::id::MessageId;
use crate::image::IMAGES_MAX;
use crate::inbox::{
    Admission, Item, ItemState, Mode, OverflowPolicy, Overrides, admit, has_images, text_of,
};
use crate::intent::Intent;
use crate::message::{Part, Source};
use crate::refusal::Refusal;
use crate::run::Cancel;
use crate::session::{self, Activity, Delivery, Status};
use crate::suspension::{Answer, Kind, Suspension};
use crate::text_limits::{TEXT_MAX_BYTES, check, one_line};

use super::delivery::{delivery_block, is_classified, is_kept_elsewhere};
use super::resume::answer_suspension;
use super::session_changes::{RunHost, SessionChanges};
use super::update_session::field;
use super::{
    Accepted, Change, Decided, Decision, Event, Invocation, SessionView, Settings, choose,
    close_task, create_session, notice,
};

/// Most client tools that one message may define.
const TOOLS_MAX: usize = 128;

/// When a message is classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassifyMode {
    /// By the rules, in the accepting transaction.
    #[default]
    Immediate,
    /// By a slower classifier, before the message is delivered.
    Deferred,
}

/// Whether a message may open a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunPolicy {
    /// It opens a run if the session is idle.
    #[default]
    StartRun,
    /// It waits in the inbox, even of an idle session; another process delivers it.
    QueueOnly,
    /// As `StartRun`, but the message to an idle session waits: this process has no room for
    /// another run.
    NoRoom,
}

/// A message to be accepted.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Submit {
    /// The message's permanent id.
    pub message_id: MessageId,
    pub content: Vec<Part>,
    /// What to do if the session is busy; the default depends on the source.
    pub mode: Option<Mode>,
    pub source: Source,
    /// Provider, model and tools for its run.
    pub overrides: Overrides,
    pub classify_mode: ClassifyMode,
    pub run_policy: RunPolicy,
}

/// The session that a message is sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitTarget {
    /// A session that exists.
    Existing,
    /// The session with this label, which is created if it does not exist.
    GetOrCreate(Box<session::New>),
    /// A new session; refused if its label is in use.
    New(Box<session::New>),
}

/// Accepts a message.
///
/// Fails if a new session's label is in use, the session refuses messages, the inbox is full, the
/// run cannot be steered, or the message is empty or too long.
pub fn submit(
    view: Option<&SessionView>,
    to: &SubmitTarget,
    submit: &Submit,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Accepted> {
    let new = match (view, to) {
        (Some(_), SubmitTarget::New(new)) => {
            return Err(Refusal::LabelInUse { label: new.label.clone() });
        }
        (Some(view), _) => {
            return accept_message(view, Vec::new(), submit, run_host, settings, invocation);
        }
        (None, SubmitTarget::Existing) => return Err(Refusal::NoSession),
        (None, SubmitTarget::New(new) | SubmitTarget::GetOrCreate(new)) => new,
    };
    let made = create_session(None, new)?;
    let fresh = SessionView::bare(new.session());
    let mut decision =
        accept_message(&fresh, made.changes, submit, run_host, settings, invocation)?;
    decision.events.splice(0..0, made.events);
    Ok(decision)
}

/// Accepts a message of an existing session. The changes of `before` are stored with it.
pub(super) fn accept_message(
    view: &SessionView,
    before: Vec<Change>,
    submit: &Submit,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Accepted> {
    let mut changes = SessionChanges::new(view, invocation);
    for change in before {
        if let Change::SetEntity(entity) = change {
            changes.session.routing.entity = Some(entity);
        }
        changes.push(change);
    }
    let item = item(&changes, submit, run_host)?;
    if item.source == Source::Human {
        changes.session.envelope.clone_from(&item.overrides.envelope);
    }
    if let Some(rights) = &item.overrides.rights {
        let restricting = rights.tools.iter().filter(|tools| !tools.permits_all());
        changes.session.tool_rights = restricting.cloned().collect();
    }
    match changes.session.status {
        Status::Error if changes.session.is_damaged() => return Err(Refusal::SessionDamaged),
        Status::Archived | Status::Suspended | Status::Error => {
            changes.session.status = Status::Active;
        }
        Status::Active => {}
    }
    if changes.session.delivery == Delivery::Refuse {
        return Err(Refusal::DeliveryRefused);
    }
    let human = item.source == Source::Human;
    let held =
        changes.session.delivery == Delivery::Hold || submit.run_policy == RunPolicy::QueueOnly;
    if human
        && !held
        && let Some(suspension) = answered(view, &item)
    {
        return answer_waiting(changes, item, &suspension, run_host);
    }
    if human && let Some(command) = Command::of(&item.text()) {
        let admission = close_task::carry_out(&mut changes, &command, item.clone())?;
        return Ok(accepted(changes, &item, admission));
    }
    if human
        && !held
        && let Some(choice) =
            changes.tasks.prompt().and_then(|prompt| prompt.choice_of(&item.text()))
    {
        let held = changes.items_in(ItemState::Held);
        let action = choose::answer(&mut changes.tasks, choice, settings)?;
        finish_choice(&mut changes, held, Some(&item), action, run_host)?;
        return Ok(accepted(changes, &item, Admission::Run));
    }
    let waits = submit.run_policy == RunPolicy::NoRoom
        || is_kept_elsewhere(&changes.session, run_host.node);
    let admission = match admission(&changes, &item, submit.mode.is_some(), held) {
        Admission::Run if waits => Admission::Wait,
        admission => admission,
    };
    match admission {
        Admission::Run => changes.begin(vec![item.clone()], run_host, settings)?,
        Admission::Wait => enqueue(&mut changes, item.clone(), settings)?,
        Admission::Interrupt => {
            make_room(&changes, settings)?;
            interrupt_run(&mut changes);
            changes.put_at_front(vec![item.clone()]);
        }
        Admission::Steer => changes.put_item(Item {
            state: ItemState::Steering,
            position: changes.last_position(),
            ..item.clone()
        }),
        Admission::Refuse => return Err(Refusal::SteerUnavailable),
        Admission::Release => {
            changes.close_turn(
                crate::turn::Status::Interrupted,
                crate::run::Outcome::Interrupted,
                None,
            );
            changes.begin(vec![item.clone()], run_host, settings)?;
        }
    }
    Ok(accepted(changes, &item, admission))
}

fn item(
    changes: &SessionChanges<'_>,
    submit: &Submit,
    run_host: &RunHost,
) -> Result<Item, Refusal> {
    let text = text_of(&submit.content);
    let pictures = submit.content.iter().filter(|part| matches!(part, Part::Image { .. })).count();
    if pictures > IMAGES_MAX {
        return Err(Refusal::TooMany { what: "images", count: pictures, max: IMAGES_MAX });
    }
    check(&text, TEXT_MAX_BYTES).map_err(|why| Refusal::BadText { what: "message", why })?;
    let wanted = &submit.overrides;
    if let Some(provider) = &wanted.provider_id
        && !run_host.catalog.providers.contains_key(provider)
    {
        return Err(Refusal::UnknownProvider { provider: provider.clone() });
    }
    wanted.model.as_deref().map(|model| field("model", model)).transpose()?;
    if wanted.tools.len() > TOOLS_MAX {
        return Err(Refusal::TooMany { what: "tools", count: wanted.tools.len(), max: TOOLS_MAX });
    }
    let legal = |name: &str| {
        matches!(name.len(), 1..=64)
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    if let Some(tool) = wanted.tools.iter().find(|tool| !legal(&tool.name)) {
        return Err(Refusal::BadTool { name: tool.name.chars().take(80).collect() });
    }
    if !wanted.tools.is_empty() {
        let provider = wanted
            .provider_id
            .as_ref()
            .or(changes.session.provider_id.as_ref())
            .unwrap_or(&run_host.catalog.default);
        if !run_host
            .catalog
            .providers
            .get(provider)
            .is_some_and(|capabilities| capabilities.supports_tools)
        {
            return Err(Refusal::ToolsUnsupported { provider: provider.clone() });
        }
    }
    let command = compaction::Command::of(&text).is_some() || Command::of(&text).is_some();
    let tracked = changes.session.track_tasks && submit.source == Source::Human && !command;
    let intent = (tracked && submit.classify_mode == ClassifyMode::Immediate)
        .then(|| changes.classify_text(&text));
    // The person on the channel gets the result of what was delegated.
    let reported = wanted.from_worker.is_some().then(|| changes.session.envelope.clone()).flatten();
    let envelope = wanted.envelope.clone().or(reported);
    let usual = Mode::default_for(submit.source, changes.session.track_tasks);
    let mode = match submit.mode.unwrap_or(usual) {
        // A compaction is no reason to end the run, and nothing that the agent in it should read.
        mode if command && !(mode == Mode::Interrupt && submit.mode.is_some()) => Mode::Queue,
        mode => mode,
    };
    Ok(Item {
        message_id: submit.message_id,
        position: changes.last_position(),
        mode,
        source: submit.source,
        content: submit.content.clone(),
        intent,
        overrides: Overrides { envelope, ..wanted.clone() },
        state: ItemState::Waiting,
        enqueued_at: changes.now(),
    })
}

/// The suspension that a message answers. A sender without the right to approve does not answer a
/// permission.
fn answered(view: &SessionView, item: &Item) -> Option<Suspension> {
    let (text, rights) = (item.text(), item.overrides.rights.as_ref());
    let may_approve = rights.is_none_or(|rights| rights.approve);
    let mut open = view.suspensions.iter();
    open.find(|suspension| {
        suspension.is_answered_by(&text)
            && (may_approve || suspension.awaited.kind != Kind::Permission)
    })
    .cloned()
}

/// The message answers a suspension: it becomes part of the open turn.
fn answer_waiting(
    mut changes: SessionChanges<'_>,
    item: Item,
    suspension: &Suspension,
    run_host: &RunHost,
) -> Decided<Accepted> {
    let choice = suspension
        .matching_option(&item.text())
        .map_or_else(|| item.text(), |offer| offer.id.clone());
    let answer =
        Answer { choice: Some(choice), by: Some("a message".to_owned()), ..Answer::default() };
    answer_suspension(&mut changes, suspension, answer, Some(&item), run_host)?;
    Ok(accepted(changes, &item, Admission::Steer))
}

/// After a choice: delivers the messages that were held. The message that chose is answered by ctx
/// and is not delivered.
pub(super) fn finish_choice(
    changes: &mut SessionChanges<'_>,
    items: Vec<Item>,
    chosen_by: Option<&Item>,
    action: super::Action,
    run_host: &RunHost,
) -> Result<(), Refusal> {
    let step = changes.next_step(action)?;
    if let Some(item) = chosen_by {
        if let Some(task) = changes.tasks.task().filter(|_| changes.tasks.commit().is_none()) {
            let text = notice::continued(task);
            changes.tasks.notify(text);
        }
        changes.turn_without_run(vec![item.clone()]);
    }
    if changes.session.state == Activity::Idle && !items.is_empty() {
        changes.apply_step(step, items, run_host);
    } else {
        // A run is open: the held messages are delivered first when it has ended.
        changes.put_at_front(items);
    }
    Ok(())
}

fn admission(changes: &SessionChanges<'_>, item: &Item, named: bool, held: bool) -> Admission {
    // Only text can be added to a run.
    let can_steer = changes.run.as_ref().is_some_and(|run| run.can_steer && run.cancel.is_none())
        && !has_images(&item.content);
    // An abort must not wait for the run that it is meant to end.
    let stop = !named
        && item.intent == Some(Intent::Abandon)
        && changes.session.state == Activity::Running;
    let mode = if stop { Mode::Interrupt } else { item.mode };
    let admission = admit(mode, changes.session.state, can_steer, named);
    let blocked = delivery_block(&changes.session, changes.tasks.prompt()).is_some();
    let behind_others =
        changes.waiting().next().is_some() || !changes.items_in(ItemState::Held).is_empty();
    let is_classified_now = item.intent.is_some() || !is_classified(&changes.session, item);
    match admission {
        Admission::Run | Admission::Release | Admission::Interrupt | Admission::Steer if held => {
            Admission::Wait
        }
        // Between two runs, or while messages are collected, it is delivered first as well.
        Admission::Run if behind_others && !blocked && mode == Mode::Interrupt => {
            Admission::Interrupt
        }
        Admission::Run if blocked || behind_others || !is_classified_now => Admission::Wait,
        other => other,
    }
}

/// An interrupting message does not drop another one: it is refused if the inbox is full.
fn make_room(changes: &SessionChanges<'_>, settings: &Settings) -> Result<(), Refusal> {
    if changes.waiting().count() < settings.inbox.cap {
        Ok(())
    } else {
        Err(Refusal::InboxFull { cap: settings.inbox.cap })
    }
}

/// Appends a message to the inbox, as the overflow policy allows.
fn enqueue(
    changes: &mut SessionChanges<'_>,
    item: Item,
    settings: &Settings,
) -> Result<(), Refusal> {
    let waiting: Vec<Item> = changes.waiting().cloned().collect();
    if waiting.len() < settings.inbox.cap {
        changes.put_item(item);
        return Ok(());
    }
    let oldest = waiting.first().cloned();
    match (settings.inbox.at_cap, oldest) {
        (OverflowPolicy::Reject, _) | (_, None) => {
            return Err(Refusal::InboxFull { cap: settings.inbox.cap });
        }
        (OverflowPolicy::New, _) => changes.put_item(Item { state: ItemState::Dropped, ..item }),
        (OverflowPolicy::Old, Some(oldest)) => {
            changes.put_item(Item { state: ItemState::Dropped, ..oldest });
            changes.put_item(item);
        }
        (OverflowPolicy::Summarize, Some(oldest)) => match waiting.get(1).cloned() {
            Some(next) => {
                summarize(changes, oldest, next);
                changes.put_item(item);
            }
            None => summarize(changes, oldest, item),
        },
    }
    Ok(())
}

const DIGEST: &str = "Shortened, since too many messages were waiting:";

/// Drops the oldest message and prepends one line of it to the next.
fn summarize(changes: &mut SessionChanges<'_>, oldest: Item, next: Item) {
    let text = oldest.text();
    let (before, own) =
        text.strip_prefix(DIGEST).and_then(|rest| rest.split_once("\n\n")).unwrap_or(("", &text));
    let mut lines: Vec<String> =
        before.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    lines.push(format!("- {}", one_line(own, 200)));
    // A long digest keeps its newest lines.
    let lines = lines.split_off(lines.len().saturating_sub(50)).join("\n");
    let digest = format!("{DIGEST}\n{lines}\n\n{}", next.text());
    changes.put_item(Item { state: ItemState::Dropped, ..oldest });
    changes.put_item(next.with_text(digest));
}

/// Marks the open run as interrupted by a message.
pub(super) fn interrupt_run(changes: &mut SessionChanges<'_>) {
    if let Some(run) = changes.run.as_mut().filter(|run| run.cancel.is_none()) {
        run.cancel = Some(Cancel::Message);
        let run = run.clone();
        changes.push(Change::PutRun(Box::new(run)));
    }
}

fn accepted(
    mut changes: SessionChanges<'_>,
    item: &Item,
    admission: Admission,
) -> Decision<Accepted> {
    let position = changes.rank(item.message_id);
    if let Some(position) = position {
        changes.emit(Event::MessageQueued {
            message_id: item.message_id,
            mode: item.mode,
            position,
        });
    } else if admission == Admission::Steer {
        changes.emit(Event::InboxUpdated { message_id: item.message_id });
    }
    if let Some(intent) = item.intent {
        changes.emit(Event::MessageClassified { message_id: item.message_id, intent });
    }
    let accepted = Accepted {
        message_id: item.message_id,
        position,
        state: changes.session.state,
        delivery_block: delivery_block(&changes.session, changes.tasks.prompt()),
        intent: item.intent,
        admission,
        prompt: changes.tasks.prompt().cloned(),
        opened_run: changes.opened_run.take(),
    };
    changes.finish(accepted)
}
