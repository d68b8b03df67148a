//! Abort the open task: → aborted → sealed as abandoned, with all of its steps (R23, R25, R29, R33,
//! R78).

use crate::commit::CommitType;
use crate::refusal::Refusal;
use crate::task::State;

use super::task_changes::{TaskChanges, text};
use super::{CommitRecord, Decided, Invocation, SessionView};

/// Commit message of a task that the user aborted (R84).
pub(super) const ABANDONED: &str = "Abandoned by user";

/// Aborts the open task and seals it.
///
/// Fails if no task is open, or the reason is empty or too long.
pub fn abort(
    view: &SessionView,
    reason: Option<&str>,
    invocation: &Invocation,
) -> Decided<CommitRecord> {
    let reason = reason.map(|r| text("reason", r)).transpose()?;
    let mut changes = TaskChanges::new(view, invocation);
    abandon(&mut changes, reason.as_deref())?;
    changes.finish_sealed()
}

pub(super) fn abandon(changes: &mut TaskChanges<'_>, reason: Option<&str>) -> Result<(), Refusal> {
    if !matches!(changes.open_task()?.state, State::Aborted { .. }) {
        let reason = reason.unwrap_or(ABANDONED).to_owned();
        changes.move_to(State::Aborted { reason }, vec![])?;
    }
    let message =
        reason.map_or_else(|| ABANDONED.to_owned(), |reason| format!("{ABANDONED}: {reason}"));
    changes.seal(CommitType::Abandoned, message)
}
