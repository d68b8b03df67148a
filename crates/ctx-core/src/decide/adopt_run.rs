//! Adopt a run: another process accepted the answer to a suspension, and opened the run for the
//! process whose agent waits for that answer.

use crate::id::{NodeId, RunId};
use crate::inbox::ItemState;
use crate::session::Activity;

use super::{OpenedRun, SessionView};

/// The run as its process carries it out. `None` if the run has ended, or belongs to another
/// process. The view contains what [`super::Needs::ADOPT`] selects.
pub fn adopt_run(view: &SessionView, run: RunId, node: NodeId) -> Option<Box<OpenedRun>> {
    let session = &view.session;
    if session.state != Activity::Running || session.owner != Some(node) {
        return None;
    }
    let run = view.run.as_ref().filter(|open| open.id == run && open.ended_at.is_none())?;
    let taken = view.inbox.iter().filter(|item| item.state == ItemState::Taken);
    Some(Box::new(OpenedRun {
        run: run.clone(),
        session: session.clone(),
        entity_sessions: view.entity_sessions.clone(),
        items: taken.cloned().collect(),
        head: session.head,
        drafts: view.drafts.clone(),
        resumes: view.answered.clone(),
    }))
}
