//! The agent has taken the user's words in: interrupted → running (R26, R42).

use crate::refusal::Refusal;
use crate::task::{State, StateName, Task};

use super::task_changes::TaskChanges;
use super::{Decided, Decision, Invocation, SessionView};

/// What the user had said, and the task that goes on with it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Incorporated {
    pub task: Task,
    pub user_message: String,
}

/// Goes on; the reply has what the user had said.
///
/// # Errors
/// If nothing interrupted the task.
pub fn incorporate(view: &SessionView, invocation: &Invocation) -> Decided<Incorporated> {
    let mut changes = TaskChanges::new(view, invocation);
    let from = changes.open_task()?.state.clone();
    let State::Interrupted { user_message } = from else {
        return Err(Refusal::WrongState {
            verb: "given new words to take in",
            from: from.name(),
            wanted: StateName::Interrupted,
            to: StateName::Running,
        });
    };
    changes.move_to(State::Running, vec![])?;
    let (batch, task) = changes.finish_open()?.into_parts();
    Ok(Decision::new(batch, Incorporated { task, user_message }))
}
