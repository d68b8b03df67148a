//! The agent asks: running → awaiting_user (R20, R36).

use crate::task::{State, Task};

use super::work::{Work, text};
use super::{Decided, Moment, SessionView};

/// Notes the question and waits for the user.
///
/// # Errors
/// If no task is running, or the question is no text.
pub fn ask(view: &SessionView, question: &str, moment: &Moment) -> Decided<Task> {
    let question = text("question", question)?;
    let mut work = Work::new(view, moment);
    let note = work.note(format!("Question for user: {question}"));
    let asked_at = work.now().unix_seconds();
    work.move_to(State::AwaitingUser { question, asked_at }, vec![note])?;
    work.finish_open()
}
