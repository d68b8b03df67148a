//! Release a session without a run: its owner has no live agent for it any more.

use crate::id::NodeId;
use crate::session::Activity;

use super::session_changes::SessionChanges;
use super::{Decided, Decision, Invocation, SessionView};

/// Makes a session without a run belong to no process, if it belongs to `node`. Any process may
/// then deliver its messages and answers.
///
/// Never fails.
pub fn release_owner(view: &SessionView, node: NodeId, invocation: &Invocation) -> Decided<()> {
    if view.session.state == Activity::Running || view.session.owner != Some(node) {
        return Ok(Decision::unchanged(()));
    }
    let mut changes = SessionChanges::new(view, invocation);
    changes.session.owner = None;
    Ok(changes.finish(()))
}
