//! Move the head back to a turn that led to it. The later turns stay in the tree.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::Activity;

use super::talk::Talk;
use super::{Change, Decided, Event, Moment, SessionView};

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
pub fn rewind(view: &SessionView, turn: TurnId, moment: &Moment) -> Decided<()> {
    must_be_idle(view)?;
    let mut talk = Talk::new(view, moment);
    if view.session.head != Some(turn) {
        talk.work.change(Change::MoveHead(Some(turn)));
        talk.work.event(Event::SessionUpdated);
    }
    Ok(talk.finish(()))
}
