//! The evolving outcome of a command on a conversation: what the rules of messages and runs share.
//!
//! A run is opened only in [`Talk::open_run`], which needs an idle session, so one session never has two; a
//! turn is closed only in [`Talk::close_turn`] and `end_run`, which end the run in the same decision.

use crate::compaction::Compaction;
use crate::draft::{self, Draft};
use crate::id::{MessageId, NodeId, RunId, TurnId};
use crate::inbox::{Item, ItemState};
use crate::intent::{Intent, Situation, classify};
use crate::message::{Message, Part, Role, Source};
use crate::object::Named;
use crate::refusal::Refusal;
use crate::run::{Outcome, Phase, Run};
use crate::session::{Activity, Session, Status};
use crate::suspension::{Answer, Suspension};
use crate::task::{State, StateName, Task};
use crate::text::one_line;
use crate::time::Timestamp;
use crate::turn::{self, About, Ready};

use super::delivery::asks_to_compact;
use super::message::{Action, UNCLEAR, handle};
use super::work::{Work, task_from_message};
use super::{
    Change, Decision, Event, Moment, OnNewTask, Opened, Roster, SessionView, Settings, add_turn,
};

/// How long a title made from a message may be.
const TITLE_MAX_CHARS: usize = 80;

/// How much of a manager's message is noted with the task.
const NOTE_MAX_CHARS: usize = 500;

/// Messages that go first have places from here on, below those of all others.
const FIRST: i64 = i64::MIN / 2;

/// Who would carry a run out, and on what.
#[derive(Debug, Clone)]
pub struct Opener {
    /// This process.
    pub node: NodeId,
    /// The providers there are.
    pub roster: Roster,
}

/// What a message means for the agent.
pub(super) enum Way {
    /// A run; whether its end moves the task.
    Run(bool),
    /// No run: ctx itself says this.
    Notice(String),
    /// A question was opened; the message is kept.
    Asked,
}

pub(super) struct Talk<'a> {
    view: &'a SessionView,
    pub(super) work: Work<'a>,
    pub(super) session: Session,
    pub(super) run: Option<Run>,
    pub(super) inbox: Vec<Item>,
    pub(super) opened: Option<Opened>,
    pub(super) turn: Option<TurnId>,
    objects: Vec<Named>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(view: &'a SessionView, moment: &Moment) -> Self {
        Self {
            view,
            work: Work::new(view, moment),
            session: view.session.clone(),
            run: view.run.clone().filter(|run| run.ended_at.is_none()),
            inbox: view.inbox.clone(),
            opened: None,
            turn: None,
            objects: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.work.now()
    }

    pub(super) const fn view(&self) -> &'a SessionView {
        self.view
    }

    /// The open run, if the caller still may write for it.
    pub(super) fn own_run(&self, id: RunId, fence: u64) -> Result<Run, Refusal> {
        match &self.run {
            Some(run) if run.id == id && run.fence == fence && self.session.fence == fence => {
                Ok(run.clone())
            }
            _ => Err(Refusal::StaleWriter),
        }
    }

    /// The messages that wait, in order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Item> {
        self.inbox.iter().filter(|item| item.state == ItemState::Waiting)
    }

    /// The messages that are in a state.
    pub(super) fn items_in(&self, state: ItemState) -> Vec<Item> {
        self.inbox.iter().filter(|item| item.state == state).cloned().collect()
    }

    /// Stores an item, new or changed.
    pub(super) fn put_item(&mut self, item: Item) {
        self.inbox.retain(|other| other.message_id != item.message_id);
        let at = self.inbox.partition_point(|other| other.position <= item.position);
        self.inbox.insert(at, item.clone());
        self.work.change(Change::PutItem(Box::new(item)));
    }

    pub(super) fn remove_item(&mut self, id: MessageId) {
        self.inbox.retain(|item| item.message_id != id);
        self.work.change(Change::RemoveItem(id));
    }

    /// The place behind everything that waits; never among those that go first, even where they are alone.
    pub(super) fn last_position(&self) -> i64 {
        self.inbox.iter().map(|item| item.position).max().unwrap_or(0).max(0) + 1
    }

    /// Puts items before everything else that waits, but behind those that went first before them.
    pub(super) fn put_first(&mut self, items: Vec<Item>) {
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

    /// Starts on messages: a run, a turn without one, or a question. They must be in no other turn.
    pub(super) fn begin(
        &mut self,
        items: Vec<Item>,
        opener: &Opener,
        settings: &Settings,
    ) -> Result<(), Refusal> {
        let tracked =
            self.session.track_tasks && items.iter().all(|item| item.source == Source::Human);
        // A wish for a shorter context says nothing about the work.
        if !tracked || items.iter().all(asks_to_compact) {
            self.work_for_manager(&items)?;
            self.open_run(items, false, opener);
            return Ok(());
        }
        let text = items.iter().map(Item::text).collect::<Vec<_>>().join("\n");
        let intent = match items.last().and_then(|item| item.intent) {
            Some(judged) if items.len() == 1 => judged,
            _ => self.judge(&text),
        };
        let had_task = self.work.task().is_some();
        let settings = self.settings_here(settings);
        let action = handle(&mut self.work, &text, intent, &settings)?;
        let way = self.way(action, had_task)?;
        self.go(way, items, opener);
        Ok(())
    }

    /// A worker works on what its manager says: that is its task, the answer to its question, or more of the same.
    fn work_for_manager(&mut self, items: &[Item]) -> Result<(), Refusal> {
        let manager = self.session.is_worker()
            && items.iter().all(|item| item.source == Source::Agent && !asks_to_compact(item));
        if !manager || !self.session.track_tasks {
            return Ok(());
        }
        let text = items.iter().map(Item::text).collect::<Vec<_>>().join("\n");
        match self.work.task().map(|task| task.state.name()) {
            None => {
                let (description, whole) = task_from_message(&text);
                self.work.start(&description)?;
                whole.map_or(Ok(()), |whole| self.work.append_note(whole))
            }
            Some(StateName::AwaitingUser | StateName::Interrupted | StateName::PendingComplete) => {
                let note = self
                    .work
                    .note(format!("From the manager: {}", one_line(&text, NOTE_MAX_CHARS)));
                self.work.move_to(State::Running, vec![note])
            }
            Some(_) => Ok(()),
        }
    }

    /// Does what a message was found to mean.
    pub(super) fn go(&mut self, way: Way, items: Vec<Item>, opener: &Opener) {
        match way {
            Way::Run(moves_task) => self.open_run(items, moves_task, opener),
            Way::Notice(notice) => self.turn_without_run(items, notice),
            Way::Asked => {
                for item in items {
                    self.put_item(Item { state: ItemState::Held, ..item });
                }
            }
        }
    }

    /// What a message is taken for by rules alone.
    pub(super) fn judge(&self, text: &str) -> Intent {
        classify(text, &situation(self.work.task())).intent
    }

    /// In sessions that ctx runs, a new task asks only where work that is under way would be put aside.
    fn settings_here(&self, settings: &Settings) -> Settings {
        let under_way = self.work.task().is_some_and(|task| {
            let unfinished = matches!(
                task.state.name(),
                StateName::Running | StateName::AwaitingUser | StateName::Interrupted
            );
            unfinished && task.has_meaningful_work()
        });
        let on_new_task = if under_way { settings.on_new_task } else { OnNewTask::Auto };
        Settings { on_new_task, ..settings.clone() }
    }

    /// What has to happen after the task was dealt with.
    pub(super) fn way(&mut self, action: Action, had_task: bool) -> Result<Way, Refusal> {
        if matches!(self.work.task().map(|task| &task.state), Some(State::Interrupted { .. })) {
            // The run that starts now is given the message: it is taken in.
            self.work.move_to(State::Running, vec![])?;
        }
        let sealed =
            |talk: &Self| talk.work.commit().map(|record| record.id.0.short()).unwrap_or_default();
        Ok(match action {
            Action::Respond | Action::Modify | Action::Start => Way::Run(true),
            Action::Acknowledge | Action::Answer => Way::Run(false),
            Action::Ask if !had_task => Way::Run(false),
            Action::Ask => Way::Notice(UNCLEAR.to_owned()),
            Action::Complete => {
                Way::Notice(format!("The task is complete and sealed as commit {}.", sealed(self)))
            }
            Action::Abandon => Way::Notice(format!(
                "The task is abandoned; what was done is kept as commit {}.",
                sealed(self)
            )),
            Action::Save => {
                Way::Notice(format!("The earlier task is saved as commit {}.", sealed(self)))
            }
            Action::Continue => {
                let task = self
                    .work
                    .task()
                    .map(|task| one_line(&task.description, 200))
                    .unwrap_or_default();
                Way::Notice(format!("Set aside. The open task is still: {task}"))
            }
            Action::Prompt => Way::Asked,
        })
    }

    /// Opens a run with messages. The session must be idle.
    pub(super) fn open_run(&mut self, items: Vec<Item>, moves_task: bool, opener: &Opener) {
        debug_assert_eq!(self.session.state, Activity::Idle);
        let now = self.now();
        let wanted = items.last().map(|item| item.overrides.clone()).unwrap_or_default();
        let preferred =
            self.session.provider_id.clone().unwrap_or_else(|| opener.roster.default.clone());
        let provider_id = wanted.provider_id.unwrap_or_else(|| preferred.clone());
        let own_model = if provider_id == preferred { self.session.model.clone() } else { None };
        let facts = opener.roster.providers.get(&provider_id).copied().unwrap_or_default();
        let run = Run {
            id: RunId(self.work.next_id()),
            fence: self.session.fence + 1,
            phase: Phase::Processing,
            model: wanted.model.or(own_model),
            can_steer: facts.can_steer,
            provider_id,
            cancel: None,
            tools: wanted.tools,
            moves_task,
            turn_started_at: now,
            started_at: now,
            ended_at: None,
            outcome: None,
        };
        self.event_started(&run, &items);
        for item in &items {
            self.put_item(Item { state: ItemState::Taken, ..item.clone() });
        }
        self.launch(run, items, Vec::new(), Vec::new(), opener.node);
    }

    /// Goes on with the open turn after its suspension was answered.
    pub(super) fn continue_run(
        &mut self,
        before: &Run,
        drafts: Vec<draft::Entry>,
        answered: (Suspension, Answer),
        opener: &Opener,
    ) {
        let run = Run {
            id: RunId(self.work.next_id()),
            fence: self.session.fence + 1,
            phase: Phase::Processing,
            can_steer: opener
                .roster
                .providers
                .get(&before.provider_id)
                .copied()
                .unwrap_or_default()
                .can_steer,
            cancel: None,
            started_at: self.now(),
            ended_at: None,
            outcome: None,
            ..before.clone()
        };
        self.work.event(Event::RunResumed { run_id: run.id, suspension_id: answered.0.id });
        let items = self.items_in(ItemState::Taken);
        let resumes = self.view.answered.iter().cloned().chain([answered]).collect();
        self.launch(run, items, drafts, resumes, opener.node);
    }

    fn event_started(&mut self, run: &Run, items: &[Item]) {
        self.work.event(Event::RunStarted {
            run_id: run.id,
            message_ids: items.iter().map(|item| item.message_id).collect(),
            provider_id: run.provider_id.clone(),
            model: run.model.clone(),
        });
    }

    fn launch(
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
                .map(|item| one_line(&item.text(), TITLE_MAX_CHARS))
                .filter(|title| !title.is_empty());
        }
        self.work.change(Change::PutRun(Box::new(run.clone())));
        self.opened =
            Some(Opened { run: run.clone(), items, head: self.session.head, drafts, resumes });
        self.run = Some(run);
    }

    /// A turn in which ctx answers by itself.
    fn turn_without_run(&mut self, items: Vec<Item>, notice: String) {
        let now = self.now();
        let mut messages: Vec<Message> = items.iter().map(said).collect();
        messages.push(self.notice(Part::Text { text: notice }));
        for item in &items {
            self.remove_item(item.message_id);
        }
        if self.session.status == Status::Suspended {
            self.session.status = Status::Active;
        }
        self.append_turn(About::at(now), messages);
    }

    fn notice(&mut self, part: Part) -> Message {
        let id = MessageId(self.work.next_id());
        Message {
            id,
            role: Role::System,
            source: None,
            content: vec![part],
            created_at: self.now(),
        }
    }

    fn append_turn(&mut self, about: About, messages: Vec<Message>) {
        let (ready, body) = Ready::new(about, messages);
        self.objects.push(body);
        self.append_ready(&ready);
    }

    /// Hangs a finished turn under the head.
    pub(super) fn append_ready(&mut self, ready: &Ready) -> TurnId {
        let record = ready.under(self.session.head);
        let id = record.id;
        add_turn(record).for_each(|change| self.work.change(change));
        self.work.event(Event::TurnCommitted { turn: Some(id) });
        self.session.head = Some(id);
        self.session.turn_count += 1;
        self.turn = Some(id);
        id
    }

    /// The turn that was just added is a compaction.
    pub(super) fn record_compaction(&mut self, compaction: &Compaction) {
        let Some(turn) = self.turn else { return };
        self.work.change(Change::PutCompaction(Box::new(compaction.clone())));
        self.work.event(Event::CompactionCompleted {
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
            self.work.change(Change::PutRun(Box::new(ended)));
        }
        self.session.owner = None;
        // Who cancels a worker knows; whoever started it is told of every other end.
        self.session.untold |=
            self.session.is_worker() && !matches!(outcome, Outcome::Suspended | Outcome::Cancelled);
        self.session.state =
            if outcome == Outcome::Suspended { Activity::Suspended } else { Activity::Idle };
    }

    /// What did not get into the run goes first.
    pub(super) fn return_steers(&mut self) {
        let late = self.items_in(ItemState::Steering);
        if !late.is_empty() {
            self.put_first(late);
        }
    }

    /// Closes the open turn with what was made of it, and releases what it waited for.
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
        let mut messages: Vec<Message> = taken.iter().map(said).chain(made).collect();
        if let Some(part) = notice {
            let notice = self.notice(part);
            messages.push(notice);
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
        for suspension in &self.view.suspensions {
            self.work.change(Change::ConsumeSuspension { id: suspension.id, answer: None });
        }
        for item in &taken {
            self.remove_item(item.message_id);
        }
        self.work.change(Change::ClearDrafts);
        self.return_steers();
        self.end(outcome);
        self.append_turn(about, messages);
    }

    /// The decision, with what the caller is told.
    pub(super) fn finish<R>(mut self, reply: R) -> Decision<R> {
        if self.session != self.view.session {
            self.work.change(Change::PutSession(Box::new(self.session)));
        }
        let mut decision = self.work.finish(reply);
        decision.objects = self.objects;
        decision
    }
}

/// A message of the inbox as it stands in history.
pub fn said(item: &Item) -> Message {
    Message {
        id: item.message_id,
        role: Role::User,
        source: Some(item.source),
        content: item.content.clone(),
        created_at: item.enqueued_at,
    }
}

/// What a judge of messages may know of a task.
pub fn situation(task: Option<&Task>) -> Situation<'_> {
    let question = match task.map(|task| &task.state) {
        Some(State::AwaitingUser { question, .. }) => Some(question.as_str()),
        _ => None,
    };
    Situation {
        state: task.map(|task| task.state.name()),
        question,
        task: task.map(|task| task.description.as_str()),
    }
}
