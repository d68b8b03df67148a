//! Undo a seal: the commit stays, and its task goes on as a new one that says where it comes from.

use crate::refusal::Refusal;
use crate::task::Task;

use super::work::Work;
use super::{Decided, Moment, SessionView};

/// Opens a task with the description of a sealed one.
///
/// # Errors
/// If a task is open, or that one was never sealed.
pub fn reopen(view: &SessionView, sealed: Option<&Task>, moment: &Moment) -> Decided<Task> {
    let (task, commit) =
        sealed.and_then(|task| Some((task, task.commit?))).ok_or(Refusal::NothingToReopen)?;
    let mut work = Work::new(view, moment);
    work.start(&task.description)?;
    work.append_note(format!("Reopened from commit {}", commit.0.short()))?;
    work.finish_open()
}
