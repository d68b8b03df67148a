//! Tasks: one unit of work inside a session. A session has at most one open task.

mod progress;
mod state;

pub use progress::Progress;
pub use state::{InvalidTransition, State, StateName, path_to_complete, transition};

use crate::id::{CommitId, SessionId, StepId, TaskId, TurnId};
use crate::time::Timestamp;

/// A task row, as far as rules read it. An open task has no `ended_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Task {
    /// The same id in every store.
    pub id: TaskId,
    pub session: SessionId,
    /// What should be done.
    pub description: String,
    pub state: State,
    pub progress: Progress,
    /// Number of steps.
    pub steps: u64,
    /// The newest step.
    pub head: StepId,
    /// The newest commit of the project when the task was started.
    pub base: Option<CommitId>,
    /// The head of the session when the task was started.
    pub base_turn: Option<TurnId>,
    pub started_at: Timestamp,
    /// When the newest step was stored. Idle time is counted from here.
    pub last_activity_at: Timestamp,
    /// When the task was sealed or dropped.
    pub ended_at: Option<Timestamp>,
    /// The commit that the task was sealed into.
    pub commit: Option<CommitId>,
}

impl Task {
    /// Whether the task has work that a commit should record.
    pub const fn has_meaningful_work(&self) -> bool {
        self.progress.work() > 0 || self.progress.last_summary.is_some()
    }

    /// The default message of the commit.
    pub fn summary(&self) -> &str {
        match &self.state {
            State::PendingComplete { summary } => summary,
            _ => self.progress.last_summary.as_deref().unwrap_or(&self.description),
        }
    }
}
