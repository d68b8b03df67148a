//! Set the state of a task, for callers of the library. It is a durable step (R38); completing
//! seals (R34).

use crate::task::{State, Task};

use super::task_changes::{TaskChanges, text};
use super::{CommitRecord, Decided, Decision, Invocation, SessionView, ask, confirm, done};

/// The task after the transition, or the commit that it was sealed as.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Moved {
    pub task: Option<Task>,
    pub commit: Option<CommitRecord>,
}

/// Moves the open task by the table of transitions, with the records of that transition.
///
/// Fails if no task is open, or the table has no such transition.
pub fn set_state(view: &SessionView, state: &State, invocation: &Invocation) -> Decided<Moved> {
    match state {
        State::AwaitingUser { question, .. } => ask(view, question, invocation).map(open),
        State::PendingComplete { summary } => done(view, summary, invocation).map(open),
        State::Complete => {
            let (batch, commit) = confirm(view, invocation)?.into_parts();
            Ok(Decision::new(batch, Moved { task: None, commit: Some(commit) }))
        }
        State::Interrupted { .. } | State::Running | State::Aborted { .. } => {
            let mut changes = TaskChanges::new(view, invocation);
            let note = match state {
                State::Interrupted { user_message } => {
                    let message = text("message", user_message)?;
                    Some(changes.note(format!("User intervention: {message}")))
                }
                State::Aborted { reason } => text("reason", reason).map(|_| None)?,
                _ => None,
            };
            changes.move_to(state.clone(), note.into_iter().collect())?;
            changes.finish_open().map(open)
        }
    }
}

fn open(decision: Decision<Task>) -> Decision<Moved> {
    let (batch, task) = decision.into_parts();
    Decision::new(batch, Moved { task: Some(task), commit: None })
}
