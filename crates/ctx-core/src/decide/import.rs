//! Continue a task from a bundle: all of its steps, verified, or nothing (R116, R117).

use crate::bundle::TaskBundle;
use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::task::Task;

use super::{Change, Decided, Decision, Event, SessionView, StepRecord};

/// A bundle's task, read and verified before the transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The task at the time of the export.
    pub bundle: TaskBundle,
    /// Its steps, oldest first; their chain is unbroken.
    pub steps: Vec<StepRecord>,
}

/// Opens the bundle's task here, or appends the steps that are new; an older bundle changes
/// nothing.
///
/// Fails if another task is open, this one has ended or has diverged here, or its newest step is
/// missing.
pub fn import(view: &SessionView, import: &Import) -> Decided<Task> {
    if import.steps.is_empty() && !view.has_import_head {
        return Err(Refusal::MissingHead { head: import.bundle.staging_head });
    }
    if let Some(known) = &view.known_task {
        return merge(view, known, import);
    }
    if let Some(open) = &view.task {
        return Err(Refusal::TaskOpen { description: open.description.clone() });
    }
    Ok(adopt(&view.session, import, 0, view.session.head))
}

fn merge(view: &SessionView, known: &Task, import: &Import) -> Decided<Task> {
    if let Some(commit) = known.commit {
        return Err(Refusal::AlreadySealed { commit });
    }
    if known.ended_at.is_some() {
        return Err(Refusal::AlreadyEnded);
    }
    if view.task.as_ref().is_none_or(|open| open.id != known.id) {
        return Err(Refusal::TaskOpen { description: known.description.clone() });
    }
    match import.steps.iter().position(|step| step.id == known.head) {
        Some(at) if at + 1 < import.steps.len() => {
            Ok(adopt(&view.session, import, at + 1, known.base_turn))
        }
        None if !view.has_import_head => Err(Refusal::Diverged { head: known.head }),
        // The bundle is as old as the task here, or older.
        _ => Ok(Decision::unchanged(known.clone())),
    }
}

/// Stores the steps from `skip` on, and the task in the bundle's state.
fn adopt(
    session: &Session,
    import: &Import,
    skip: usize,
    base_turn: Option<TurnId>,
) -> Decision<Task> {
    let task = import.bundle.task_in(session.id, base_turn);
    let mut changes: Vec<Change> = import.steps[skip..]
        .iter()
        .map(|step| Change::AppendStep(Box::new(step.clone())))
        .collect();
    changes.push(Change::PutTask(Box::new(task.clone())));
    let events = vec![Event::TaskUpdated { task: task.id, state: task.state.name() }];
    Decision { changes, events, objects: Vec::new(), reply: task }
}
