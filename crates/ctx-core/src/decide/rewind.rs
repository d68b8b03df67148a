//! Move the head back to one of its ancestors, or forward again. The later turns stay in the tree.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::Activity;

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// Refuses a session that is running or suspended.
pub(super) fn must_be_idle(view: &SessionView) -> Result<(), Refusal> {
    match view.session.state {
        Activity::Idle => Ok(()),
        Activity::Running => Err(Refusal::Busy { state: "running" }),
        Activity::Suspended => Err(Refusal::Busy { state: "suspended" }),
    }
}

/// Moves the head to `turn`. The view must be read with [`super::TurnNeed::Ancestor`] of it.
///
/// # Errors
/// If the session is not idle, or the turn is not an ancestor of the head.
pub fn rewind(view: &SessionView, turn: TurnId, invocation: &Invocation) -> Decided<()> {
    move_head(view, turn, invocation)
}

/// Moves the head forward again to a turn that a rewind left. The view must be read with
/// [`super::TurnNeed::Descendant`] of it.
///
/// # Errors
/// If the session is not idle, or the turn does not descend from the head.
pub fn undo_rewind(view: &SessionView, turn: TurnId, invocation: &Invocation) -> Decided<()> {
    move_head(view, turn, invocation)
}

fn move_head(view: &SessionView, turn: TurnId, invocation: &Invocation) -> Decided<()> {
    must_be_idle(view)?;
    let depth = ancestor_depth(view, turn)?;
    let mut changes = SessionChanges::new(view, invocation);
    if view.session.head != Some(turn) {
        changes.push(Change::MoveHead { turn: Some(turn), depth });
        changes.emit(Event::SessionUpdated);
    }
    Ok(changes.finish(()))
}

/// The depth of a turn, which must have the position that the view was read for.
pub(super) fn ancestor_depth(view: &SessionView, turn: TurnId) -> Result<u64, Refusal> {
    match &view.turn {
        Some(position) if position.turn == turn && position.reachable => Ok(position.depth),
        _ => Err(Refusal::NotAnAncestor { turn }),
    }
}
