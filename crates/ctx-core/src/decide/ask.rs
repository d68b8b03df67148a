//! The agent asks: running → awaiting_user (R20, R36).

use crate::task::{State, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Notes the question and waits for the user.
///
/// # Errors
/// If no task is running, or the question is no text.
pub fn ask(view: &SessionView, question: &str, invocation: &Invocation) -> Decided<Task> {
    let question = text("question", question)?;
    let mut changes = TaskChanges::new(view, invocation);
    let note = changes.note(format!("Question for user: {question}"));
    let asked_at = changes.now().unix_seconds();
    changes.move_to(State::AwaitingUser { question, asked_at }, vec![note])?;
    changes.finish_open()
}
