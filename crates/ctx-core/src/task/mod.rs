//! Tasks: one unit of work inside a session, spanning any number of messages, runs and pauses.

mod progress;
mod state;

pub use progress::Progress;
pub use state::{InvalidTransition, State, StateName, transition, way_to_complete};

use crate::id::{CommitId, SessionId, StepId, TaskId, TurnId};
use crate::time::Timestamp;

/// A task as rules see it. An open one has no `ended_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its id for ever, also on other machines.
    pub id: TaskId,
    /// The session it is worked on in.
    pub session: SessionId,
    /// What is to be done.
    pub description: String,
    /// Where the work stands.
    pub state: State,
    /// What has been done, kept small.
    pub progress: Progress,
    /// How many steps there are.
    pub steps: u64,
    /// The newest step.
    pub head: StepId,
    /// The project's commit that it started from.
    pub base: Option<CommitId>,
    /// The session's newest turn when it started.
    pub base_turn: Option<TurnId>,
    /// When it started.
    pub started_at: Timestamp,
    /// When the newest step was written; idle time is counted from here.
    pub last_activity_at: Timestamp,
    /// When it was sealed or dropped.
    pub ended_at: Option<Timestamp>,
    /// What it was sealed into.
    pub commit: Option<CommitId>,
}

impl Task {
    /// Whether sealing it would keep something that is worth keeping.
    pub const fn has_meaningful_work(&self) -> bool {
        self.progress.work() > 0 || self.progress.last_summary.is_some()
    }

    /// What its commit should say if nobody says otherwise.
    pub fn summary(&self) -> &str {
        match &self.state {
            State::PendingComplete { summary } => summary,
            _ => self.progress.last_summary.as_deref().unwrap_or(&self.description),
        }
    }
}
