//! The agent says that it is done: running → pending_complete (R21).

use crate::task::{State, Task};

use super::work::{Work, text};
use super::{Decided, Moment, SessionView};

/// Waits for the user's word on the summary.
///
/// # Errors
/// If no task is running, or the summary is no text.
pub fn done(view: &SessionView, summary: &str, moment: &Moment) -> Decided<Task> {
    let summary = text("summary", summary)?;
    let mut work = Work::new(view, moment);
    work.move_to(State::PendingComplete { summary }, vec![])?;
    work.finish_open()
}
