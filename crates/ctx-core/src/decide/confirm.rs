//! The user confirms: pending_complete → complete → sealed (R27, R34, R43).

use crate::commit::CommitType;
use crate::refusal::Refusal;
use crate::task::State;

use super::work::Work;
use super::{CommitRecord, Decided, Moment, SessionView};

/// Completes the task and seals it under its summary.
///
/// # Errors
/// If the task is not pending completion.
pub fn confirm(view: &SessionView, moment: &Moment) -> Decided<CommitRecord> {
    let mut work = Work::new(view, moment);
    complete(&mut work, None)?;
    work.finish_sealed()
}

pub(super) fn complete(work: &mut Work<'_>, message: Option<String>) -> Result<(), Refusal> {
    let message = message.unwrap_or(work.open_task()?.summary().to_owned());
    let note = work.note("User confirmed task complete".to_owned());
    work.move_to(State::Complete, vec![note])?;
    work.seal(CommitType::Normal, message)
}
