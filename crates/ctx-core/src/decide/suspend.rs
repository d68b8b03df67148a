//! Suspend a run that needs a tool result, a permission or an answer: the turn stays open, the
//! provider is released (R219, R232). A session whose agent waits in a live process stays with that
//! process, so that the answer reaches the agent that asked.

use crate::draft::{self, Draft};
use crate::id::{RunId, SuspensionId};
use crate::run::{Cancel, Outcome};
use crate::suspension::{Awaited, Suspension};

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// What a run that suspends leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Suspending {
    /// Entries of the open turn that are not stored yet.
    pub entries: Vec<draft::Entry>,
    /// What the run waits for.
    pub awaited: Vec<Awaited>,
    /// Whether the process of the run keeps the agent that waits, and adopts the run that an answer
    /// opens for it.
    pub keeps_agent: bool,
}

/// Ends the run and keeps its turn open. A run that was cancelled is not suspended; the reply is
/// set then.
///
/// Fails if another process has taken over the session.
pub fn suspend(
    view: &SessionView,
    run: RunId,
    fence: u64,
    suspending: &Suspending,
    invocation: &Invocation,
) -> Decided<Option<Cancel>> {
    let Suspending { entries, awaited, keeps_agent } = suspending;
    let mut changes = SessionChanges::new(view, invocation);
    let run = changes.own_run(run, fence)?;
    if run.cancel.is_some() {
        return Ok(changes.finish(run.cancel));
    }
    if !entries.is_empty() {
        changes.push(Change::AppendDrafts(entries.clone()));
    }
    let mut suspensions = Vec::with_capacity(awaited.len());
    for awaited in awaited {
        let suspension = Suspension {
            id: SuspensionId(changes.tasks.next_id()),
            awaited: awaited.clone(),
            created_at: changes.now(),
        };
        changes.emit(Event::RunSuspended {
            run_id: run.id,
            suspension_id: suspension.id,
            kind: awaited.kind,
        });
        changes.push(Change::PutSuspension(Box::new(suspension.clone())));
        suspensions.push(suspension);
    }
    let draft = Draft::of(view.drafts.iter().chain(entries).cloned());
    changes.send_suspensions(draft, &suspensions);
    changes.requeue_steering();
    changes.end(Outcome::Suspended);
    if *keeps_agent {
        changes.session.owner = view.session.owner;
    }
    Ok(changes.finish(None))
}
