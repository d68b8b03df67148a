//! Incorporate the user's interruption: interrupted → running (R26, R42).

use crate::refusal::Refusal;
use crate::task::{State, StateName, Task};

use super::task_changes::TaskChanges;
use super::{Decided, Decision, Invocation, SessionView};

/// The running task, and the text of the interruption.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Incorporated {
    pub task: Task,
    pub user_message: String,
}

/// Continues the task; the reply holds the text of the interruption.
///
/// Fails if the task is not interrupted.
pub fn incorporate(view: &SessionView, invocation: &Invocation) -> Decided<Incorporated> {
    let mut changes = TaskChanges::new(view, invocation);
    let from = changes.open_task()?.state.clone();
    let State::Interrupted { user_message } = from else {
        return Err(Refusal::WrongState {
            verb: "continued with the user's message",
            from: from.name(),
            wanted: StateName::Interrupted,
            to: StateName::Running,
        });
    };
    changes.move_to(State::Running, vec![])?;
    let (batch, task) = changes.finish_open()?.into_parts();
    Ok(Decision::new(batch, Incorporated { task, user_message }))
}
