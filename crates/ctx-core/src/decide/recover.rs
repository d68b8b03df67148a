//! Come back to the open task: say where it stands, ask if that was long ago, seal if too long (R98–R105).

use crate::commit::CommitType;
use crate::prompt::{Pending, Prompt, resume_text};
use crate::stale::{self, Staleness};
use crate::task::{State, Task};

use super::abort::abandon;
use super::task_changes::TaskChanges;
use super::{CommitRecord, Decided, Decision, Invocation, SessionView, Settings};

/// Where the task stands after coming back to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// What the user should read; nothing after the task was sealed.
    pub text: Option<String>,
    /// The task that is open now.
    pub task: Option<Task>,
    /// The commit, if the task was sealed.
    pub commit: Option<CommitRecord>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
}

/// Says where the open task stands; asks or seals after a long pause.
///
/// # Errors
/// If no task is open.
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
    let text = match settings.stale.judge(idle) {
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
