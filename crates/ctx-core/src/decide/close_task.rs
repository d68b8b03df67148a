//! Close the open task on the user's request: as complete or as abandoned, by a command in a
//! message, a button or a verb. The task is sealed at once, without a run (design section 7).

use crate::command::{Command, HELP};
use crate::inbox::{Admission, Item};
use crate::refusal::Refusal;
use crate::session::Activity;
use crate::task::Task;

use super::session_changes::SessionChanges;
use super::task_changes::text;
use super::{CommitRecord, Decided, Invocation, SessionView, abort, cancel, seal};

/// The answer to `/done` and `/abandon` if there is nothing to seal.
const NO_TASK: &str = "No task is open in this session.";

/// A task that the user closed, and its commit.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct ClosedTask {
    pub task: Task,
    pub commit: CommitRecord,
}

/// Seals the open task as complete. A run that is open continues.
///
/// Fails if no task is open, or the message is empty or too long.
pub fn confirm_task(
    view: &SessionView,
    message: Option<&str>,
    invocation: &Invocation,
) -> Decided<ClosedTask> {
    let message = message.map(|message| text("message", message)).transpose()?;
    let mut changes = SessionChanges::new(view, invocation);
    seal::declare_done(&mut changes.tasks, message)?;
    closed(changes)
}

/// Seals the open task as abandoned. A run that is open is cancelled, a suspension is released.
///
/// Fails if no task is open, or the reason is empty or too long.
pub fn abandon_task(
    view: &SessionView,
    reason: Option<&str>,
    invocation: &Invocation,
) -> Decided<ClosedTask> {
    let reason = reason.map(|reason| text("reason", reason)).transpose()?;
    let mut changes = SessionChanges::new(view, invocation);
    abort::abandon(&mut changes.tasks, reason.as_deref())?;
    cancel::cancel_or_release(&mut changes);
    closed(changes)
}

fn closed(changes: SessionChanges<'_>) -> Decided<ClosedTask> {
    let sealed = changes.tasks.ended().cloned().zip(changes.tasks.commit().cloned());
    let (task, commit) = sealed.ok_or(Refusal::NoTask)?;
    Ok(changes.finish(ClosedTask { task, commit }))
}

/// Carries out a command that was sent as a message. Its turn holds the message and the reply.
pub(super) fn carry_out(
    changes: &mut SessionChanges<'_>,
    command: &Command,
    item: Item,
) -> Result<Admission, Refusal> {
    let mut admission = Admission::Run;
    match command {
        Command::Help => changes.tasks.notify(HELP.to_owned()),
        _ if changes.tasks.task().is_none() => changes.tasks.notify(NO_TASK.to_owned()),
        Command::Done { message } => seal::declare_done(&mut changes.tasks, message.clone())?,
        Command::Abandon { reason } => {
            abort::abandon(&mut changes.tasks, reason.as_deref())?;
            admission = match changes.session.state {
                Activity::Idle => Admission::Run,
                Activity::Running => Admission::Interrupt,
                Activity::Suspended => Admission::Release,
            };
            cancel::cancel_or_release(changes);
        }
    }
    changes.turn_without_run(vec![item]);
    Ok(admission)
}
