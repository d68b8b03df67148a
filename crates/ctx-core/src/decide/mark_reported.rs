//! Report the end of a worker's run to the session that started it, exactly once.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::{Activity, Parent, Session};

use super::session_changes::SessionChanges;
use super::{Decided, Decision, Invocation, SessionView};

/// The manager that has to receive a report about a worker's last run, if it is due.
pub fn report_due(worker: &Session) -> Option<&Parent> {
    worker.parent.as_ref().filter(|_| worker.unreported && worker.state == Activity::Idle)
}

/// Whether a refused report can never be delivered, because its recipient does not exist or takes
/// no messages.
pub const fn report_is_lost(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::NoSession | Refusal::DeliveryRefused | Refusal::SessionDamaged)
}

/// Marks the worker as reported, unless it has run again since.
///
/// Never fails; the signature is that of every rule.
pub fn mark_reported(
    view: &SessionView,
    head: Option<TurnId>,
    invocation: &Invocation,
) -> Decided<()> {
    if !view.session.unreported || view.session.head != head {
        return Ok(Decision::unchanged(()));
    }
    let mut changes = SessionChanges::new(view, invocation);
    changes.session.unreported = false;
    Ok(changes.finish(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::session;

    #[test]
    fn only_an_idle_worker_that_was_not_reported_is_due() {
        let parent = Parent { session: "boss".to_owned(), turn: None, tool_call: None };
        for (parent, unreported, state, expected) in [
            (Some(&parent), true, Activity::Idle, true),
            (Some(&parent), false, Activity::Idle, false),
            (Some(&parent), true, Activity::Running, false),
            (Some(&parent), true, Activity::Suspended, false),
            (None, true, Activity::Idle, false),
        ] {
            let worker = Session { parent: parent.cloned(), unreported, state, ..session() };
            assert_eq!(report_due(&worker).is_some(), expected, "{unreported} {state:?}");
        }
    }

    #[test]
    fn a_report_to_a_full_inbox_is_tried_again() {
        assert!(report_is_lost(&Refusal::NoSession));
        assert!(report_is_lost(&Refusal::DeliveryRefused));
        assert!(report_is_lost(&Refusal::SessionDamaged));
        assert!(!report_is_lost(&Refusal::InboxFull { cap: 20 }));
    }
}
