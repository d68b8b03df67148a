//! Interrupt the agent with a message: running → interrupted (R22, R41). Further messages are
//! collected until the agent incorporates them.

use crate::refusal::Refusal;
use crate::step::Kind;
use crate::task::{State, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Records the message as a note and keeps it for the agent.
///
/// Fails if no task is running or interrupted, or the message is empty or too long.
pub fn interrupt(view: &SessionView, message: &str, invocation: &Invocation) -> Decided<Task> {
    let message = text("message", message)?;
    let mut changes = TaskChanges::new(view, invocation);
    intervene(&mut changes, &message)?;
    changes.finish_open()
}

pub(super) fn intervene(changes: &mut TaskChanges<'_>, message: &str) -> Result<(), Refusal> {
    let note = changes.note(format!("User intervention: {message}"));
    match changes.open_task()?.state.clone() {
        State::Interrupted { user_message } => {
            let user_message = format!("{user_message}\n{message}");
            text("collected interruption", &user_message)?;
            changes.append_with_state(Kind::State, vec![note], State::Interrupted { user_message })
        }
        _ => changes.move_to(State::Interrupted { user_message: message.to_owned() }, vec![note]),
    }
}
