//! Archive and unarchive a session. Archiving is soft: everything stays readable (R198, R206,
//! R210).

use crate::refusal::Refusal;
use crate::session::{Activity, Status};
use crate::time::Timestamp;

use super::cancel::{cancel_run, release};
use super::session_changes::SessionChanges;
use super::{Decided, Decision, Event, Invocation, SessionView};

/// Archives the session. An open run is cancelled and a suspension released; the inbox is kept.
///
/// Fails if the session's history is damaged.
pub fn archive(view: &SessionView, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    if view.session.is_damaged() {
        return Err(Refusal::SessionDamaged);
    }
    match view.session.state {
        Activity::Running => cancel_run(&mut changes),
        Activity::Suspended => release(&mut changes),
        Activity::Idle => {}
    }
    if changes.session.status != Status::Archived {
        changes.session.status = Status::Archived;
        changes.emit(Event::SessionUpdated);
    }
    Ok(changes.finish(()))
}

/// Archives a session that was not used since the given time and has an empty inbox; leaves any
/// other unchanged (R209). The reply is whether it was archived.
///
/// Fails if the session's history is damaged.
pub fn archive_idle(
    view: &SessionView,
    since: Timestamp,
    invocation: &Invocation,
) -> Decided<bool> {
    // The session may have been used since the query that selected it.
    if view.session.last_activity_at >= since || !view.inbox.is_empty() {
        return Ok(Decision::unchanged(false));
    }
    let (batch, ()) = archive(view, invocation)?.into_parts();
    let archived = !batch.changes.is_empty();
    Ok(Decision::new(batch, archived))
}

/// Makes an archived session active again, or one that was imported with the status `error`.
///
/// Fails if the session's history is damaged.
pub fn unarchive(view: &SessionView, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    match view.session.status {
        Status::Error if view.session.is_damaged() => return Err(Refusal::SessionDamaged),
        Status::Archived | Status::Error => {
            changes.session.status = Status::Active;
            changes.emit(Event::SessionUpdated);
        }
        Status::Active | Status::Suspended => {}
    }
    Ok(changes.finish(()))
}
