//! Pin and unpin turns. Requests contain pinned turns in full, also after a compaction.

use crate::compaction::plan::pinned_max;
use crate::id::TurnId;
use crate::refusal::Refusal;

use super::rewind::ancestor_depth;
use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// Maximum number of pinned turns per session.
pub const PINS_MAX: usize = 100;

/// Pins a turn of `tokens` tokens for a model with a context window of `window` tokens. Pinning a
/// pinned turn changes nothing.
///
/// # Errors
/// If the session is damaged, the turn is not an ancestor of the head, or the pinned turns would
/// exceed [`PINS_MAX`] or their share of the context window.
pub fn pin(
    view: &SessionView,
    turn: TurnId,
    tokens: u64,
    window: u64,
    invocation: &Invocation,
) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    if view.session.is_damaged() {
        return Err(Refusal::SessionDamaged);
    }
    if view.pins.iter().any(|pin| pin.turn == turn) {
        return Ok(changes.finish(()));
    }
    ancestor_depth(view, turn)?;
    if view.pins.len() >= PINS_MAX {
        return Err(Refusal::TooMany {
            what: "pinned turns",
            count: view.pins.len() + 1,
            max: PINS_MAX,
        });
    }
    let (sum, max) =
        (view.pins.iter().map(|pin| pin.tokens).sum::<u64>() + tokens, pinned_max(window));
    if sum > max {
        return Err(Refusal::PinnedTokensExceeded { tokens: sum, max });
    }
    changes.push(Change::Pin { turn, tokens });
    changes.emit(Event::SessionUpdated);
    Ok(changes.finish(()))
}

/// Removes the pin of a turn.
///
/// # Errors
/// If the turn is not pinned.
pub fn unpin(view: &SessionView, turn: TurnId, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    if view.pins.iter().all(|pin| pin.turn != turn) {
        return Err(Refusal::NotPinned { turn });
    }
    changes.push(Change::Unpin(turn));
    changes.emit(Event::SessionUpdated);
    Ok(changes.finish(()))
}
