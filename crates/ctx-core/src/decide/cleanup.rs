//! Seal a task that nobody came back to, so that it neither blocks nor piles up (R106, R107, R109).

use crate::commit::CommitType;
use crate::stale;
use crate::task::State;
use crate::time::Span;

use super::abort::abandon;
use super::task_changes::TaskChanges;
use super::{CommitRecord, Decided, Decision, Invocation, SessionView};

/// Seals the open task if it lay longer than `max_idle`; otherwise nothing changes.
///
/// # Errors
/// None of its own; a session without a task is left as it is.
pub fn cleanup(
    view: &SessionView,
    max_idle: Span,
    invocation: &Invocation,
) -> Decided<Option<CommitRecord>> {
    let mut changes = TaskChanges::new(view, invocation);
    let Some(task) = changes.task().cloned() else { return Ok(Decision::unchanged(None)) };
    let idle = stale::idle(&task, changes.now());
    if idle > max_idle && matches!(task.state, State::Aborted { .. }) {
        abandon(&mut changes, None)?;
    } else if idle > max_idle {
        let message = stale::cleanup_message(idle, &task);
        changes
            .seal(CommitType::StaleAutoCompact { idle_duration_secs: idle.seconds() }, message)?;
    }
    Ok(changes.finish_with(|_, commit, _| commit))
}
