//! The session that started a worker has been told what became of it.

use crate::id::TurnId;

use super::talk::Talk;
use super::{Decided, Decision, Moment, SessionView};

/// Notes it, unless something else has become of the worker since.
///
/// # Errors
/// Never; the signature is that of every rule.
pub fn told(view: &SessionView, head: Option<TurnId>, moment: &Moment) -> Decided<()> {
    if !view.session.untold || view.session.head != head {
        return Ok(Decision::unchanged(()));
    }
    let mut talk = Talk::new(view, moment);
    talk.session.untold = false;
    Ok(talk.finish(()))
}
