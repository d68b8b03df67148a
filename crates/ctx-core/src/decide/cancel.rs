//! Cancel: what runs is to end, what waits is released; either way the session becomes idle (R223, R248).

use crate::run::{Cancel, Outcome};
use crate::session::Activity;
use crate::turn;

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// Asks the run to end, or releases the suspension. On an idle session it does nothing.
///
/// # Errors
/// Never; the signature is that of every rule.
pub fn cancel(view: &SessionView, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    match view.session.state {
        Activity::Idle => {}
        Activity::Running => cancel_run(&mut changes),
        Activity::Suspended => release(&mut changes),
    }
    Ok(changes.finish(()))
}

/// Asks the open run to end.
pub(super) fn cancel_run(changes: &mut SessionChanges<'_>) {
    if let Some(run) = changes.run.as_mut().filter(|run| run.cancel != Some(Cancel::User)) {
        run.cancel = Some(Cancel::User);
        let run = run.clone();
        changes.push(Change::PutRun(Box::new(run)));
        changes.emit(Event::SessionUpdated);
    }
}

/// Closes the turn of a session that waits for something, and says so.
pub(super) fn release(changes: &mut SessionChanges<'_>) {
    let run_id = changes.view().run.as_ref().map(|run| run.id);
    changes.close_turn(turn::Status::Cancelled, Outcome::Cancelled, None);
    if let Some(run_id) = run_id {
        changes.emit(Event::RunCancelled { run_id, reason: Outcome::Cancelled });
    }
}
