//! End a run from outside, because its process died or does not react. The turn keeps what was
//! stored of it (R238).

use crate::id::{NodeId, RunId};
use crate::message::Part;
use crate::refusal::Refusal;
use crate::run::{Cancel, Outcome};
use crate::session::{Activity, Session, Status};
use crate::turn;

use super::session_changes::SessionChanges;
use super::{Decided, Event, Invocation, SessionView};

/// Why a run is ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminationCause {
    /// The process that carried it out has died or was stopped.
    ProcessLost,
    /// It was cancelled and did not end in time.
    Cancelled,
}

/// Whether a session's run belongs to one of these dead processes.
pub fn is_orphaned(session: &Session, dead: &[NodeId]) -> bool {
    session.state == Activity::Running && session.owner.is_some_and(|owner| dead.contains(&owner))
}

/// Raises the fence, so that later writes of the run fail, and closes the turn.
///
/// Fails if that run has ended already.
pub fn terminate_run(
    view: &SessionView,
    run: RunId,
    cut: TerminationCause,
    invocation: &Invocation,
) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    let Some(open) = changes.run.clone().filter(|open| open.id == run) else {
        return Err(Refusal::StaleWriter);
    };
    changes.session.fence += 1;
    let (status, outcome) = match (cut, open.cancel) {
        (_, Some(Cancel::User)) => (turn::Status::Cancelled, Outcome::Cancelled),
        (TerminationCause::Cancelled, None) => (turn::Status::Cancelled, Outcome::Cancelled),
        (_, Some(Cancel::Message)) | (TerminationCause::ProcessLost, None) => {
            (turn::Status::Interrupted, Outcome::Interrupted)
        }
    };
    let notice = (cut == TerminationCause::ProcessLost && open.cancel.is_none()).then(|| {
        Part::Error {
        code: "interrupted".to_owned(),
        message:
            "The process was stopped during this answer. The part that was received is kept; the \
                message is not sent again automatically."
                .to_owned(),
        provider_id: Some(open.provider_id.clone()),
    }
    });
    changes.close_turn(status, outcome, notice);
    if cut == TerminationCause::ProcessLost && changes.session.status == Status::Active {
        changes.session.status = Status::Suspended;
    }
    changes.emit(match (cut, outcome) {
        (TerminationCause::ProcessLost, Outcome::Interrupted) => {
            Event::RunFailed { run_id: run, code: "interrupted".to_owned() }
        }
        (_, Outcome::Interrupted) => {
            Event::RunCancelled { run_id: run, reason: Outcome::Interrupted }
        }
        _ => Event::RunCancelled { run_id: run, reason: Outcome::Cancelled },
    });
    Ok(changes.finish(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::session;
    use ulid::Ulid;

    #[test]
    fn only_the_running_session_of_a_dead_process_is_orphaned() {
        let (dead, alive) = (NodeId(Ulid(1)), NodeId(Ulid(2)));
        for (state, owner, expected) in [
            (Activity::Running, Some(dead), true),
            (Activity::Running, Some(alive), false),
            (Activity::Running, None, false),
            (Activity::Idle, Some(dead), false),
            (Activity::Suspended, Some(dead), false),
        ] {
            let session = Session { state, owner, ..session() };
            assert_eq!(is_orphaned(&session, &[dead]), expected, "{state:?} {owner:?}");
        }
    }
}
