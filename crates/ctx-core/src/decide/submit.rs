//! Take a message in: it starts a run, waits, interrupts, goes into the run, or answers what is asked (design
//! section 6). A session that does not exist is made in the same transaction.

use crate::compaction;
use crate::id::MessageId;
use crate::image::IMAGES_MAX;
use crate::inbox::{
    Admission, AtCap, Item, ItemState, Mode, Overrides, admit, has_pictures, words,
};
use crate::intent::Intent;
use crate::message::{Part, Source};
use crate::refusal::Refusal;
use crate::run::Cancel;
use crate::session::{self, Activity, Delivery, Status};
use crate::suspension::{Answer, Suspension};
use crate::text::{TEXT_MAX_BYTES, check, one_line};

use super::delivery::{delivery_block, is_classified};
use super::resume::answer_suspension;
use super::talk::{Opener, Talk};
use super::update_session::field;
use super::{
    Accepted, Change, Decided, Decision, Event, Moment, SessionView, Settings, choose,
    create_session,
};

/// The most tools one message may bring along.
const TOOLS_MAX: usize = 128;

/// Who says what a message is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Judge {
    /// The rules, here and now.
    #[default]
    Rules,
    /// Somebody slower, before the message is delivered.
    Later,
}

/// Who may begin a run with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hands {
    /// Whoever takes it in.
    #[default]
    Ours,
    /// Somebody else: it waits, even in an idle session.
    Others,
}

/// A message that somebody sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// Its id in history for ever.
    pub message_id: MessageId,
    /// What it says.
    pub content: Vec<Part>,
    /// What it wants if the session is busy.
    pub mode: Option<Mode>,
    /// Where it comes from.
    pub source: Source,
    /// What it wants for its run.
    pub overrides: Overrides,
    /// Who judges it.
    pub judge: Judge,
    /// Who may run it.
    pub hands: Hands,
}

/// To whom a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// A session that is there.
    Existing,
    /// Whoever has the label; the session is made where nobody has it.
    Whoever(Box<session::New>),
    /// A session that is made for it, and for nothing else.
    New(Box<session::New>),
}

/// Takes a message in.
///
/// # Errors
/// If a new session's label is taken, the session takes no messages, the inbox is full, the run cannot be steered, or the
/// message is none.
pub fn submit(
    view: Option<&SessionView>,
    to: &To,
    submit: &Submit,
    opener: &Opener,
    settings: &Settings,
    moment: &Moment,
) -> Decided<Accepted> {
    let new = match (view, to) {
        (Some(_), To::New(new)) => {
            return Err(Refusal::LabelInUse { label: new.label.clone() });
        }
        (Some(view), _) => return take(view, Vec::new(), submit, opener, settings, moment),
        (None, To::Existing) => return Err(Refusal::NoSession),
        (None, To::New(new) | To::Whoever(new)) => new,
    };
    let made = create_session(None, new)?;
    let fresh = SessionView::bare(new.session());
    let mut decision = take(&fresh, made.changes, submit, opener, settings, moment)?;
    decision.events.splice(0..0, made.events);
    Ok(decision)
}

fn take(
    view: &SessionView,
    before: Vec<Change>,
    submit: &Submit,
    opener: &Opener,
    settings: &Settings,
    moment: &Moment,
) -> Decided<Accepted> {
    let mut talk = Talk::new(view, moment);
    before.into_iter().for_each(|change| talk.work.change(change));
    let mut item = item(&talk, submit, opener)?;
    match talk.session.status {
        Status::Error => return Err(Refusal::SessionBroken),
        Status::Archived | Status::Suspended => talk.session.status = Status::Active,
        Status::Active => {}
    }
    if talk.session.delivery == Delivery::Refuse {
        return Err(Refusal::DeliveryRefused);
    }
    let human = item.source == Source::Human;
    let held = talk.session.delivery == Delivery::Hold || submit.hands == Hands::Others;
    if human
        && !held
        && let Some(suspension) = answered(view, &item)
    {
        return answer_waiting(talk, item, &suspension, opener);
    }
    if human
        && !held
        && let Some(choice) = talk.work.prompt().and_then(|prompt| prompt.choice_of(&item.text()))
    {
        item.position = talk.last_position();
        let mut items = talk.items_in(ItemState::Held);
        items.push(item.clone());
        let action = choose::answer(&mut talk.work, choice, settings)?;
        finish_choice(&mut talk, items, action, opener)?;
        return Ok(accepted(talk, &item, Admission::Run));
    }
    let admission = admission(&talk, &item, submit.mode.is_some(), held);
    match admission {
        Admission::Run => talk.begin(vec![item.clone()], opener, settings)?,
        Admission::Wait => wait(&mut talk, item.clone(), settings)?,
        Admission::Interrupt => {
            make_room(&talk, settings)?;
            interrupt_run(&mut talk);
            talk.put_first(vec![item.clone()]);
        }
        Admission::Steer => talk.put_item(Item {
            state: ItemState::Steering,
            position: talk.last_position(),
            ..item.clone()
        }),
        Admission::Refuse => return Err(Refusal::SteerUnavailable),
        Admission::Release => {
            talk.close_turn(
                crate::turn::Status::Interrupted,
                crate::run::Outcome::Interrupted,
                None,
            );
            talk.begin(vec![item.clone()], opener, settings)?;
        }
    }
    Ok(accepted(talk, &item, admission))
}

fn item(talk: &Talk<'_>, submit: &Submit, opener: &Opener) -> Result<Item, Refusal> {
    let words = words(&submit.content);
    let pictures = submit.content.iter().filter(|part| matches!(part, Part::Image { .. })).count();
    if pictures > IMAGES_MAX {
        return Err(Refusal::TooMany { what: "images", count: pictures, max: IMAGES_MAX });
    }
    check(&words, TEXT_MAX_BYTES).map_err(|why| Refusal::BadText { what: "message", why })?;
    let wanted = &submit.overrides;
    if let Some(provider) = &wanted.provider_id
        && !opener.roster.providers.contains_key(provider)
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
            .or(talk.session.provider_id.as_ref())
            .unwrap_or(&opener.roster.default);
        if !opener.roster.providers.get(provider).is_some_and(|facts| facts.takes_tools) {
            return Err(Refusal::ToolsUnsupported { provider: provider.clone() });
        }
    }
    let command = compaction::Command::of(&words).is_some();
    let tracked = talk.session.track_tasks && submit.source == Source::Human && !command;
    let intent = (tracked && submit.judge == Judge::Rules).then(|| talk.judge(&words));
    let usual = Mode::default_for(submit.source, talk.session.track_tasks);
    let mode = match submit.mode.unwrap_or(usual) {
        // A shorter context is no reason to stop what runs, and nothing for the agent in it to hear.
        mode if command && !(mode == Mode::Interrupt && submit.mode.is_some()) => Mode::Queue,
        mode => mode,
    };
    Ok(Item {
        message_id: submit.message_id,
        position: talk.last_position(),
        mode,
        source: submit.source,
        content: submit.content.clone(),
        intent,
        overrides: wanted.clone(),
        state: ItemState::Waiting,
        enqueued_at: talk.now(),
    })
}

fn answered(view: &SessionView, item: &Item) -> Option<Suspension> {
    let text = item.text();
    view.suspensions.iter().find(|suspension| suspension.is_answered_by(&text)).cloned()
}

/// The message is the answer that the session waits for: it goes into the open turn.
fn answer_waiting(
    mut talk: Talk<'_>,
    item: Item,
    suspension: &Suspension,
    opener: &Opener,
) -> Decided<Accepted> {
    let choice =
        suspension.offer_of(&item.text()).map_or_else(|| item.text(), |offer| offer.id.clone());
    let answer = Answer { results: Vec::new(), choice: Some(choice) };
    answer_suspension(&mut talk, suspension, answer, Some(&item), opener);
    Ok(accepted(talk, &item, Admission::Steer))
}

/// After a choice: what was kept is handled, and the words that chose stand beside it in history.
pub(super) fn finish_choice(
    talk: &mut Talk<'_>,
    items: Vec<Item>,
    action: super::Action,
    opener: &Opener,
) -> Result<(), Refusal> {
    let had_task = talk.work.task().is_some();
    let way = talk.way(action, had_task)?;
    if talk.session.state == Activity::Idle && !items.is_empty() {
        talk.go(way, items, opener);
    } else {
        // Something runs meanwhile: what was kept goes first when it is done.
        talk.put_first(items);
    }
    Ok(())
}

fn admission(talk: &Talk<'_>, item: &Item, named: bool, held: bool) -> Admission {
    // Only words can go into a run.
    let can_steer = talk.run.as_ref().is_some_and(|run| run.can_steer && run.cancel.is_none())
        && !has_pictures(&item.content);
    // "stop" must not wait until the thing it stops is done.
    let stop =
        !named && item.intent == Some(Intent::Abandon) && talk.session.state == Activity::Running;
    let mode = if stop { Mode::Interrupt } else { item.mode };
    let admission = admit(mode, talk.session.state, can_steer, named);
    let blocked = delivery_block(&talk.session, talk.work.prompt()).is_some();
    let behind_others =
        talk.waiting().next().is_some() || !talk.items_in(ItemState::Held).is_empty();
    let judged = item.intent.is_some() || !is_classified(&talk.session, item);
    match admission {
        Admission::Run | Admission::Release | Admission::Interrupt | Admission::Steer if held => {
            Admission::Wait
        }
        // Between two runs, or while others are collected, it goes first as well.
        Admission::Run if behind_others && !blocked && mode == Mode::Interrupt => {
            Admission::Interrupt
        }
        Admission::Run if blocked || behind_others || !judged => Admission::Wait,
        other => other,
    }
}

/// A message that goes first never pushes another out: where there is no room, it is refused.
fn make_room(talk: &Talk<'_>, settings: &Settings) -> Result<(), Refusal> {
    if talk.waiting().count() < settings.inbox.cap {
        Ok(())
    } else {
        Err(Refusal::InboxFull { cap: settings.inbox.cap })
    }
}

/// Puts a message at the end, if there is room.
fn wait(talk: &mut Talk<'_>, item: Item, settings: &Settings) -> Result<(), Refusal> {
    let waiting: Vec<Item> = talk.waiting().cloned().collect();
    if waiting.len() < settings.inbox.cap {
        talk.put_item(item);
        return Ok(());
    }
    let oldest = waiting.first().cloned();
    match (settings.inbox.at_cap, oldest) {
        (AtCap::Reject, _) | (_, None) => {
            return Err(Refusal::InboxFull { cap: settings.inbox.cap });
        }
        (AtCap::New, _) => talk.put_item(Item { state: ItemState::Dropped, ..item }),
        (AtCap::Old, Some(oldest)) => {
            talk.put_item(Item { state: ItemState::Dropped, ..oldest });
            talk.put_item(item);
        }
        (AtCap::Summarize, Some(oldest)) => match waiting.get(1).cloned() {
            Some(next) => {
                summarize(talk, oldest, next);
                talk.put_item(item);
            }
            None => summarize(talk, oldest, item),
        },
    }
    Ok(())
}

const DIGEST: &str = "Shortened, since too many messages were waiting:";

/// The oldest message is dropped, and the next one says what it said in a line.
fn summarize(talk: &mut Talk<'_>, oldest: Item, next: Item) {
    let text = oldest.text();
    let (before, own) =
        text.strip_prefix(DIGEST).and_then(|rest| rest.split_once("\n\n")).unwrap_or(("", &text));
    let mut lines: Vec<String> =
        before.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    lines.push(format!("- {}", one_line(own, 200)));
    // A digest that has grown long keeps its newest lines.
    let lines = lines.split_off(lines.len().saturating_sub(50)).join("\n");
    let digest = format!("{DIGEST}\n{lines}\n\n{}", next.text());
    talk.put_item(Item { state: ItemState::Dropped, ..oldest });
    talk.put_item(next.saying(digest));
}

/// Ends what runs, in favour of a message.
pub(super) fn interrupt_run(talk: &mut Talk<'_>) {
    if let Some(run) = talk.run.as_mut().filter(|run| run.cancel.is_none()) {
        run.cancel = Some(Cancel::Message);
        let run = run.clone();
        talk.work.change(Change::PutRun(Box::new(run)));
    }
}

fn accepted(mut talk: Talk<'_>, item: &Item, admission: Admission) -> Decision<Accepted> {
    let position = talk.rank(item.message_id);
    if let Some(position) = position {
        talk.work.event(Event::MessageQueued {
            message_id: item.message_id,
            mode: item.mode,
            position,
        });
    } else if admission == Admission::Steer {
        talk.work.event(Event::InboxUpdated { message_id: item.message_id });
    }
    if let Some(intent) = item.intent {
        talk.work.event(Event::MessageClassified { message_id: item.message_id, intent });
    }
    let accepted = Accepted {
        message_id: item.message_id,
        position,
        state: talk.session.state,
        intent: item.intent,
        admission,
        prompt: talk.work.prompt().cloned(),
        opened: talk.opened.take(),
    };
    talk.finish(accepted)
}
