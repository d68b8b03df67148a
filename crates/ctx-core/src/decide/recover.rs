//! Return to the open task: report its state, ask after a long pause, seal it after a very long one
//! (R98–R105).

use crate::commit::CommitType;
use crate::prompt::{Pending, Prompt, resume_text};
use crate::stale::{self, Staleness};
use crate::task::{State, Task};

use super::abort::abandon;
use super::task_changes::TaskChanges;
use super::{CommitRecord, Decided, Decision, Invocation, SessionView, Settings};

/// The task after returning to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Text for the user; none after the task was sealed.
    pub text: Option<String>,
    /// The task that is open now.
    pub task: Option<Task>,
    /// The commit, if the task was sealed.
    pub commit: Option<CommitRecord>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
}

/// Reports the state of the open task; asks or seals it after a long pause.
///
/// Fails if no task is open.
pub fn recover(
    view: &SessionView,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Recovered> {
    let mut changes = TaskChanges::new(view, invocation);
    let task = changes.open_task()?.clone();
    if let State::Aborted { .. } = task.state {
        abandon(&mut changes, None)?;
        return Ok(recovered(changes, None));
    }
    let idle = stale::idle(&task, changes.now());
    let text = match settings.stale.staleness(idle) {
        Staleness::ShouldSeal => {
            changes.seal(
                CommitType::StaleAutoCompact { idle_duration_secs: idle.seconds() },
                "Session expired".to_owned(),
            )?;
            None
        }
        _ if changes.prompt().is_some() => changes.prompt().map(|prompt| prompt.text.clone()),
        Staleness::ShouldAsk => {
            let text = resume_text(&task.description, task.last_activity_at);
            changes.ask_choice(Pending::Resume, text.clone());
            Some(text)
        }
        Staleness::Fresh => Some(stale::welcome(&task)),
    };
    Ok(recovered(changes, text))
}

fn recovered(changes: TaskChanges<'_>, text: Option<String>) -> Decision<Recovered> {
    changes.finish_with(|task, commit, prompt| Recovered { text, task, commit, prompt })
}
