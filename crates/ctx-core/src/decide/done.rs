//! Declare the task done: running → pending_complete (R21).

use crate::task::{State, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Stores the summary; the task then waits for the user's confirmation.
///
/// Fails if no task is running, or the summary is empty or too long.
pub fn done(view: &SessionView, summary: &str, invocation: &Invocation) -> Decided<Task> {
    let summary = text("summary", summary)?;
    let mut changes = TaskChanges::new(view, invocation);
    changes.move_to(State::PendingComplete { summary }, vec![])?;
    changes.finish_open()
}
