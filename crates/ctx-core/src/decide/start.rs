//! Start a task. Refused while one is open: ending that is a decision of its own (R35).

use crate::task::Task;

use super::task_changes::{TaskChanges, task_text};
use super::{Decided, Invocation, SessionView};

/// Opens a task that is to be done.
///
/// # Errors
/// If a task is open, or the text is none.
pub fn start(view: &SessionView, description: &str, invocation: &Invocation) -> Decided<Task> {
    let description = task_text(description)?;
    let mut changes = TaskChanges::new(view, invocation);
    changes.start(&description)?;
    changes.finish_open()
}
