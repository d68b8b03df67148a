//! Parts: some turns and tasks of a session, in the encoding of a bundle, for a store that has the
//! turns before them.
//!
//! A long session is exchanged in several parts. Each is verified like a bundle and leaves a valid
//! session in the receiving store, so an exchange that was cut off continues after the last part.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::id::{ObjectId, SessionId, TaskId, TurnId};
use crate::object::{Kind, Object};
use crate::session::Origin;
use crate::turn::Record;

use super::session::import_after;
use super::{
    BadBundle, Manifest, SessionBundle, SessionImport, TaskEnd, damaged, manifest, read, write,
};

/// The manifest of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPart {
    /// The session; its head and number of turns are those of the part's last turn, and its tasks
    /// are those in the part.
    pub session: SessionBundle,
    /// The parent of the part's first turn. The receiving store has it.
    pub base: Option<TurnId>,
    /// Number of turns from the root to `base`.
    pub base_turns: u64,
    /// How the session was created.
    pub origin: Origin,
}

impl SessionPart {
    /// Number of turns in the part.
    pub const fn turn_count(&self) -> u64 {
        self.session.turn_count.saturating_sub(self.base_turns)
    }

    /// The tasks in the part.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> {
        self.session.tasks.iter().map(|end| end.task.task)
    }

    /// The origin that the session gets in the receiving store.
    pub const fn new_origin(&self) -> Origin {
        match self.origin {
            Origin::Fork => Origin::Fork,
            _ => Origin::Import,
        }
    }
}

/// Decodes only the manifest of a part. Nothing is verified.
///
/// # Errors
/// If the bytes are not a part.
pub fn part_manifest(bytes: &[u8]) -> Result<SessionPart, BadBundle> {
    match manifest(bytes)?.0 {
        Manifest::Part(part) => Ok(*part),
        other => Err(BadBundle::OtherKind { found: other.kind_name(), wanted: "part" }),
    }
}

/// Decodes and verifies a part: the closing hash, the hash of every object, and that the turns are
/// one chain from the base to the head.
///
/// # Errors
/// If a check fails.
pub fn part_import(bytes: &[u8]) -> Result<(SessionPart, SessionImport, Vec<Object>), BadBundle> {
    let (Manifest::Part(part), objects) = read(bytes)? else {
        return Err(BadBundle::OtherKind { found: "bundle", wanted: "part" });
    };
    if part.base.is_none() != (part.base_turns == 0) {
        return Err(damaged("the number of turns before the part is wrong"));
    }
    let import = import_after(part.session.clone(), part.base, part.base_turns, &objects)?;
    Ok((*part, import, objects))
}

/// The turns of a part, oldest first. Nothing is verified.
///
/// # Errors
/// If the bytes are not a part.
pub fn part_turns(bytes: &[u8]) -> Result<Vec<TurnId>, BadBundle> {
    let (_, objects) = read(bytes)?;
    let turns = objects.iter().filter(|object| object.kind == Kind::Turn);
    Ok(turns.map(|object| TurnId(object.id())).collect())
}

/// Some turns and tasks of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `SessionPart` and of its session")]
pub struct Excerpt {
    pub session: SessionId,
    pub label: String,
    pub origin: Origin,
    pub base: Option<TurnId>,
    pub base_turns: u64,
    /// The turns after `base`, oldest first.
    pub turns: Vec<TurnId>,
    pub tasks: Vec<TaskId>,
}

/// Verifies a part and makes a new one of some of its turns and tasks.
///
/// # Errors
/// If the part is damaged, or lacks a turn or a task.
pub fn part_excerpt(bytes: &[u8], excerpt: Excerpt) -> Result<Vec<u8>, BadBundle> {
    let (part, import, objects) = part_import(bytes)?;
    let turns: HashSet<TurnId> = excerpt.turns.iter().copied().collect();
    let records: Vec<&Record> =
        import.turns.iter().filter(|record| turns.contains(&record.id)).collect();
    let tasks: Vec<TaskEnd> = part
        .session
        .tasks
        .into_iter()
        .filter(|end| excerpt.tasks.contains(&end.task.task))
        .collect();
    if records.len() != excerpt.turns.len() || tasks.len() != excerpt.tasks.len() {
        return Err(damaged("the part lacks a turn or a task"));
    }
    let steps: HashSet<ObjectId> = import
        .tasks
        .iter()
        .filter(|task| excerpt.tasks.contains(&task.end.task.task))
        .flat_map(|task| {
            let steps = task.import.steps.iter().map(|step| step.id.0);
            steps.chain(task.commit.as_ref().map(|commit| commit.id.0))
        })
        .collect();
    let kept: HashSet<ObjectId> =
        records.iter().flat_map(|record| [record.id.0, record.body]).chain(steps).collect();
    let objects: Vec<Object> = objects
        .into_iter()
        .filter(|object| object.kind == Kind::Blob || kept.contains(&object.id()))
        .collect();
    let session = SessionBundle {
        session: excerpt.session,
        label: excerpt.label,
        head: excerpt.turns.last().copied().or(excerpt.base),
        turn_count: excerpt.base_turns + excerpt.turns.len() as u64,
        tasks,
        compactions: part
            .session
            .compactions
            .into_iter()
            .filter(|(turn, _)| turns.contains(turn))
            .collect(),
        ..part.session
    };
    let part = SessionPart {
        session,
        base: excerpt.base,
        base_turns: excerpt.base_turns,
        origin: excerpt.origin,
    };
    Ok(write(&Manifest::Part(Box::new(part)), &objects))
}
