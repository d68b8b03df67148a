//! Take a session in from a bundle: all of its turns or nothing; then its tasks, each whole.

use std::collections::BTreeMap;

use crate::bundle::TaskImport;
use crate::id::TurnId;
use crate::refusal::Refusal;
use crate::session::{self, Activity};
use crate::task::Task;
use crate::turn::Record;

use super::update_session::{field, set};
use super::{Change, Decided, Decision, Event, SessionView, create_session};

/// A session that is to be taken in, read and verified before the transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionToImport {
    /// The session to make where there is none.
    pub new: session::New,
    /// Settings of its agent.
    pub options: BTreeMap<String, String>,
    /// The head that it must have where there is one already.
    pub expected: Option<TurnId>,
    /// The turns that come after that head, or all where there is none, oldest first.
    pub turns: Vec<Record>,
}

/// Makes the session with all of its turns.
///
/// # Errors
/// If somebody has its label meanwhile, or the label is none.
pub fn import_session(found: Option<&SessionView>, adopt: &SessionToImport) -> Decided<()> {
    if found.is_some() {
        return Err(Refusal::StaleWriter);
    }
    let mut decision = create_session(None, &adopt.new)?;
    // A bundle says what its writer wants: no more is taken than a client could set.
    for (what, text) in [("persona", &adopt.new.persona), ("provider", &adopt.new.provider_id)] {
        text.as_deref().map(|text| field(what, text)).transpose()?;
    }
    set(
        &mut BTreeMap::new(),
        &adopt.options.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
    )?;
    if !adopt.options.is_empty() {
        let session = session::Session { options: adopt.options.clone(), ..adopt.new.session() };
        decision.changes.push(Change::PutSession(Box::new(session)));
    }
    add_turns(&mut decision, &adopt.turns);
    Ok(decision)
}

/// Brings a session forward that is here and has come less far.
///
/// # Errors
/// If it is busy, or has moved on meanwhile.
pub fn extend_session(view: &SessionView, adopt: &SessionToImport) -> Decided<()> {
    if view.session.head != adopt.expected {
        return Err(Refusal::StaleWriter);
    }
    match view.session.state {
        Activity::Idle => {}
        Activity::Running => return Err(Refusal::Busy { state: "running" }),
        Activity::Suspended => return Err(Refusal::Busy { state: "suspended" }),
    }
    let mut decision = Decision { events: vec![Event::SessionUpdated], ..Decision::unchanged(()) };
    add_turns(&mut decision, &adopt.turns);
    Ok(decision)
}

fn add_turns(decision: &mut Decision<()>, turns: &[Record]) {
    if let Some(head) = turns.last() {
        decision.events.push(Event::TurnCommitted { turn: Some(head.id) });
        decision.changes.push(Change::ImportTurns(turns.to_vec()));
    }
}

/// Takes a task of an imported session in; one that does not fit what is here is left, and nothing
/// changes.
///
/// A commit comes along where it goes on from the project's newest here: a line of commits is never
/// bent. Where it does not, the task is ended all the same, and its steps tell what was done.
///
/// # Errors
/// Never.
pub fn import_task(view: &SessionView, task: &TaskImport) -> Decided<Option<Task>> {
    let left = || Ok(Decision::unchanged(None));
    let skip = match (&view.known_task, &view.task) {
        (Some(known), open) => {
            let is_open_here = open.as_ref().is_some_and(|open| open.id == known.id);
            match task.import.steps.iter().position(|step| step.id == known.head) {
                Some(at)
                    if is_open_here
                        && (at + 1 < task.import.steps.len() || task.end.ended_at.is_some()) =>
                {
                    at + 1
                }
                _ => return left(),
            }
        }
        (None, Some(_)) => return left(),
        (None, None) => 0,
    };
    let commit = task.commit.as_ref().filter(|record| {
        record.commit.project == view.session.project
            && record.commit.parents.as_slice() == view.project_head.as_slice()
    });
    let mut changes: Vec<Change> = task.import.steps[skip..]
        .iter()
        .map(|step| Change::AppendStep(Box::new(step.clone())))
        .collect();
    changes.extend(commit.map(|record| Change::AppendCommit(Box::new(record.clone()))));
    let taken = Task {
        ended_at: task.end.ended_at,
        commit: commit.map(|record| record.id),
        ..task.end.task.task_in(view.session.id, task.end.base_turn)
    };
    changes.push(Change::PutTask(Box::new(taken.clone())));
    let events = vec![Event::TaskUpdated { task: taken.id, state: taken.state.name() }];
    Ok(Decision { changes, events, objects: Vec::new(), reply: Some(taken) })
}
