//! Move the head back to a turn that led to it. The later turns stay in the tree.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::Activity;

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// Only an idle session can be rewound.
pub(super) fn must_be_idle(view: &SessionView) -> Result<(), Refusal> {
    match view.session.state {
        Activity::Idle => Ok(()),
        Activity::Running => Err(Refusal::Busy { state: "running" }),
        Activity::Suspended => Err(Refusal::Busy { state: "suspended" }),
    }
}

/// Moves the head; that the turn led to it is the store's to check.
///
/// # Errors
/// If the session is busy.
pub fn rewind(view: &SessionView, turn: TurnId, invocation: &Invocation) -> Decided<()> {
    must_be_idle(view)?;
    let mut changes = SessionChanges::new(view, invocation);
    if view.session.head != Some(turn) {
        changes.push(Change::MoveHead(Some(turn)));
        changes.emit(Event::SessionUpdated);
    }
    Ok(changes.finish(()))
}
