//! The accumulated changes of a rule about a task.
//!
//! Every change of a task's state goes through [`TaskChanges::move_to`] and so through the table of
//! transitions. Every step is appended to the newest one. A task ends only in [`TaskChanges::seal`]
//! or [`TaskChanges::drop_task`].

use crate::commit::{Commit, CommitType, StepRange, TurnRange};
use crate::id::{CommitId, MessageId, NoteId, PromptId, StepId, TaskId, TurnId};
use crate::message::{Message, Part};
use crate::object::Named;
use crate::prompt::{Pending, Prompt};
use crate::refusal::Refusal;
use crate::step::{Entry, Kind, Step};
use crate::task::{Progress, State, StateName, Task, transition};
use crate::text_limits::{TASK_TEXT_MAX_BYTES, TEXT_MAX_BYTES, check, one_line};
use crate::turn::{About, Ready};

use super::{
    Batch, Change, CommitRecord, Decided, Decision, Event, Invocation, PromptEnd, SessionView,
    StepRecord, add_turn, notice,
};

pub(super) struct TaskChanges<'a> {
    view: &'a SessionView,
    invocation: Invocation,
    task: Option<Task>,
    prompt: Option<Prompt>,
    project_head: Option<CommitId>,
    commit: Option<CommitRecord>,
    ended: Option<Task>,
    /// The first and the last turn that this decision appends, and their number.
    appended: Option<TurnRange>,
    delivers: bool,
    notices: Vec<String>,
    changes: Vec<Change>,
    events: Vec<Event>,
    touched: bool,
}

impl<'a> TaskChanges<'a> {
    pub(super) fn new(view: &'a SessionView, invocation: &Invocation) -> Self {
        Self {
            view,
            invocation: invocation.clone(),
            task: view.task.clone(),
            prompt: view.prompt.clone(),
            project_head: view.project_head,
            commit: None,
            ended: None,
            appended: None,
            delivers: false,
            notices: Vec::new(),
            changes: Vec::new(),
            events: Vec::new(),
            touched: false,
        }
    }

    /// For a session that an agent works in: messages are delivered to the agent.
    pub(super) fn delivering(self) -> Self {
        Self { delivers: true, ..self }
    }

    /// Whether messages are delivered to an agent. If not, only the task is updated.
    pub(super) const fn delivers(&self) -> bool {
        self.delivers
    }

    /// Adds a notice for the transcript.
    pub(super) fn notify(&mut self, text: String) {
        self.notices.push(text);
    }

    /// The notices that no turn contains yet, as messages.
    pub(super) fn take_notices(&mut self) -> Vec<Message> {
        let (texts, at) = (std::mem::take(&mut self.notices), self.now());
        let as_message = |text| notice::message(MessageId(self.next_id()), Part::Text { text }, at);
        texts.into_iter().map(as_message).collect()
    }

    /// A turn was appended by this decision: it belongs to the task that is open.
    pub(super) fn turn_appended(&mut self, turn: TurnId) {
        let before = self.appended.take();
        let first = before.as_ref().map_or(turn, |range| range.first);
        let count = before.map_or(0, |range| range.count) + 1;
        self.appended = Some(TurnRange { first, last: turn, count });
    }

    /// The task that this decision ended.
    pub(super) fn ended(&self) -> Option<&Task> {
        self.ended.as_ref()
    }

    pub(super) fn now(&self) -> crate::time::Timestamp {
        self.invocation.now
    }

    pub(super) fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    pub(super) fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    pub(super) fn open_task(&self) -> Result<&Task, Refusal> {
        self.task.as_ref().ok_or(Refusal::NoTask)
    }

    /// A note entry with a new id.
    pub(super) fn note(&mut self, text: String) -> Entry {
        Entry::Note { id: NoteId(self.invocation.ids.next_id()), text }
    }

    /// Adds a row change that is not about the task.
    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds an event to the feed.
    pub(super) fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn next_id(&mut self) -> ulid::Ulid {
        self.invocation.ids.next_id()
    }

    /// The commit that this decision makes.
    pub(super) fn commit(&self) -> Option<&CommitRecord> {
        self.commit.as_ref()
    }

    /// Opens a task with its first step.
    pub(super) fn start(&mut self, description: &str) -> Result<(), Refusal> {
        if let Some(open) = &self.task {
            return Err(Refusal::TaskOpen { description: open.description.clone() });
        }
        transition(None, Some(StateName::Running))?;
        let now = self.now();
        let id = TaskId(self.invocation.ids.next_id());
        let step = Step {
            parent: None,
            base: self.project_head,
            session: self.view.session.id,
            task: id,
            kind: Kind::SessionStart,
            payload: vec![Entry::Task { description: description.to_owned() }],
            state: State::Running,
            timestamp: now,
        };
        let head = self.store_step(1, step);
        self.task = Some(Task {
            id,
            session: self.view.session.id,
            description: description.to_owned(),
            state: State::Running,
            progress: Progress::default(),
            steps: 1,
            head,
            base: self.project_head,
            base_turn: self.view.session.head,
            started_at: now,
            last_activity_at: now,
            ended_at: None,
            commit: None,
        });
        self.touched = true;
        Ok(())
    }

    /// Appends a step; the task keeps its state.
    pub(super) fn append(&mut self, kind: Kind, payload: Vec<Entry>) -> Result<(), Refusal> {
        let state = self.open_task()?.state.clone();
        self.append_in(kind, payload, state)
    }

    /// Moves the task to a state, by the table, with the records of that transition.
    pub(super) fn move_to(&mut self, state: State, mut payload: Vec<Entry>) -> Result<(), Refusal> {
        let from = self.task.as_ref().map(|task| task.state.name());
        let to = state.name();
        if from.is_none() {
            return Err(Refusal::NoTask);
        }
        transition(from, Some(to))?;
        if to == StateName::Aborted {
            self.note_unanswered()?;
        }
        payload.push(Entry::Moved { from, to });
        self.append_in(Kind::State, payload, state)
    }

    /// Appends a step with another value of the same state.
    pub(super) fn append_with_state(
        &mut self,
        kind: Kind,
        payload: Vec<Entry>,
        state: State,
    ) -> Result<(), Refusal> {
        debug_assert_eq!(self.task.as_ref().map(|task| task.state.name()), Some(state.name()));
        self.append_in(kind, payload, state)
    }

    /// Appends one step for several allowed transitions, each an entry of the payload.
    pub(super) fn append_transitions(
        &mut self,
        payload: Vec<Entry>,
        state: State,
    ) -> Result<(), Refusal> {
        for entry in &payload {
            if let Entry::Moved { from, to } = entry {
                transition(*from, Some(*to))?;
            }
        }
        self.append_in(Kind::State, payload, state)
    }

    /// Appends a note that does not count as work of the agent.
    pub(super) fn append_note(&mut self, text: String) -> Result<(), Refusal> {
        let note = self.note(text);
        self.append(Kind::State, vec![note])
    }

    /// Closes the open question before its task ends, and keeps its message as a note.
    fn note_unanswered(&mut self) -> Result<(), Refusal> {
        let Some(prompt) = self.close_prompt(PromptEnd::Closed) else { return Ok(()) };
        match prompt.pending {
            Pending::Stale { user_message: kept, .. }
            | Pending::NewTask { new_task: kept }
            | Pending::Unclear { user_message: kept } => {
                self.append_note(format!("Left unanswered: {kept}"))
            }
            Pending::Resume => Ok(()),
        }
    }

    fn append_in(&mut self, kind: Kind, payload: Vec<Entry>, state: State) -> Result<(), Refusal> {
        let now = self.now();
        let mut task = self.task.take().ok_or(Refusal::NoTask)?;
        task.steps += 1;
        task.state = state.clone();
        task.last_activity_at = now;
        let step = Step {
            parent: Some(task.head),
            base: task.base,
            session: self.view.session.id,
            task: task.id,
            kind,
            payload,
            state,
            timestamp: now,
        };
        task.progress.add(&step);
        task.head = self.store_step(task.steps, step);
        self.task = Some(task);
        self.touched = true;
        Ok(())
    }

    fn store_step(&mut self, seq: u64, step: Step) -> StepId {
        let object = step.encode();
        let id = StepId(object.id());
        self.changes.push(Change::AppendStep(Box::new(StepRecord { id, seq, step, object })));
        id
    }

    /// Turns the open task into a commit and ends it, in any state. The calling rule decides which
    /// states may be sealed as what.
    pub(super) fn seal(&mut self, commit_type: CommitType, message: String) -> Result<(), Refusal> {
        self.note_unanswered()?;
        self.append(Kind::Compact, vec![])?;
        let mut task = self.task.take().ok_or(Refusal::NoTask)?;
        let commit = self.commit_of(&task, commit_type, message);
        let object = commit.encode();
        let id = CommitId(object.id());
        task.commit = Some(id);
        self.project_head = Some(id);
        self.events.push(Event::TaskSealed { task: task.id, commit: id });
        self.notify(notice::sealed(&task, &commit.commit_type, id, &self.view.session));
        let record = CommitRecord { id, commit, object };
        self.changes.push(Change::AppendCommit(Box::new(record.clone())));
        self.commit = Some(record);
        self.end(task);
        Ok(())
    }

    /// Ends a task without recorded work, without a commit.
    pub(super) fn drop_task(&mut self, reason: &str) -> Result<(), Refusal> {
        self.move_to(State::Aborted { reason: reason.to_owned() }, vec![])?;
        let task = self.task.take().ok_or(Refusal::NoTask)?;
        self.events.push(Event::TaskUpdated { task: task.id, state: task.state.name() });
        self.notify(notice::dropped(&task));
        self.end(task);
        Ok(())
    }

    fn end(&mut self, mut task: Task) {
        task.ended_at = Some(self.now());
        self.changes.push(Change::PutTask(Box::new(task.clone())));
        self.ended = Some(task);
        self.touched = false;
    }

    fn commit_of(&self, task: &Task, commit_type: CommitType, message: String) -> Commit {
        let view = self.view;
        let is_viewed = view.task.as_ref().is_some_and(|viewed| viewed.id == task.id);
        let stored = view.first_turn.zip(view.session.head).map(|(first, last)| TurnRange {
            first,
            last,
            count: view.turns_since,
        });
        let turns = match (stored, &self.appended) {
            (Some(stored), Some(new)) => {
                Some(TurnRange { last: new.last, count: stored.count + new.count, ..stored })
            }
            (stored, new) => stored.or(*new),
        };
        Commit {
            parents: self.project_head.into_iter().collect(),
            project: view.session.project.clone(),
            session: view.session.id,
            task: task.id,
            description: task.description.clone(),
            message,
            commit_type,
            state: task.state.clone(),
            steps: StepRange { last: task.head, count: task.steps },
            turns: turns.filter(|_| is_viewed),
            files: if is_viewed { view.files.clone() } else { Vec::new() },
            started_at: task.started_at,
            created_at: self.now(),
        }
    }

    /// Opens a question with two choices.
    pub(super) fn ask_choice(&mut self, pending: Pending, text: String) {
        let prompt = Prompt {
            id: PromptId(self.invocation.ids.next_id()),
            pending,
            text,
            opened_at: self.now(),
        };
        self.events.push(Event::PromptOpened { prompt: prompt.id });
        self.changes.push(Change::SetPrompt(Some(Box::new(prompt.clone()))));
        self.prompt = Some(prompt);
    }

    pub(super) fn close_prompt(&mut self, choice: PromptEnd) -> Option<Prompt> {
        let prompt = self.prompt.take()?;
        self.events.push(Event::PromptAnswered { prompt: prompt.id, choice });
        self.changes.push(Change::SetPrompt(None));
        Some(prompt)
    }

    /// The decision, with a reply made of the open task, the commit that was made and the open
    /// question.
    pub(super) fn finish_with<R>(
        mut self,
        reply: impl FnOnce(Option<Task>, Option<CommitRecord>, Option<Prompt>) -> R,
    ) -> Decision<R> {
        if let Some(task) = self.task.as_ref().filter(|_| self.touched) {
            self.events.push(Event::TaskUpdated { task: task.id, state: task.state.name() });
            self.changes.push(Change::PutTask(Box::new(task.clone())));
        }
        let objects = self.append_notices().into_iter().collect();
        let batch = Batch { changes: self.changes, events: self.events, objects };
        Decision::new(batch, reply(self.task, self.commit, self.prompt))
    }

    /// Adds a turn with the notices that are left, if an agent works in the session. Where only the
    /// work is recorded, the recorder returns the commit. Returns the body of the turn.
    fn append_notices(&mut self) -> Option<Named> {
        let mut session = self.view.session.clone();
        let messages = self.take_notices();
        if session.head.is_none() || !session.track_tasks || messages.is_empty() {
            return None;
        }
        let (ready, body) = Ready::new(About::at(self.now()), messages);
        let record = ready.with_parent(session.head);
        session.head = Some(record.id);
        session.turn_count += 1;
        self.emit(Event::TurnCommitted { turn: session.head });
        self.changes.extend(add_turn(record));
        self.changes.push(Change::PutSession(Box::new(session)));
        Some(body)
    }

    /// The decision of a rule whose reply does not contain the task.
    pub(super) fn finish<R>(self, reply: R) -> Decision<R> {
        self.finish_with(|_, _, _| reply)
    }

    /// The decision of a rule that leaves a task open.
    pub(super) fn finish_open(self) -> Decided<Task> {
        let (batch, task) = self.finish_with(|task, _, _| task).into_parts();
        Ok(Decision::new(batch, task.ok_or(Refusal::NoTask)?))
    }

    /// The decision of a rule that seals the task.
    pub(super) fn finish_sealed(self) -> Decided<CommitRecord> {
        let (batch, commit) = self.finish_with(|_, commit, _| commit).into_parts();
        Ok(Decision::new(batch, commit.ok_or(Refusal::NoTask)?))
    }
}

/// Checks a text that is stored in a record.
pub(super) fn text(what: &'static str, text: &str) -> Result<String, Refusal> {
    check(text, TEXT_MAX_BYTES).map(str::to_owned).map_err(|why| Refusal::BadText { what, why })
}

/// Checks the description of a task.
pub(super) fn task_text(text: &str) -> Result<String, Refusal> {
    check(text, TASK_TEXT_MAX_BYTES)
        .map(str::to_owned)
        .map_err(|why| Refusal::BadText { what: "task", why })
}

/// A task description from a message. A long message is described by its first line and returned as
/// a note.
pub(super) fn task_from_message(message: &str) -> (String, Option<String>) {
    if message.len() <= TASK_TEXT_MAX_BYTES {
        (message.to_owned(), None)
    } else {
        (one_line(message, 200), Some(message.to_owned()))
    }
}
