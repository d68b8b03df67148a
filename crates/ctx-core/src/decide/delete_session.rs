//! Delete a session for good, from any state (R244). Commits survive it.

use super::{Change, Decided, Decision, Event, SessionView};

/// Removes the session's rows; its turns are hidden at once and removed behind.
///
/// # Errors
/// Never; the signature is that of every rule.
pub fn delete_session(view: &SessionView) -> Decided<()> {
    let deleted =
        Event::SessionDeleted { session_id: view.session.id, label: view.session.label.clone() };
    Ok(Decision {
        changes: vec![Change::DeleteSession],
        events: vec![deleted],
        ..Decision::unchanged(())
    })
}
