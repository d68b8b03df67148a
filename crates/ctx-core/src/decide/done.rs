//! The agent says that it is done: running → pending_complete (R21).

use crate::task::{State, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Waits for the user's word on the summary.
///
/// # Errors
/// If no task is running, or the summary is no text.
pub fn done(view: &SessionView, summary: &str, invocation: &Invocation) -> Decided<Task> {
    let summary = text("summary", summary)?;
    let mut changes = TaskChanges::new(view, invocation);
    changes.move_to(State::PendingComplete { summary }, vec![])?;
    changes.finish_open()
}
