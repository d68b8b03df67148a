//! Confirm the task: pending_complete → complete → sealed (R27, R34, R43).

use crate::commit::CommitType;
use crate::refusal::Refusal;
use crate::task::State;

use super::task_changes::TaskChanges;
use super::{CommitRecord, Decided, Invocation, SessionView};

/// Completes the task and seals it; the summary becomes the commit message.
///
/// Fails if the task is not pending completion.
pub fn confirm(view: &SessionView, invocation: &Invocation) -> Decided<CommitRecord> {
    let mut changes = TaskChanges::new(view, invocation);
    complete(&mut changes, None)?;
    changes.finish_sealed()
}

pub(super) fn complete(
    changes: &mut TaskChanges<'_>,
    message: Option<String>,
) -> Result<(), Refusal> {
    let message = message.unwrap_or(changes.open_task()?.summary().to_owned());
    let note = changes.note("User confirmed task complete".to_owned());
    changes.move_to(State::Complete, vec![note])?;
    changes.seal(CommitType::Normal, message)
}
