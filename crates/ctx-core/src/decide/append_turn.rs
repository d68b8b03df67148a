//! Add a finished turn under the session's head. Only who knows the head may move it.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::turn;

use super::{Decided, Decision, Event, SessionView, add_turn};

/// Hangs the turn under the head, if that is still the expected one.
///
/// # Errors
/// If the head has moved since the caller looked.
pub fn append_turn(
    view: &SessionView,
    expected: Option<TurnId>,
    ready: &turn::Ready,
) -> Decided<TurnId> {
    let record = ready.with_parent(expected);
    let turn = record.id;
    if view.session.head == Some(turn) {
        // Told again by somebody who did not hear that it was done.
        return Ok(Decision::unchanged(turn));
    }
    if view.session.head != expected {
        return Err(Refusal::StaleWriter);
    }
    Ok(Decision {
        changes: add_turn(record).collect(),
        events: vec![Event::TurnCommitted { turn: Some(turn) }],
        objects: Vec::new(),
        reply: turn,
    })
}
