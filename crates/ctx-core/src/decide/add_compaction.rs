//! Add a compaction during a run: the summary becomes a turn, and the run continues after it
//! (R168–R175).

use crate::compaction::Compaction;
use crate::id::{RunId, TurnId};
use crate::refusal::Refusal;
use crate::run::{Cancel, Phase, Run};
use crate::turn::Ready;

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// A compaction that was prepared before the transaction.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct NewCompaction {
    pub run: RunId,
    /// The fence of that run.
    pub fence: u64,
    /// The head at the time the summary was made.
    pub head: Option<TurnId>,
    /// The turn that holds the summary.
    pub ready: Ready,
    /// The turns that the summary replaces, and how it was made.
    pub compaction: Compaction,
}

/// State of the run after its compaction was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The compaction's turn, which is the new head.
    pub turn: TurnId,
    /// Set if the run is to end early.
    pub cancel: Option<Cancel>,
}

/// Appends the compaction's turn and stores its row, in one transaction.
///
/// Fails if another process has taken over the session, or the head has moved.
pub fn add_compaction(
    view: &SessionView,
    new: &NewCompaction,
    invocation: &Invocation,
) -> Decided<Compacted> {
    let mut changes = SessionChanges::new(view, invocation);
    let run = changes.own_run(new.run, new.fence)?;
    if view.session.head != new.head {
        return Err(Refusal::StaleWriter);
    }
    let turn = changes.append_ready(&new.ready);
    changes.record_compaction(&new.compaction);
    if run.phase == Phase::Compacting {
        changes.push(Change::PutRun(Box::new(Run { phase: Phase::Streaming, ..run.clone() })));
        changes.emit(Event::RunPhase { run_id: run.id, phase: Phase::Streaming });
    }
    Ok(changes.finish(Compacted { turn, cancel: run.cancel }))
}
