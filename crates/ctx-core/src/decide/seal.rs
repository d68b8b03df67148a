//! Seal the open task (`ctx stage seal`): the user declares it done. It passes through complete and
//! is sealed as `normal`; an aborted task is sealed as `abandoned` (R30, R31).

use crate::commit::CommitType;
use crate::refusal::Refusal;
use crate::step::Entry;
use crate::task::{State, path_to_complete};

use super::abort::ABANDONED;
use super::task_changes::{TaskChanges, text};
use super::{CommitRecord, Decided, Invocation, SessionView};

/// Seals the open task.
///
/// Fails if no task is open, or the message is empty or too long.
pub fn seal(
    view: &SessionView,
    message: Option<&str>,
    invocation: &Invocation,
) -> Decided<CommitRecord> {
    let message = message.map(|m| text("message", m)).transpose()?;
    let mut changes = TaskChanges::new(view, invocation);
    declare_done(&mut changes, message)?;
    changes.finish_sealed()
}

/// Seals the task from any state.
pub(super) fn declare_done(
    changes: &mut TaskChanges<'_>,
    message: Option<String>,
) -> Result<(), Refusal> {
    let task = changes.open_task()?;
    if let State::Aborted { .. } = task.state {
        changes.seal(CommitType::Abandoned, message.unwrap_or_else(|| ABANDONED.to_owned()))
    } else {
        let message = message.unwrap_or_else(|| task.summary().to_owned());
        pass_to_complete(changes)?;
        changes.seal(CommitType::Normal, message)
    }
}

fn pass_to_complete(changes: &mut TaskChanges<'_>) -> Result<(), Refusal> {
    let mut at = changes.open_task()?.state.name();
    let way = path_to_complete(at);
    let mut payload = vec![changes.note("User confirmed task complete".to_owned())];
    for &next in way {
        payload.push(Entry::Moved { from: Some(at), to: next });
        at = next;
    }
    if way.is_empty() { Ok(()) } else { changes.append_transitions(payload, State::Complete) }
}
