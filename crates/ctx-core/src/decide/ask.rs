//! Ask the user a question: running → awaiting_user (R20, R36).

use crate::task::{State, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Records the question as a note; the task then waits for the user.
///
/// Fails if no task is running, or the question is empty or too long.
pub fn ask(view: &SessionView, question: &str, invocation: &Invocation) -> Decided<Task> {
    let question = text("question", question)?;
    let mut changes = TaskChanges::new(view, invocation);
    let note = changes.note(format!("Question for user: {question}"));
    let asked_at = changes.now().unix_seconds();
    changes.move_to(State::AwaitingUser { question, asked_at }, vec![note])?;
    changes.finish_open()
}
