//! Report the end of a worker's run to the session that started it, exactly once.

use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::{Activity, Parent};
use crate::worker::{End, WorkerState};

use super::delivery::is_busy;
use super::session_changes::SessionChanges;
use super::{Decided, Decision, Invocation, SessionView};

/// The manager that has to receive a report about a worker's last run, if the worker has ended it
/// and has no message to deliver.
pub fn report_due(view: &SessionView) -> Option<&Parent> {
    let ended = view.session.state == Activity::Idle
        && !is_busy(&view.session, view.prompt.as_ref(), &view.inbox);
    view.session.manager().filter(|_| view.session.unreported && ended)
}

/// Whether the report waits until the workers of the worker have ended.
pub fn report_is_held(view: &SessionView, end: End) -> bool {
    end.is_result() && view.workers.iter().any(WorkerState::is_working)
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
    use crate::decide::tests::model::{Model, worker};
    use crate::session::Session;

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
            let mut view = Model::empty().view;
            view.session = Session { parent: parent.cloned(), unreported, state, ..view.session };
            assert_eq!(report_due(&view).is_some(), expected, "{unreported} {state:?}");
        }
    }

    #[test]
    fn a_completion_waits_for_the_workers_of_the_worker_and_a_failure_does_not() {
        // R190
        let mut view = Model::empty().view;
        for (workers, completed) in [
            (vec![], false),
            (vec![worker(1, Activity::Running)], true),
            (vec![WorkerState { unreported: true, ..worker(1, Activity::Idle) }], true),
            (vec![WorkerState { awaits_answer: true, ..worker(1, Activity::Idle) }], false),
        ] {
            view.workers = workers;
            for (end, expected) in [
                (End::Completed, completed),
                (End::Idle, completed),
                (End::Asks, false),
                (End::Failed, false),
                (End::Interrupted, false),
            ] {
                assert_eq!(report_is_held(&view, end), expected, "{end:?} {:?}", view.workers);
            }
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
