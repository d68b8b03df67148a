//! The accumulated changes of a rule about messages and runs.
//!
//! A run is opened only in [`SessionChanges::open_run`], which needs an idle session, so a session
//! never has two. A turn is closed only in [`SessionChanges::close_turn`] and `end_run`, which end
//! the run in the same decision.

use crate::compaction::Compaction;
use crate::draft::{self, Draft};
use crate::id::{MessageId, NodeId, RunId, TurnId};
use crate::inbox::{Item, ItemState, text_of};
use crate::intent::{Intent, classify};
use crate::message::{Message, Part, Role, Source};
use crate::object::Named;
use crate::outbox::{RunReplies, Spoken, joined};
use crate::refusal::Refusal;
use crate::run::{Outcome, Phase, Run, TaskEffect};
use crate::session::{Activity, Session, Status};
use crate::suspension::{Answer, Suspension};
use crate::task::{State, StateName};
use crate::text_limits::{one_line, title_line};
use crate::time::Timestamp;
use crate::turn::{self, About, Ready};

use super::delivery::{asks_to_compact, classifier_input};
use super::message::{Action, handle};
use super::run_rights::tool_rights;
use super::task_changes::{TaskChanges, task_from_message};
use super::{
    Change, Decision, Event, Invocation, OnNewTask, OpenedRun, ProviderCatalog, SessionView,
    Settings, add_turn, notice,
};

/// Longest title that is made from a message, in characters.
const TITLE_MAX_CHARS: usize = 80;

/// Longest note that is made from a manager's message, in characters.
const NOTE_MAX_CHARS: usize = 500;

/// Positions of messages that are delivered first start here, below all others.
const FIRST: i64 = i64::MIN / 2;

/// The process that would carry out a run, and its providers.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct RunHost {
    pub node: NodeId,
    pub catalog: ProviderCatalog,
}

/// What follows from a message after the task was updated.
pub(super) enum NextStep {
    /// A run is opened. The value is what its end does to the task.
    Run(TaskEffect),
    /// The message answered a question of ctx; the notices in the transcript are the reply.
    Answered,
    /// A question was opened; the message is held.
    PromptOpened,
}

pub(super) struct SessionChanges<'a> {
    view: &'a SessionView,
    pub(super) tasks: TaskChanges<'a>,
    pub(super) session: Session,
    pub(super) run: Option<Run>,
    pub(super) inbox: Vec<Item>,
    pub(super) opened_run: Option<Box<OpenedRun>>,
    pub(super) turn: Option<TurnId>,
    objects: Vec<Named>,
}

impl<'a> SessionChanges<'a> {
    pub(super) fn new(view: &'a SessionView, invocation: &Invocation) -> Self {
        Self {
            view,
            tasks: TaskChanges::new(view, invocation).delivering(),
            session: view.session.clone(),
            run: view.run.clone().filter(|run| run.ended_at.is_none()),
            inbox: view.inbox.clone(),
            opened_run: None,
            turn: None,
            objects: Vec::new(),
        }
    }

    /// Adds a row change.
    pub(super) fn push(&mut self, change: Change) {
        self.tasks.push(change);
    }

    /// Adds an event of the feed.
    pub(super) fn emit(&mut self, event: Event) {
        self.tasks.emit(event);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.tasks.now()
    }

    pub(super) const fn view(&self) -> &'a SessionView {
        self.view
    }

    /// The open run, if the caller still holds its fence.
    pub(super) fn own_run(&self, id: RunId, fence: u64) -> Result<Run, Refusal> {
        match &self.run {
            Some(run) if run.id == id && run.fence == fence && self.session.fence == fence => {
                Ok(run.clone())
            }
            _ => Err(Refusal::StaleWriter),
        }
    }

    /// The waiting messages, in order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Item> {
        self.inbox.iter().filter(|item| item.state == ItemState::Waiting)
    }

    /// The messages in the given state.
    pub(super) fn items_in(&self, state: ItemState) -> Vec<Item> {
        self.inbox.iter().filter(|item| item.state == state).cloned().collect()
    }

    /// Stores an item, new or changed.
    pub(super) fn put_item(&mut self, item: Item) {
        self.inbox.retain(|other| other.message_id != item.message_id);
        let at = self.inbox.partition_point(|other| other.position <= item.position);
        self.inbox.insert(at, item.clone());
        self.push(Change::PutItem(Box::new(item)));
    }

    pub(super) fn remove_item(&mut self, id: MessageId) {
        self.inbox.retain(|item| item.message_id != id);
        self.push(Change::RemoveItem(id));
    }

    /// The position after all waiting messages, and never among those that are delivered first.
    pub(super) fn last_position(&self) -> i64 {
        self.inbox.iter().map(|item| item.position).max().unwrap_or(0).max(0) + 1
    }

    /// Puts items before all other waiting messages, but after those that were put there earlier.
    pub(super) fn put_at_front(&mut self, items: Vec<Item>) {
        let urgent = self.waiting().map(|item| item.position).filter(|position| *position < 0);
        let first = urgent.max().map_or(FIRST, |position| position + 1);
        for (position, item) in (first..).zip(items) {
            self.put_item(Item { position, state: ItemState::Waiting, ..item });
        }
    }

    /// The rank of a waiting message, from 1.
    pub(super) fn rank(&self, id: MessageId) -> Option<usize> {
        self.waiting().position(|item| item.message_id == id).map(|at| at + 1)
    }

    /// Starts a turn with messages that are in no other turn: with a run, with an answer of ctx, or
    /// with a question.
    pub(super) fn begin(
        &mut self,
        items: Vec<Item>,
        run_host: &RunHost,
        settings: &Settings,
    ) -> Result<(), Refusal> {
        let tracked =
            self.session.track_tasks && items.iter().all(|item| item.source == Source::Human);
        // A request for a compaction is not about the task.
        if !tracked || items.iter().all(asks_to_compact) {
            self.work_for_manager(&items)?;
            self.open_run(items, TaskEffect::Keep, run_host);
            return Ok(());
        }
        let text = items.iter().map(Item::text).collect::<Vec<_>>().join("\n");
        let intent = match items.last().and_then(|item| item.intent) {
            Some(classified) if items.len() == 1 => classified,
            _ => self.classify_text(&text),
        };
        let settings = self.settings_here(settings);
        let action = handle(&mut self.tasks, &text, intent, &settings)?;
        let step = self.next_step(action)?;
        self.apply_step(step, items, run_host);
        Ok(())
    }

    /// Updates a worker's task by its manager's message: it starts the task, answers its question
    /// or continues it. Messages of the worker's own workers are not orders.
    fn work_for_manager(&mut self, items: &[Item]) -> Result<(), Refusal> {
        let is_order = |item: &Item| {
            item.source == Source::Agent
                && item.overrides.from_worker.is_none()
                && !asks_to_compact(item)
        };
        let manager = self.session.is_worker() && items.iter().all(is_order);
        if !manager || !self.session.track_tasks {
            return Ok(());
        }
        let text = items.iter().map(Item::text).collect::<Vec<_>>().join("\n");
        match self.tasks.task().map(|task| task.state.name()) {
            None => {
                let (description, whole) = task_from_message(&text);
                self.tasks.start(&description)?;
                whole.map_or(Ok(()), |whole| self.tasks.append_note(whole))
            }
            Some(StateName::AwaitingUser | StateName::Interrupted | StateName::PendingComplete) => {
                let note = self
                    .tasks
                    .note(format!("From the manager: {}", one_line(&text, NOTE_MAX_CHARS)));
                self.tasks.move_to(State::Running, vec![note])
            }
            Some(_) => Ok(()),
        }
    }

    /// Carries out the step that follows from a message.
    pub(super) fn apply_step(&mut self, way: NextStep, items: Vec<Item>, run_host: &RunHost) {
        match way {
            NextStep::Run(task_effect) => self.open_run(items, task_effect, run_host),
            NextStep::Answered => self.turn_without_run(items),
            NextStep::PromptOpened => {
                self.send_prompt(&items);
                for item in items {
                    self.put_item(Item { state: ItemState::Held, ..item });
                }
            }
        }
    }

    /// Classifies a text by the rules alone.
    pub(super) fn classify_text(&self, text: &str) -> Intent {
        classify(text, &classifier_input(self.tasks.task())).intent
    }

    /// In sessions that ctx runs, a new task asks only if unfinished work would be set aside.
    fn settings_here(&self, settings: &Settings) -> Settings {
        let under_way = self.tasks.task().is_some_and(|task| {
            let unfinished = matches!(
                task.state.name(),
                StateName::Running | StateName::AwaitingUser | StateName::Interrupted
            );
            unfinished && task.has_meaningful_work()
        });
        let on_new_task = if under_way { settings.on_new_task } else { OnNewTask::Auto };
        Settings { on_new_task, ..settings.clone() }
    }

    /// The step that follows from what was done with the task. Every message is delivered, except
    /// the answer to a question of ctx.
    pub(super) fn next_step(&mut self, action: Action) -> Result<NextStep, Refusal> {
        if matches!(self.tasks.task().map(|task| &task.state), Some(State::Interrupted { .. })) {
            // The run that starts now is given the message, so it is incorporated.
            self.tasks.move_to(State::Running, vec![])?;
        }
        Ok(match action {
            Action::Respond | Action::Modify | Action::Start | Action::Continue => {
                NextStep::Run(TaskEffect::Infer)
            }
            Action::Confirm => NextStep::Run(TaskEffect::Confirm),
            Action::Acknowledge
            | Action::Answer
            | Action::Ask
            | Action::Complete
            | Action::Abandon => NextStep::Run(TaskEffect::Keep),
            Action::Save => NextStep::Answered,
            Action::Prompt => NextStep::PromptOpened,
        })
    }

    /// Opens a run with messages. The session must be idle.
    pub(super) fn open_run(
        &mut self,
        items: Vec<Item>,
        task_effect: TaskEffect,
        run_host: &RunHost,
    ) {
        debug_assert_eq!(self.session.state, Activity::Idle);
        self.append_notices();
        let now = self.now();
        let wanted = items.last().map(|item| item.overrides.clone()).unwrap_or_default();
        let tool_rights = tool_rights(&self.session, &items);
        let preferred =
            self.session.provider_id.clone().unwrap_or_else(|| run_host.catalog.default.clone());
        let provider_id = wanted.provider_id.unwrap_or_else(|| preferred.clone());
        let own_model = if provider_id == preferred { self.session.model.clone() } else { None };
        let capabilities =
            run_host.catalog.providers.get(&provider_id).copied().unwrap_or_default();
        let run = Run {
            id: RunId(self.tasks.next_id()),
            fence: self.session.fence + 1,
            phase: Phase::Processing,
            model: wanted.model.or(own_model),
            can_steer: capabilities.can_steer,
            provider_id,
            cancel: None,
            tools: wanted.tools,
            tool_rights,
            task_effect,
            deferred: Vec::new(),
            replies: RunReplies::default(),
            recoveries: 0,
            turn_started_at: now,
            started_at: now,
            ended_at: None,
            outcome: None,
        };
        self.emit_run_started(&run, &items);
        for item in &items {
            self.put_item(Item { state: ItemState::Taken, ..item.clone() });
        }
        let given = self.append_given(wanted.given);
        self.start_run(run, items, given, Vec::new(), run_host.node);
    }

    /// The turn opens with the part of the answer that the client brings.
    fn append_given(&mut self, given: Vec<draft::Entry>) -> Vec<draft::Entry> {
        if !given.is_empty() {
            self.push(Change::AppendDrafts(given.clone()));
        }
        given
    }

    /// Opens a run that continues the open turn after its suspension was answered.
    pub(super) fn continue_run(
        &mut self,
        before: &Run,
        drafts: Vec<draft::Entry>,
        answered: (Suspension, Answer),
        run_host: &RunHost,
    ) {
        let run = Run {
            id: RunId(self.tasks.next_id()),
            fence: self.session.fence + 1,
            phase: Phase::Processing,
            can_steer: run_host
                .catalog
                .providers
                .get(&before.provider_id)
                .copied()
                .unwrap_or_default()
                .can_steer,
            cancel: None,
            recoveries: 0,
            started_at: self.now(),
            ended_at: None,
            outcome: None,
            ..before.clone()
        };
        self.emit(Event::RunResumed { run_id: run.id, suspension_id: answered.0.id });
        let items = self.items_in(ItemState::Taken);
        let resumes = self.view.answered.iter().cloned().chain([answered]).collect();
        self.start_run(run, items, drafts, resumes, run_host.node);
    }

    /// Ends the open run, of which nothing is stored, and opens another with the same messages,
    /// provider, model and tools.
    pub(super) fn run_again(&mut self, before: &Run, run_host: &RunHost) {
        let now = self.now();
        self.push(Change::PutRun(Box::new(Run {
            phase: Phase::Completing,
            ended_at: Some(now),
            outcome: Some(Outcome::Interrupted),
            ..before.clone()
        })));
        self.emit(Event::RunFailed { run_id: before.id, code: "interrupted".to_owned() });
        // They may contain an empty message or the usage of the request.
        self.push(Change::ClearDrafts);
        self.requeue_steering();
        let run = Run {
            id: RunId(self.tasks.next_id()),
            fence: self.session.fence + 1,
            phase: Phase::Processing,
            recoveries: before.recoveries + 1,
            started_at: now,
            ..before.clone()
        };
        let items = self.items_in(ItemState::Taken);
        self.emit_run_started(&run, &items);
        let given = items.last().map(|item| item.overrides.given.clone()).unwrap_or_default();
        let given = self.append_given(given);
        self.start_run(run, items, given, Vec::new(), run_host.node);
    }

    fn emit_run_started(&mut self, run: &Run, items: &[Item]) {
        self.emit(Event::RunStarted {
            run_id: run.id,
            message_ids: items.iter().map(|item| item.message_id).collect(),
            provider_id: run.provider_id.clone(),
            model: run.model.clone(),
            recovered: run.recoveries > 0,
        });
    }

    pub(super) fn start_run(
        &mut self,
        run: Run,
        items: Vec<Item>,
        drafts: Vec<draft::Entry>,
        resumes: Vec<(Suspension, Answer)>,
        node: NodeId,
    ) {
        self.session.fence = run.fence;
        self.session.owner = Some(node);
        self.session.state = Activity::Running;
        self.session.status = Status::Active;
        if self.session.title.is_none() {
            self.session.title = items
                .first()
                .map(|item| title_line(&item.text(), TITLE_MAX_CHARS))
                .filter(|title| !title.is_empty());
        }
        self.push(Change::PutRun(Box::new(run.clone())));
        self.opened_run = Some(Box::new(OpenedRun {
            run: run.clone(),
            session: self.session.clone(),
            entity_sessions: self.view().entity_sessions.clone(),
            items,
            head: self.session.head,
            drafts,
            resumes,
        }));
        self.run = Some(run);
    }

    /// Adds a turn with messages that ctx itself answers, and the notices that answer them.
    pub(super) fn turn_without_run(&mut self, items: Vec<Item>) {
        let mut messages: Vec<Message> = items.iter().map(item_message).collect();
        let notices = self.tasks.take_notices();
        let text = notices
            .iter()
            .fold(String::new(), |all, notice| joined(&all, &text_of(&notice.content)));
        messages.extend(notices);
        for item in &items {
            self.remove_item(item.message_id);
        }
        if self.session.status == Status::Suspended {
            self.session.status = Status::Active;
        }
        self.append_or_defer(messages);
        self.send_notices(&items, &text);
    }

    /// Adds a turn with the notices that no turn contains yet.
    pub(super) fn append_notices(&mut self) {
        let messages = self.tasks.take_notices();
        self.append_or_defer(messages);
    }

    /// Adds a turn without a run. While a turn is open the messages wait for its end, so that the
    /// turns are in the order in which they started.
    fn append_or_defer(&mut self, messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let open = match self.session.state {
            Activity::Idle => None,
            Activity::Running => self.run.clone(),
            Activity::Suspended => self.view.run.clone(),
        };
        match open {
            None => self.append_turn(About::at(self.now()), messages),
            Some(mut run) => {
                run.deferred.extend(messages);
                self.push(Change::PutRun(Box::new(run.clone())));
                self.run = self.run.take().map(|_| run);
            }
        }
    }

    /// Adds the messages that were deferred while the turn was open.
    pub(super) fn append_deferred(&mut self, run: Option<Run>) {
        let messages = run.map(|run| run.deferred).unwrap_or_default();
        self.append_or_defer(messages);
    }

    fn append_turn(&mut self, about: About, messages: Vec<Message>) {
        let (ready, body) = Ready::new(about, messages);
        self.objects.push(body);
        self.append_ready(&ready);
    }

    /// Appends a finished turn to the history.
    pub(super) fn append_ready(&mut self, ready: &Ready) -> TurnId {
        let record = ready.with_parent(self.session.head);
        let id = record.id;
        add_turn(record).for_each(|change| self.push(change));
        self.emit(Event::TurnCommitted { turn: Some(id) });
        self.session.head = Some(id);
        self.session.turn_count += 1;
        self.turn = Some(id);
        self.tasks.turn_appended(id);
        id
    }

    /// Stores the row of the compaction whose turn was just added.
    pub(super) fn record_compaction(&mut self, compaction: &Compaction) {
        let Some(turn) = self.turn else { return };
        self.push(Change::PutCompaction(Box::new(compaction.clone())));
        self.emit(Event::CompactionCompleted {
            turn,
            trigger: compaction.trigger,
            turns_summarized: compaction.turns_summarized,
            tokens_before: compaction.tokens_before,
            tokens_after: compaction.tokens_after,
        });
    }

    /// Ends the run, if one is open.
    pub(super) fn end(&mut self, outcome: Outcome) {
        if let Some(run) = self.run.take() {
            let ended = Run {
                ended_at: Some(self.now()),
                outcome: Some(outcome),
                phase: Phase::Completing,
                ..run
            };
            self.push(Change::PutRun(Box::new(ended)));
        }
        self.session.owner = None;
        // A worker that was cancelled is not reported: the canceller knows.
        self.session.unreported |=
            self.session.is_worker() && !matches!(outcome, Outcome::Suspended | Outcome::Cancelled);
        self.session.state =
            if outcome == Outcome::Suspended { Activity::Suspended } else { Activity::Idle };
    }

    /// Steering messages that did not reach the run are delivered first.
    pub(super) fn requeue_steering(&mut self) {
        let late = self.items_in(ItemState::Steering);
        if !late.is_empty() {
            self.put_at_front(late);
        }
    }

    /// Closes the open turn with its draft, and releases its suspensions.
    pub(super) fn close_turn(
        &mut self,
        status: turn::Status,
        outcome: Outcome,
        notice: Option<Part>,
    ) {
        let taken = self.items_in(ItemState::Taken);
        let run = self.view.run.clone();
        let mut draft = Draft::of(self.view.drafts.iter().cloned());
        draft.cut_off();
        let usage = draft.usage.clone();
        let (made, blobs) = draft.finish();
        self.objects.extend(blobs);
        let mut messages: Vec<Message> = taken.iter().map(item_message).chain(made).collect();
        if let Some(part) = notice {
            let id = MessageId(self.tasks.next_id());
            messages.push(notice::message(id, part, self.now()));
        }
        let about = About {
            kind: turn::Kind::Normal,
            status,
            provider_id: run.as_ref().map(|run| run.provider_id.clone()),
            model: run.as_ref().and_then(|run| run.model.clone()),
            usage,
            started_at: run.as_ref().map_or(self.now(), |run| run.turn_started_at),
            ended_at: self.now(),
        };
        let sent_until = run.as_ref().and_then(|run| run.replies.sent_until);
        let spoken = Spoken::of(&messages, sent_until);
        for suspension in &self.view.suspensions {
            self.push(Change::ConsumeSuspension { id: suspension.id, answer: None });
        }
        self.push(Change::ClearDrafts);
        self.requeue_steering();
        self.end(outcome);
        self.append_turn(about, messages);
        self.send_reply(run.as_ref(), &spoken, status);
        for item in &taken {
            self.remove_item(item.message_id);
        }
        self.append_deferred(run);
    }

    /// The decision with the given reply.
    pub(super) fn finish<R>(mut self, reply: R) -> Decision<R> {
        self.append_notices();
        if self.session != self.view.session {
            self.tasks.push(Change::PutSession(Box::new(self.session)));
        }
        let mut decision = self.tasks.finish(reply);
        decision.objects = self.objects;
        decision
    }
}

/// A message of the inbox as it is stored in a turn.
pub fn item_message(item: &Item) -> Message {
    Message {
        id: item.message_id,
        role: Role::User,
        source: Some(item.source),
        content: item.content.clone(),
        created_at: item.enqueued_at,
    }
}
