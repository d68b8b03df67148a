//! Start a task. Refused while another is open, which has to be ended first (R35).

use crate::task::Task;

use super::task_changes::{TaskChanges, task_text};
use super::{Decided, Invocation, SessionView};

/// Opens a task.
///
/// Fails if a task is open, or the description is empty or too long.
pub fn start(view: &SessionView, description: &str, invocation: &Invocation) -> Decided<Task> {
    let description = task_text(description)?;
    let mut changes = TaskChanges::new(view, invocation);
    changes.start(&description)?;
    changes.finish_open()
}
