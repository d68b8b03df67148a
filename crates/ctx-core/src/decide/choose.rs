//! Answer a question with two choices. The message that caused it is handled after the choice (R96,
//! R97, R99).

use crate::commit::CommitType;
use crate::intent::Intent;
use crate::prompt::{Choice, Pending};
use crate::refusal::Refusal;
use crate::text_limits::one_line;

use super::message::{self, Action, Handled};
use super::task_changes::TaskChanges;
use super::{Decided, Invocation, SessionView, Settings};

/// Continues the open task, or seals it and starts a task from the message that was kept.
///
/// Fails if no question is open.
pub fn choose(
    view: &SessionView,
    choice: Choice,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Handled> {
    let mut changes = TaskChanges::new(view, invocation);
    let action = answer(&mut changes, choice, settings)?;
    Ok(message::handled(changes, action))
}

pub(super) fn answer(
    changes: &mut TaskChanges<'_>,
    choice: Choice,
    settings: &Settings,
) -> Result<Action, Refusal> {
    let prompt = changes.close_prompt(choice.into()).ok_or(Refusal::NoPrompt)?;
    match choice {
        Choice::Continue => continue_task(changes, prompt.pending, settings),
        Choice::StartFresh => start_fresh(changes, prompt.pending),
    }
}

fn continue_task(
    changes: &mut TaskChanges<'_>,
    pending: Pending,
    settings: &Settings,
) -> Result<Action, Refusal> {
    match pending {
        Pending::Stale { user_message, intent } => {
            changes.append_note("User chose to continue after idle period".to_owned())?;
            match intent {
                Intent::NewTask => set_aside(changes, &user_message),
                _ => message::act(changes, &user_message, intent, settings),
            }
        }
        Pending::Unclear { user_message } => {
            message::act(changes, &user_message, Intent::Modification, settings)
        }
        Pending::NewTask { new_task } => set_aside(changes, &new_task),
        Pending::Resume => {
            changes.append_note("User chose to continue after idle period".to_owned())?;
            Ok(Action::Continue)
        }
    }
}

/// The user chose the open task over the new one: the request for the new one is kept as a note. In
/// a session with an agent it is delivered as well.
fn set_aside(changes: &mut TaskChanges<'_>, message: &str) -> Result<Action, Refusal> {
    changes.append_note(format!("User chose to continue and set aside: {message}"))?;
    Ok(Action::Continue)
}

fn start_fresh(changes: &mut TaskChanges<'_>, pending: Pending) -> Result<Action, Refusal> {
    let (Pending::Stale { user_message: kept, .. }
    | Pending::NewTask { new_task: kept }
    | Pending::Unclear { user_message: kept }) = pending
    else {
        let nothing_new = CommitType::InterruptedByNewTask { new_task_summary: String::new() };
        changes.seal(nothing_new, "User chose not to continue".to_owned())?;
        return Ok(Action::Save);
    };
    let saved = format!("Saved before starting new task: {}", changes.open_task()?.description);
    changes
        .seal(CommitType::InterruptedByNewTask { new_task_summary: one_line(&kept, 200) }, saved)?;
    message::start_from(changes, &kept)
}
