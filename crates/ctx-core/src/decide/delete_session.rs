//! Delete a session permanently, from any state (R244). Its commits are kept.

use super::{Change, Decided, Decision, Event, SessionView};

/// Deletes the session's rows. Its turns are hidden at once and removed in the background.
///
/// Never fails; the signature is that of every rule.
pub fn delete_session(view: &SessionView) -> Decided<()> {
    let deleted =
        Event::SessionDeleted { session_id: view.session.id, label: view.session.label.clone() };
    Ok(Decision {
        changes: vec![Change::DeleteSession],
        events: vec![deleted],
        ..Decision::unchanged(())
    })
}
