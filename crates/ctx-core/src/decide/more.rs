//! Request more work: pending_complete → running (R28, R44).

use crate::refusal::Refusal;
use crate::task::{State, StateName, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Records the request as a note and continues the task.
///
/// Fails if the task is not pending completion, or the request is empty or too long.
pub fn more(view: &SessionView, request: &str, invocation: &Invocation) -> Decided<Task> {
    let request = text("request", request)?;
    let mut changes = TaskChanges::new(view, invocation);
    let from = changes.open_task()?.state.name();
    if from != StateName::PendingComplete {
        return Err(Refusal::WrongState {
            verb: "asked for more",
            from,
            wanted: StateName::PendingComplete,
            to: StateName::Running,
        });
    }
    let note = changes.note(format!("User requested continuation: {request}"));
    changes.move_to(State::Running, vec![note])?;
    changes.finish_open()
}
