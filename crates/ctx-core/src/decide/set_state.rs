//! The library's own way to move a task. It is a durable step by itself (R38), and completing seals (R34).

use crate::task::State;

use super::work::{Work, text};
use super::{Decided, Moment, SessionView, ask, confirm, done};

/// Moves the open task by the table, recording what that move records.
///
/// # Errors
/// If no task is open or the table has no such row.
pub fn set_state(view: &SessionView, state: &State, moment: &Moment) -> Decided {
    match state {
        State::AwaitingUser { question, .. } => ask(view, question, moment),
        State::PendingComplete { summary } => done(view, summary, moment),
        State::Complete => confirm(view, moment),
        State::Interrupted { .. } | State::Running | State::Aborted { .. } => {
            let mut work = Work::new(view, moment);
            let note = match state {
                State::Interrupted { user_message } => {
                    let message = text("message", user_message)?;
                    Some(work.note(format!("User intervention: {message}")))
                }
                State::Aborted { reason } => text("reason", reason).map(|_| None)?,
                _ => None,
            };
            work.move_to(state.clone(), note.into_iter().collect())?;
            Ok(work.done())
        }
    }
}
