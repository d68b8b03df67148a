//! Seal a task that was left for too long (R106, R107, R109).

use crate::commit::CommitType;
use crate::stale;
use crate::task::State;
use crate::time::Span;

use super::abort::abandon;
use super::task_changes::TaskChanges;
use super::{CommitRecord, Decided, Decision, Invocation, SessionView};

/// Seals the open task if it was idle for longer than `max_idle`; changes nothing otherwise.
///
/// Never fails; a session without a task is left unchanged.
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
