//! Give the task up: → aborted → sealed as abandoned, with all that was done (R23, R25, R29, R33, R78).

use crate::commit::CommitType;
use crate::refusal::Refusal;
use crate::task::State;

use super::task_changes::{TaskChanges, text};
use super::{CommitRecord, Decided, Invocation, SessionView};

/// What the commit of a task that the user gave up says (R84).
pub(super) const ABANDONED: &str = "Abandoned by user";

/// Abandons the open task and seals it.
///
/// # Errors
/// If no task is open, or the reason is no text.
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
