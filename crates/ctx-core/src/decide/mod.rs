//! The rules: one file per command, each a pure function of what is, what is wanted and the time.
//!
//! A rule returns a [`Decision`]: changes that the store makes in one transaction, events for the feed,
//! and what the caller is told. It runs *inside* that transaction, on the rows the transaction read, so
//! nothing can move between the look and the leap. It may be run again (after a rollback) and must then
//! decide the same; that is why time and ids come in as arguments.

mod abort;
mod answer;
mod append_turn;
mod ask;
mod choose;
mod cleanup;
mod confirm;
mod create_session;
mod done;
mod import;
mod incorporate;
mod interrupt;
mod message;
mod more;
mod observe;
mod recover;
mod seal;
mod set_state;
mod start;
mod work;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use abort::abort;
pub use answer::answer;
pub use append_turn::append_turn;
pub use ask::ask;
pub use choose::choose;
pub use cleanup::cleanup;
pub use confirm::confirm;
pub use create_session::create_session;
pub use done::done;
pub use import::{Import, import};
pub use incorporate::incorporate;
pub use interrupt::interrupt;
pub use message::{Action, message};
pub use more::more;
pub use observe::{OBSERVATIONS_MAX, observe};
pub use recover::recover;
pub use seal::seal;
pub use set_state::set_state;
pub use start::start;

use serde::Serialize;

use crate::commit::{Commit, FileTouch};
use crate::id::{CommitId, Mint, StepId, TaskId, TurnId};
use crate::object::Object;
use crate::prompt::Prompt;
use crate::refusal::Refusal;
use crate::session::{self, Session};
use crate::stale;
use crate::step::Step;
use crate::task::Task;
use crate::time::Timestamp;
use crate::turn;

/// Everything a rule may look at, as one transaction read it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// The session's row.
    pub session: Session,
    /// The task that is not sealed yet.
    pub task: Option<Task>,
    /// The question that waits for a choice.
    pub prompt: Option<Prompt>,
    /// The newest commit of the session's project.
    pub project_head: Option<CommitId>,
    /// What the open task touched; read only for commands that may seal.
    pub files: Vec<FileTouch>,
    /// The first turn after the open task began, for the same commands.
    pub first_turn: Option<TurnId>,
    /// How many turns there are since then.
    pub turns_since: u64,
    /// The task that an import names, if it is known here.
    pub known_task: Option<Task>,
    /// Whether the newest step of that import is in that task's chain here.
    pub known_step: bool,
}

/// What a command needs to see beyond the session's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The open task, the question and the project's head.
    pub work: bool,
    /// The files and turns of the open task: the command may seal it.
    pub to_seal: bool,
    /// A task by id, and whether it has this step.
    pub import: Option<(TaskId, StepId)>,
}

/// When, and the ids to give out.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Now.
    pub now: Timestamp,
    /// Ids, counted from a seed.
    pub mint: Mint,
}

/// What to do with a new task while another is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNewTask {
    /// Ask.
    #[default]
    Ask,
    /// Seal the open one and start.
    Auto,
}

/// What the user set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The clocks of tasks.
    pub stale: stale::Config,
    /// New tasks while busy.
    pub on_new_task: OnNewTask,
}

/// A step to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// Its name.
    pub id: StepId,
    /// Its place in the task's chain, from 1.
    pub seq: u64,
    /// What was hashed.
    pub step: Step,
    /// The stored bytes.
    pub object: Object,
}

/// A commit to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitRecord {
    /// Its name.
    pub id: CommitId,
    /// What was hashed.
    pub commit: Commit,
    /// The stored bytes.
    pub object: Object,
}

/// One change of the transaction, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new session row.
    CreateSession(Box<session::New>),
    /// A turn; the session's head moves to it.
    AppendTurn(Box<turn::Record>),
    /// A step of the task that a later [`Change::PutTask`] stores.
    AppendStep(Box<StepRecord>),
    /// A commit; the project's head moves to it.
    AppendCommit(Box<CommitRecord>),
    /// The task's row as it is now; an open one is the session's task and its head the session's STAGE.
    PutTask(Box<Task>),
    /// The session's open question, or none.
    SetPrompt(Option<Box<Prompt>>),
}

/// Something for the feed. It refers, it does not repeat: whoever needs the words reads the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
#[allow(missing_docs, reason = "the names are the API's")]
pub enum Event {
    #[serde(rename = "session.created")]
    SessionCreated,
    #[serde(rename = "turn.committed")]
    TurnCommitted { turn: TurnId },
    #[serde(rename = "task.updated")]
    TaskUpdated { task: TaskId, state: &'static str },
    #[serde(rename = "task.sealed")]
    TaskSealed { task: TaskId, commit: CommitId },
    #[serde(rename = "prompt.opened")]
    PromptOpened { prompt: crate::id::PromptId },
    #[serde(rename = "prompt.answered")]
    PromptAnswered { prompt: crate::id::PromptId, choice: &'static str },
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The task that is open now.
    pub task: Option<Task>,
    /// The commit that was made.
    pub commit: Option<CommitRecord>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
    /// What was done with a message.
    pub action: Option<Action>,
    /// What to say to the user.
    pub text: Option<String>,
    /// The turn that was added.
    pub turn: Option<TurnId>,
}

/// What a rule decided.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// For the store, in order; nothing to do if empty.
    pub changes: Vec<Change>,
    /// For the feed, in order.
    pub events: Vec<Event>,
    /// For the caller.
    pub reply: Reply,
}

/// What every rule returns.
pub type Decided = Result<Decision, Refusal>;
