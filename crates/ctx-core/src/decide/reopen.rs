//! Reopen a sealed task: the commit is kept, and a new task with the same description refers to it.

use crate::refusal::Refusal;
use crate::task::Task;

use super::task_changes::TaskChanges;
use super::{Decided, Invocation, SessionView, notice};

/// Opens a task with the description of a sealed one.
///
/// Fails if a task is open, or the given one was never sealed.
pub fn reopen(view: &SessionView, sealed: Option<&Task>, invocation: &Invocation) -> Decided<Task> {
    let (task, commit) =
        sealed.and_then(|task| Some((task, task.commit?))).ok_or(Refusal::NothingToReopen)?;
    let mut changes = TaskChanges::new(view, invocation);
    changes.start(&task.description)?;
    changes.append_note(format!("Reopened from commit {}", commit.0.short()))?;
    changes.notify(notice::reopened(task, commit));
    changes.finish_open()
}
