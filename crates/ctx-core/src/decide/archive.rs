//! Put a session away, and take it out again. Soft: everything stays readable (R198, R206, R210).

use crate::refusal::Refusal;
use crate::session::{Activity, Status};
use crate::time::Timestamp;

use super::cancel::{cancel_run, release};
use super::session_changes::SessionChanges;
use super::{Decided, Decision, Event, Invocation, SessionView};

/// Archives; what it waits for is released, what runs is cancelled, what waits in the inbox waits on.
///
/// # Errors
/// If its history is damaged.
pub fn archive(view: &SessionView, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    match (view.session.status, view.session.state) {
        (Status::Error, _) => return Err(Refusal::SessionDamaged),
        (_, Activity::Running) => cancel_run(&mut changes),
        (_, Activity::Suspended) => release(&mut changes),
        (_, Activity::Idle) => {}
    }
    if changes.session.status != Status::Archived {
        changes.session.status = Status::Archived;
        changes.emit(Event::SessionUpdated);
    }
    Ok(changes.finish(()))
}

/// Archives a session that nobody has used since then and for which nothing waits; any other stays as it is (R209). The
/// reply says whether it was archived.
///
/// # Errors
/// If its history is damaged.
pub fn archive_idle(
    view: &SessionView,
    since: Timestamp,
    invocation: &Invocation,
) -> Decided<bool> {
    // Somebody may have come back since it was looked for.
    if view.session.last_activity_at >= since || !view.inbox.is_empty() {
        return Ok(Decision::unchanged(false));
    }
    let (batch, ()) = archive(view, invocation)?.into_parts();
    let archived = !batch.changes.is_empty();
    Ok(Decision::new(batch, archived))
}

/// Takes it out again.
///
/// # Errors
/// If its history is damaged.
pub fn unarchive(view: &SessionView, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    match view.session.status {
        Status::Error => return Err(Refusal::SessionDamaged),
        Status::Archived => {
            changes.session.status = Status::Active;
            changes.emit(Event::SessionUpdated);
        }
        Status::Active | Status::Suspended => {}
    }
    Ok(changes.finish(()))
}
