//! Import a session from a bundle: all its turns in one transaction, then its tasks one by one.

use std::collections::BTreeMap;

use crate::bundle::TaskImport;
use crate::commit::Commit;
use crate::id::{CommitId, TurnId};
use crate::refusal::Refusal;
use crate::session;
use crate::task::Task;
use crate::turn::Record;

use super::rewind::must_be_idle;
use super::update_session::{field, set};
use super::{Change, CommitRecord, Decided, Decision, Event, SessionView, create_session};

/// A session to import. It was read and validated before the transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionToImport {
    /// The session to create if it does not exist yet.
    pub new: session::New,
    /// Settings of the session's agent.
    pub options: BTreeMap<String, String>,
    /// The head that an existing session must have.
    pub expected: Option<TurnId>,
    /// The turns after `expected`, or all turns if it is `None`. Oldest first.
    pub turns: Vec<Record>,
}

/// Creates the session with all its turns.
///
/// # Errors
/// If the session exists by now, its label is invalid or in use, or a setting is invalid.
pub fn import_session(existing: Option<&SessionView>, import: &SessionToImport) -> Decided<()> {
    if existing.is_some() {
        return Err(Refusal::StaleWriter);
    }
    let mut decision = create_session(None, &import.new)?;
    // Bundles are untrusted: their settings must pass the checks for settings from clients.
    for (what, text) in [("persona", &import.new.persona), ("provider", &import.new.provider_id)] {
        text.as_deref().map(|text| field(what, text)).transpose()?;
    }
    set(
        &mut BTreeMap::new(),
        &import.options.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
    )?;
    if !import.options.is_empty() {
        let session = session::Session { options: import.options.clone(), ..import.new.session() };
        decision.changes.push(Change::PutSession(Box::new(session)));
    }
    add_turns(&mut decision, &import.turns);
    Ok(decision)
}

/// As [`import_session`], with the status that the session has in its source.
///
/// # Errors
/// As of [`import_session`].
pub fn import_session_as(
    existing: Option<&SessionView>,
    import: &SessionToImport,
    status: session::Status,
) -> Decided<()> {
    let mut decision = import_session(existing, import)?;
    let options = import.options.clone();
    let session = session::Session { status, options, ..import.new.session() };
    decision.changes.push(Change::PutSession(Box::new(session)));
    Ok(decision)
}

/// Replaces the newest turn, which was incomplete when it was imported, and appends further turns.
/// `parent` is the turn before it.
///
/// # Errors
/// If the session is not idle, or its head is not the expected one.
pub fn replace_last_turn(
    view: &SessionView,
    import: &SessionToImport,
    parent: Option<TurnId>,
) -> Decided<()> {
    check_idle(view, import.expected)?;
    let depth = view.session.turn_count.saturating_sub(1);
    let mut decision = Decision { events: vec![Event::SessionUpdated], ..Decision::unchanged(()) };
    decision.changes.push(Change::MoveHead { turn: parent, depth });
    add_turns(&mut decision, &import.turns);
    Ok(decision)
}

/// Appends the imported turns to an existing session that does not have them yet.
///
/// # Errors
/// If the session is not idle, or its head is not the expected one.
pub fn extend_session(view: &SessionView, import: &SessionToImport) -> Decided<()> {
    check_idle(view, import.expected)?;
    let mut decision = Decision { events: vec![Event::SessionUpdated], ..Decision::unchanged(()) };
    add_turns(&mut decision, &import.turns);
    Ok(decision)
}

/// Moves the head of an imported session before its first turn: the source was started again. The
/// turns stay in the tree.
///
/// # Errors
/// If the session is not idle, or its head is not the expected one.
pub fn restart_import(view: &SessionView, expected: Option<TurnId>) -> Decided<()> {
    check_idle(view, expected)?;
    Ok(Decision {
        changes: vec![Change::MoveHead { turn: None, depth: 0 }],
        events: vec![Event::SessionUpdated],
        ..Decision::unchanged(())
    })
}

fn check_idle(view: &SessionView, expected: Option<TurnId>) -> Result<(), Refusal> {
    if view.session.head != expected {
        return Err(Refusal::StaleWriter);
    }
    must_be_idle(view)
}

fn add_turns(decision: &mut Decision<()>, turns: &[Record]) {
    if let Some(head) = turns.last() {
        decision.events.push(Event::TurnCommitted { turn: Some(head.id) });
        decision.changes.push(Change::ImportTurns(turns.to_vec()));
    }
}

/// Imports a task of an imported session. The task is skipped, and the reply is `None`, if another
/// task is open in the session, or if the task is stored already and the import does not continue
/// it.
///
/// Its commit is imported only if the commit's parent is the project's newest commit here: the
/// history of a project does not branch. Without its commit, a sealed task is still stored as
/// ended.
///
/// # Errors
/// None; the result type is the one of all rules.
pub fn import_task(view: &SessionView, task: &TaskImport) -> Decided<Option<Task>> {
    let skipped = || Ok(Decision::unchanged(None));
    let known_steps = match (&view.known_task, &view.task) {
        (Some(known), open) => {
            let is_open_here = open.as_ref().is_some_and(|open| open.id == known.id);
            match task.import.steps.iter().position(|step| step.id == known.head) {
                Some(at)
                    if is_open_here
                        && (at + 1 < task.import.steps.len() || task.end.ended_at.is_some()) =>
                {
                    at + 1
                }
                _ => return skipped(),
            }
        }
        (None, Some(_)) => return skipped(),
        (None, None) => 0,
    };
    let commit = task.commit.as_ref().filter(|record| {
        record.commit.project == view.session.project
            && record.commit.parents.as_slice() == view.project_head.as_slice()
    });
    let mut changes: Vec<Change> = task.import.steps[known_steps..]
        .iter()
        .map(|step| Change::AppendStep(Box::new(step.clone())))
        .collect();
    changes.extend(commit.map(|record| Change::AppendCommit(Box::new(record.clone()))));
    let imported = Task {
        ended_at: task.end.ended_at,
        commit: commit.map(|record| record.id),
        ..task.end.task.task_in(view.session.id, task.end.base_turn)
    };
    changes.push(Change::PutTask(Box::new(imported.clone())));
    let events = vec![Event::TaskUpdated { task: imported.id, state: imported.state.name() }];
    Ok(Decision { changes, events, objects: Vec::new(), reply: Some(imported) })
}

/// Imports a task of a session that moves into this store from another one. Its commit becomes the
/// project's newest one here. A commit names its project and its parent, so it gets another id.
///
/// # Errors
/// None; the result type is the one of all rules.
pub fn move_task(view: &SessionView, task: &TaskImport) -> Decided<Option<Task>> {
    let commit = task.commit.as_ref().map(|record| {
        let commit = Commit {
            parents: view.project_head.into_iter().collect(),
            project: view.session.project.clone(),
            session: view.session.id,
            ..record.commit.clone()
        };
        let object = commit.encode();
        CommitRecord { id: CommitId(object.id()), commit, object }
    });
    import_task(view, &TaskImport { commit, ..task.clone() })
}
