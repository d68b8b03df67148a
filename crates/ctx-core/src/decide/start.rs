//! Start a task. Refused while one is open: ending that is a decision of its own (R35).

use crate::task::Task;

use super::work::{Work, task_text};
use super::{Decided, Moment, SessionView};

/// Opens a task that is to be done.
///
/// # Errors
/// If a task is open, or the text is none.
pub fn start(view: &SessionView, description: &str, moment: &Moment) -> Decided<Task> {
    let description = task_text(description)?;
    let mut work = Work::new(view, moment);
    work.start(&description)?;
    work.finish_open()
}
