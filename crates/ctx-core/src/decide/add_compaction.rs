//! A run shortens its context: the summary becomes a turn under the head, and the run goes on (R168–R175).

use crate::compaction::Compaction;
use crate::id::{RunId, TurnId};
use crate::refusal::Refusal;
use crate::run::{Cancel, Phase, Run};
use crate::turn::Ready;

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView};

/// A compaction that is ready but for its place.
#[derive(Debug, Clone)]
pub struct NewCompaction {
    /// Which run.
    pub run: RunId,
    /// Under which fence.
    pub fence: u64,
    /// The head that it was made for.
    pub head: Option<TurnId>,
    /// Its turn.
    pub ready: Ready,
    /// What that stands for.
    pub compaction: Compaction,
}

/// Where the run goes on after its compaction was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The compaction's turn, which is the new head.
    pub turn: TurnId,
    /// Set if the run is to end early.
    pub cancel: Option<Cancel>,
}

/// Hangs the compaction under the head. The turn and its row are one commit, or there is neither.
///
/// # Errors
/// If somebody else has taken the session over, or its head has moved.
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
