//! The user wants more: pending_complete → running (R28, R44).

use crate::refusal::Refusal;
use crate::task::{State, StateName, Task};

use super::work::{Work, text};
use super::{Decided, Moment, SessionView};

/// Notes the request and goes on.
///
/// # Errors
/// If the task is not pending completion, or the request is no text.
pub fn more(view: &SessionView, request: &str, moment: &Moment) -> Decided<Task> {
    let request = text("request", request)?;
    let mut work = Work::new(view, moment);
    let from = work.open_task()?.state.name();
    if from != StateName::PendingComplete {
        return Err(Refusal::WrongState {
            verb: "asked for more",
            from,
            wanted: StateName::PendingComplete,
            to: StateName::Running,
        });
    }
    let note = work.note(format!("User requested continuation: {request}"));
    work.move_to(State::Running, vec![note])?;
    work.finish_open()
}
