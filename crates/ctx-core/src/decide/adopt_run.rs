//! Adopt a run: another process accepted the answer to a suspension, and opened the run for the
//! process whose agent waits for that answer. Adopting raises the fence, so that exactly one
//! process carries the run out: the one whose agent waits, or, if it does not adopt the run in
//! time, the one that accepted the answer.

use crate::id::{NodeId, RunId};
use crate::inbox::ItemState;
use crate::run::Run;
use crate::session::Activity;

use super::session_changes::SessionChanges;
use super::{Decided, Decision, Invocation, OpenedRun, SessionView};

/// A run that is not adopted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedRun {
    /// The run.
    pub run: RunId,
    /// The process for which it was opened.
    pub owner: NodeId,
    /// Its fence when it was opened; `None` if the caller does not know it.
    pub fence: Option<u64>,
}

/// Makes a process carry out an offered run. The reply is empty if the run has ended, or another
/// process has adopted it. The view contains what [`super::Needs::ADOPT`] selects.
///
/// Never fails.
pub fn adopt_run(
    view: &SessionView,
    offered: &OfferedRun,
    node: NodeId,
    invocation: &Invocation,
) -> Decided<Option<Box<OpenedRun>>> {
    let session = &view.session;
    let is_offered = |open: &&Run| {
        open.id == offered.run
            && open.ended_at.is_none()
            && offered.fence.is_none_or(|fence| fence == open.fence)
    };
    let open = view.run.as_ref().filter(is_offered);
    let (Activity::Running, Some(open)) = (session.state, open) else {
        return Ok(Decision::unchanged(None));
    };
    if session.owner != Some(offered.owner) {
        return Ok(Decision::unchanged(None));
    }
    let mut changes = SessionChanges::new(view, invocation);
    let run = Run { fence: session.fence + 1, ..open.clone() };
    let items = changes.items_in(ItemState::Taken);
    changes.start_run(run, items, view.drafts.clone(), view.answered.clone(), node);
    let opened_run = changes.opened_run.take();
    Ok(changes.finish(opened_run))
}
