//! Append a finished turn to the session's history.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::turn;

use super::{Decided, Decision, Event, SessionView, add_turn};

/// Appends the turn if the head is still the expected one (compare and set).
///
/// Fails if the head has moved since the caller read it.
pub fn append_turn(
    view: &SessionView,
    expected: Option<TurnId>,
    ready: &turn::Ready,
) -> Decided<TurnId> {
    let record = ready.with_parent(expected);
    let turn = record.id;
    if view.session.head == Some(turn) {
        // A retry of a write that succeeded.
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
