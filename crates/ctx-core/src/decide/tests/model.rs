//! A store in memory that is as strict as the real one: it applies decisions in order and panics on
//! a change that the real one could not make.

use std::collections::HashMap;

use ulid::Ulid;

use crate::commit::FileTouch;
use crate::decide::{
    self, Action, Change, CommitRecord, Decided, Decision, EndedRun, Event, Handled, Incorporated,
    Invocation, Moved, Recovered, SessionView, Settings, StepRecord,
};
use crate::id::{IdGenerator, NoteId, SessionId, StepId, TurnId};
use crate::inbox::{Item, ItemState};
use crate::intent::Intent;
use crate::message::Message;
use crate::object::Named;
use crate::outbox::{Outgoing, Spoken};
use crate::prompt::{Choice, Prompt};
use crate::refusal::Refusal;
use crate::run::{Outcome, Run};
use crate::session::{Activity, New, Origin, Session};
use crate::step::{Entry, Step};
use crate::stored_content::Content;
use crate::task::{State, StateName, Task};
use crate::time::{Span, Timestamp};
use crate::turn::{self, Header, Ready};
use crate::worker::WorkerState;

/// 2025-11-15T21:44:05Z.
pub(crate) const START: Timestamp = Timestamp(1_763_243_045_000);

/// The description of every task, unless a test uses another.
pub(crate) const TASK: &str = "Add retry logic to the HTTP client";

/// The replies of all rules about tasks, as one type, so that tables can hold any command.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Reply {
    pub(crate) task: Option<Task>,
    pub(crate) commit: Option<CommitRecord>,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) action: Option<Action>,
    pub(crate) text: Option<String>,
}

impl From<Task> for Reply {
    fn from(task: Task) -> Self {
        Self { task: Some(task), ..Self::default() }
    }
}

impl From<CommitRecord> for Reply {
    fn from(commit: CommitRecord) -> Self {
        Self { commit: Some(commit), ..Self::default() }
    }
}

impl From<Option<CommitRecord>> for Reply {
    fn from(commit: Option<CommitRecord>) -> Self {
        Self { commit, ..Self::default() }
    }
}

impl From<Moved> for Reply {
    fn from(Moved { task, commit }: Moved) -> Self {
        Self { task, commit, ..Self::default() }
    }
}

impl From<Incorporated> for Reply {
    fn from(Incorporated { task, user_message }: Incorporated) -> Self {
        Self { task: Some(task), text: Some(user_message), ..Self::default() }
    }
}

impl From<Recovered> for Reply {
    fn from(Recovered { text, task, commit, prompt }: Recovered) -> Self {
        Self { task, commit, prompt, action: None, text }
    }
}

impl From<Handled> for Reply {
    fn from(Handled { action, text, task, commit, prompt }: Handled) -> Self {
        Self { task, commit, prompt, action: Some(action), text }
    }
}

/// The result of a command.
pub(crate) type CommandResult = Result<Reply, Refusal>;

/// A command with its arguments.
pub(crate) type Command = fn(&mut Model) -> CommandResult;

/// One session, its clock and everything that was stored for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    pub(crate) view: SessionView,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) commits: Vec<CommitRecord>,
    pub(crate) ended: Vec<Task>,
    pub(crate) events: Vec<Event>,
    pub(crate) turns: Vec<(TurnId, Header)>,
    /// The messages of the turns whose body came with the decision.
    pub(crate) bodies: HashMap<TurnId, Vec<Message>>,
    pub(crate) dropped: Vec<Item>,
    pub(crate) sent: Vec<Outgoing>,
    seed: u128,
}

pub(crate) fn session() -> Session {
    New::idle(SessionId(Ulid(7)), "main".into(), "demo".into(), Origin::Cli, START).session()
}

/// A worker with this id that has nothing to report.
pub(crate) fn worker(id: u128, state: Activity) -> WorkerState {
    WorkerState {
        id: SessionId(Ulid(id)),
        label: format!("worker:{}", Ulid(id)),
        state,
        head: None,
        unreported: false,
        has_messages: false,
        awaits_answer: false,
    }
}

pub(crate) fn note(id: u128, text: &str) -> Entry {
    Entry::Note { id: NoteId(Ulid(id)), text: text.into() }
}

pub(crate) fn wrote(path: &str) -> Entry {
    Entry::FileWrite { path: path.into(), content: Some(Content::Text("fn main() {}".into())) }
}

impl Model {
    /// A session without a task.
    pub(crate) fn empty() -> Self {
        let view = SessionView::bare(session());
        Self {
            view,
            settings: Settings::default(),
            now: START,
            steps: Vec::new(),
            commits: Vec::new(),
            ended: Vec::new(),
            events: Vec::new(),
            turns: Vec::new(),
            bodies: HashMap::new(),
            dropped: Vec::new(),
            sent: Vec::new(),
            seed: 1 << 40,
        }
    }

    /// A session with a task in this state, reached by commands; `None` is a session without one.
    pub(crate) fn at(state: Option<StateName>) -> Self {
        let mut model = Self::empty();
        let Some(state) = state else { return model };
        model.start(TASK).expect("nothing is open");
        match state {
            StateName::Running => Ok(Reply::default()),
            StateName::AwaitingUser => model.ask("Fixed or exponential?"),
            StateName::Interrupted => model.interrupt("5 times, please"),
            StateName::PendingComplete => model.done("Retries 3 times"),
            StateName::Aborted => model.set_state(&State::Aborted { reason: "wrong idea".into() }),
            StateName::Complete => {
                // No command leaves a task in this state: completing seals. An older store may hold
                // one.
                model.force(State::Complete);
                Ok(Reply::default())
            }
        }
        .expect("a running task goes everywhere");
        model
    }

    /// Puts the open task into a state without checking the table.
    fn force(&mut self, state: State) {
        let task = self.view.task.as_mut().expect("a task is open");
        let step = self.steps.last_mut().expect("a task has a step");
        step.step.state = state.clone();
        step.object = step.step.encode();
        step.id = StepId(step.object.id());
        (task.state, task.head) = (state, step.id);
    }
}

/// Reading.
impl Model {
    pub(crate) fn invocation(&self) -> Invocation {
        Invocation { now: self.now, ids: IdGenerator::new(Ulid(self.seed)) }
    }

    pub(crate) fn task(&self) -> &Task {
        self.view.task.as_ref().expect("a task is open")
    }

    pub(crate) fn state(&self) -> Option<StateName> {
        self.view.task.as_ref().map(|task| task.state.name())
    }

    pub(crate) fn prompt(&self) -> &Prompt {
        self.view.prompt.as_ref().expect("a question is open")
    }

    pub(crate) fn last_step(&self) -> &Step {
        &self.steps.last().expect("there are steps").step
    }

    pub(crate) fn commit(&self) -> &crate::commit::Commit {
        &self.commits.last().expect("there is a commit").commit
    }

    /// The text of every note, oldest first.
    pub(crate) fn notes(&self) -> Vec<&str> {
        self.steps.iter().flat_map(|record| record.step.notes()).collect()
    }

    pub(crate) fn last_note(&self) -> &str {
        self.notes().last().copied().expect("there are notes")
    }
}

/// Executing.
impl Model {
    pub(crate) fn wait(&mut self, span: Span) -> &mut Self {
        self.now =
            Timestamp(self.now.0 + i64::try_from(span.0).expect("a test waits for years at most"));
        self
    }

    /// Decides twice with the same result, and applies the decision.
    pub(crate) fn run<R>(
        &mut self,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R>,
    ) -> CommandResult
    where
        R: Clone + std::fmt::Debug + PartialEq + Into<Reply>,
    {
        let invocation = self.invocation();
        let decided = rule(&self.view, &invocation);
        assert_eq!(
            decided,
            rule(&self.view, &invocation),
            "the same view and time must give the same decision"
        );
        let decision = decided?;
        let (reply, commits) = (decision.reply.clone().into(), self.commits.len());
        self.apply(decision);
        self.check_reply(&reply, commits);
        Ok(reply)
    }

    pub(crate) fn start(&mut self, text: &str) -> CommandResult {
        self.run(|view, invocation| decide::start(view, text, invocation))
    }

    pub(crate) fn observe(&mut self, entries: &[Entry]) -> CommandResult {
        self.run(|view, invocation| decide::observe(view, entries, invocation))
    }

    pub(crate) fn ask(&mut self, text: &str) -> CommandResult {
        self.run(|view, invocation| decide::ask(view, text, invocation))
    }

    pub(crate) fn answer(&mut self, text: &str) -> CommandResult {
        self.run(|view, invocation| decide::answer(view, text, invocation))
    }

    pub(crate) fn interrupt(&mut self, text: &str) -> CommandResult {
        self.run(|view, invocation| decide::interrupt(view, text, invocation))
    }

    pub(crate) fn incorporate(&mut self) -> CommandResult {
        self.run(decide::incorporate)
    }

    pub(crate) fn done(&mut self, text: &str) -> CommandResult {
        self.run(|view, invocation| decide::done(view, text, invocation))
    }

    pub(crate) fn more(&mut self, text: &str) -> CommandResult {
        self.run(|view, invocation| decide::more(view, text, invocation))
    }

    pub(crate) fn confirm(&mut self) -> CommandResult {
        self.run(decide::confirm)
    }

    pub(crate) fn set_state(&mut self, state: &State) -> CommandResult {
        self.run(|view, invocation| decide::set_state(view, state, invocation))
    }

    pub(crate) fn seal(&mut self, text: Option<&str>) -> CommandResult {
        self.run(|view, invocation| decide::seal(view, text, invocation))
    }

    pub(crate) fn abort(&mut self, text: Option<&str>) -> CommandResult {
        self.run(|view, invocation| decide::abort(view, text, invocation))
    }

    pub(crate) fn message(&mut self, text: &str, intent: Intent) -> CommandResult {
        let settings = self.settings.clone();
        self.run(|view, invocation| decide::message(view, text, intent, &settings, invocation))
    }

    pub(crate) fn choose(&mut self, choice: Choice) -> CommandResult {
        let settings = self.settings.clone();
        self.run(|view, invocation| decide::choose(view, choice, &settings, invocation))
    }

    pub(crate) fn recover(&mut self) -> CommandResult {
        let settings = self.settings.clone();
        self.run(|view, invocation| decide::recover(view, &settings, invocation))
    }

    pub(crate) fn cleanup(&mut self, max_idle: Span) -> CommandResult {
        self.run(|view, invocation| decide::cleanup(view, max_idle, invocation))
    }
}

/// Applying.
impl Model {
    /// The task, the commit and the question in a reply are those that are stored.
    fn check_reply(&self, reply: &Reply, commits_before: usize) {
        if reply.task.is_some() {
            assert_eq!(reply.task, self.view.task, "the reply has the open task");
        }
        if reply.prompt.is_some() {
            assert_eq!(reply.prompt, self.view.prompt, "the reply has the open question");
        }
        assert_eq!(
            reply.commit.as_ref(),
            self.commits.get(commits_before),
            "the reply has the commit"
        );
    }

    pub(crate) fn apply<R>(&mut self, decision: Decision<R>) {
        let commits_before = self.commits.len();
        let mut unstored: Option<StepRecord> = None;
        for change in decision.changes {
            match change {
                Change::AppendStep(record) => {
                    assert_eq!(
                        record.object.decode::<Step>().as_ref(),
                        Ok(&record.step),
                        "a step reads back"
                    );
                    assert_eq!(record.id.0, record.object.id(), "a step is named by its bytes");
                    unstored = Some((*record).clone());
                    self.steps.push(*record);
                }
                Change::AppendCommit(record) => {
                    let head: Vec<_> = self.view.project_head.into_iter().collect();
                    assert_eq!(
                        record.commit.parents, head,
                        "a commit hangs off the project's head"
                    );
                    assert_eq!(record.id.0, record.object.id(), "a commit is named by its bytes");
                    assert!(
                        self.commits.iter().all(|other| other.commit.task != record.commit.task),
                        "one commit a task"
                    );
                    self.view.project_head = Some(record.id);
                    self.commits.push(*record);
                }
                Change::PutTask(task) => {
                    let newest = unstored.take().expect("a task's row changes with a step");
                    assert_eq!(
                        (task.id, task.head),
                        (newest.step.task, newest.id),
                        "the row points at its newest step"
                    );
                    self.put_task(*task);
                }
                Change::SetPrompt(prompt) => self.view.prompt = prompt.map(|prompt| *prompt),
                other => self.talked(other, &decision.objects),
            }
        }
        assert_eq!(unstored, None, "every step is followed by its task's row");
        assert!(self.commits.len() <= commits_before + 1, "one command seals at most one task");
        self.events.extend(decision.events);
        self.seed += 1 << 20;
    }

    /// Applies a change that is not about a task.
    fn talked(&mut self, change: Change, objects: &[Named]) {
        let view = &mut self.view;
        match change {
            Change::AppendTurn(record) => {
                let header: Header = record.object.decode().expect("a header");
                assert_eq!(header.parent, view.session.head, "a turn hangs off the head");
                if let Some(body) = objects.iter().find(|object| object.id() == record.body) {
                    let messages =
                        turn::messages(&header, body.object()).expect("a body reads back");
                    assert_eq!(
                        turn::blobs(&messages),
                        record.blobs,
                        "the blobs of a turn are those of its words"
                    );
                    self.bodies.insert(record.id, messages);
                }
                view.session.head = Some(record.id);
                view.session.turn_count += 1;
                self.turns.push((record.id, header));
            }
            Change::PutCompaction(_) => {
                let kind = self.turns.last().map(|(_, header)| header.kind);
                assert_eq!(
                    kind,
                    Some(turn::Kind::Compaction),
                    "the row is of the turn that was just added"
                );
            }
            Change::MoveHead { turn, depth } => {
                view.session.head = turn;
                view.session.turn_count = depth;
            }
            Change::LinkWorker { turn, .. } => {
                assert_eq!(Some(turn), view.session.head, "a worker is linked to the new turn");
            }
            Change::MarkReported { worker, head } => {
                for known in view.workers.iter_mut().filter(|known| known.id == worker) {
                    known.unreported &= known.head != Some(head);
                }
            }
            Change::PutSession(session) => {
                assert_eq!((session.id, session.head), (view.session.id, view.session.head));
                assert!(session.fence >= view.session.fence, "a fence only rises");
                view.session = *session;
            }
            Change::PutItem(item) => {
                view.inbox.retain(|other| other.message_id != item.message_id);
                if item.state == ItemState::Dropped {
                    self.dropped.push(*item);
                } else {
                    view.inbox.push(*item);
                    view.inbox.sort_by_key(|item| item.position);
                }
            }
            Change::RemoveItem(id) => view.inbox.retain(|item| item.message_id != id),
            Change::PutRun(run) => {
                let open = view.run.as_ref().filter(|open| open.ended_at.is_none());
                assert!(open.is_none_or(|open| open.id == run.id), "one run at a time");
                view.run = Some(*run);
            }
            Change::AppendDrafts(entries) => view.drafts.extend(entries),
            Change::ClearDrafts => view.drafts.clear(),
            Change::PutSuspension(suspension) => view.suspensions.push(*suspension),
            Change::ConsumeSuspension { id, .. } => {
                view.suspensions.retain(|suspension| suspension.id != id);
            }
            Change::PutOutgoing(outgoing) => self.sent.push(*outgoing),
            other => panic!("no rule of one session makes {other:?}"),
        }
    }

    fn put_task(&mut self, task: Task) {
        assert!(self.ended.iter().all(|ended| ended.id != task.id), "an ended task stays ended");
        let open = self.view.task.as_ref().map(|open| open.id);
        assert!(open.is_none_or(|open| open == task.id), "at most one task is open");
        assert_eq!(
            task.commit.is_some(),
            self.commits.iter().any(|record| record.commit.task == task.id)
        );
        if task.ended_at.is_some() {
            self.view.files.clear();
            self.view.task = None;
            self.ended.push(task);
        } else {
            self.view.files = self.files_of(&task);
            self.view.task = Some(task);
        }
    }

    fn files_of(&self, task: &Task) -> Vec<FileTouch> {
        let mut files = std::collections::BTreeMap::new();
        for entry in
            self.steps.iter().filter(|r| r.step.task == task.id).flat_map(|r| &r.step.payload)
        {
            if let Entry::FileRead { path, .. } | Entry::FileWrite { path, .. } = entry {
                let written = matches!(entry, Entry::FileWrite { .. });
                let touch = files.entry(path.clone()).or_insert(FileTouch {
                    path: path.clone(),
                    written,
                    blob: None,
                });
                touch.written |= written;
            }
        }
        files.into_values().collect()
    }
}

/// A run that completed with a turn, and with nothing else to report.
pub(crate) fn completed(run: &Run, ready: Ready) -> EndedRun {
    EndedRun {
        run: run.id,
        fence: run.fence,
        ready,
        outcome: Outcome::Completed,
        code: None,
        messages: Vec::new(),
        last_text: None,
        events: Vec::new(),
        injected: Vec::new(),
        observed: Vec::new(),
        agent: None,
        spoken: Spoken::default(),
        compaction: None,
        keeps_agent: false,
    }
}
