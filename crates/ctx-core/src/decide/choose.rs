//! Answer the open question; the message that caused it is handled after the choice (R96, R97, R99).

use crate::commit::CommitType;
use crate::intent::Intent;
use crate::prompt::{Choice, Pending};
use crate::refusal::Refusal;
use crate::text::one_line;

use super::message::{self, Action, Handled};
use super::work::Work;
use super::{Decided, Moment, SessionView, Settings};

/// Continues the open task, or saves it and starts on the message that was kept.
///
/// # Errors
/// If no question is open.
pub fn choose(
    view: &SessionView,
    choice: Choice,
    settings: &Settings,
    moment: &Moment,
) -> Decided<Handled> {
    let mut work = Work::new(view, moment);
    let action = answer(&mut work, choice, settings)?;
    Ok(message::handled(work, action))
}

pub(super) fn answer(
    work: &mut Work<'_>,
    choice: Choice,
    settings: &Settings,
) -> Result<Action, Refusal> {
    let prompt = work.close_prompt(choice.into()).ok_or(Refusal::NoPrompt)?;
    match choice {
        Choice::Continue => go_on(work, prompt.pending, settings),
        Choice::StartFresh => start_fresh(work, prompt.pending),
    }
}

fn go_on(work: &mut Work<'_>, pending: Pending, settings: &Settings) -> Result<Action, Refusal> {
    match pending {
        Pending::Stale { user_message, intent } => {
            work.append_note("User chose to continue after idle period".to_owned())?;
            match intent {
                Intent::NewTask => set_aside(work, &user_message),
                _ => message::act(work, &user_message, intent, settings),
            }
        }
        Pending::NewTask { new_task } => set_aside(work, &new_task),
        Pending::Resume => {
            work.append_note("User chose to continue after idle period".to_owned())?;
            Ok(Action::Continue)
        }
    }
}

/// The user chose the open task over a new one; what they asked for is not forgotten.
fn set_aside(work: &mut Work<'_>, message: &str) -> Result<Action, Refusal> {
    work.append_note(format!("User chose to continue and set aside: {message}"))?;
    Ok(Action::Continue)
}

fn start_fresh(work: &mut Work<'_>, pending: Pending) -> Result<Action, Refusal> {
    let (Pending::Stale { user_message: kept, .. } | Pending::NewTask { new_task: kept }) = pending
    else {
        let nothing_new = CommitType::InterruptedByNewTask { new_task_summary: String::new() };
        work.seal(nothing_new, "User chose not to continue".to_owned())?;
        return Ok(Action::Save);
    };
    let saved = format!("Saved before starting new task: {}", work.open_task()?.description);
    work.seal(CommitType::InterruptedByNewTask { new_task_summary: one_line(&kept, 200) }, saved)?;
    message::start_from(work, &kept)
}
