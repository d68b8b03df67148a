//! Cancel: an open run is asked to end, a suspension is released. The session becomes idle (R223,
//! R248).

use crate::run::{Cancel, Outcome};
use crate::session::Activity;
use crate::turn;

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// Marks the open run as cancelled, or releases the suspension. Does nothing in an idle session.
///
/// Never fails; the signature is that of every rule.
pub fn cancel(view: &SessionView, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    cancel_or_release(&mut changes);
    Ok(changes.finish(()))
}

pub(super) fn cancel_or_release(changes: &mut SessionChanges<'_>) {
    match changes.session.state {
        Activity::Idle => {}
        Activity::Running => cancel_run(changes),
        Activity::Suspended => release(changes),
    }
}

/// Marks the open run as cancelled by the user.
pub(super) fn cancel_run(changes: &mut SessionChanges<'_>) {
    if let Some(run) = changes.run.as_mut().filter(|run| run.cancel != Some(Cancel::User)) {
        run.cancel = Some(Cancel::User);
        let run = run.clone();
        changes.push(Change::PutRun(Box::new(run)));
        changes.emit(Event::SessionUpdated);
    }
}

/// Closes the open turn of a suspended session as cancelled.
pub(super) fn release(changes: &mut SessionChanges<'_>) {
    let run_id = changes.view().run.as_ref().map(|run| run.id);
    changes.close_turn(turn::Status::Cancelled, Outcome::Cancelled, None);
    if let Some(run_id) = run_id {
        changes.emit(Event::RunCancelled { run_id, reason: Outcome::Cancelled });
    }
}
