//! The documents of the search index: which rows belong to a document, and their text.
//!
//! A turn is a document. The record of a task is split into documents of [`STEPS_PER_DOCUMENT`]
//! steps, so that a new step changes one small document; each also has the description of the task
//! and the message of its commit.

use std::collections::HashMap;

use ctx_core::commit::Commit;
use ctx_core::id::{BlobId, CommitId, ObjectId, TaskId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::search::{Document, clip_output, project_mark, session_mark};
use ctx_core::step::Step;
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Header};

use crate::Error;
use crate::driver::{Db, Place, Table, args};
use crate::pack::unpack;

/// Steps of a task that share a document.
pub(crate) const STEPS_PER_DOCUMENT: i64 = 128;
const PART_BITS: u32 = 20;

/// What a document is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// A turn, by its row.
    Turn(i64),
    /// The nth group of steps of a task.
    Steps { task: i64, part: i64 },
}

impl Unit {
    /// The number under which the index has the unit.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Unit::Turn(row) => row << 1,
            Unit::Steps { task, part } => (task << PART_BITS | part) << 1 | 1,
        }
    }

    pub(crate) const fn from_number(number: i64) -> Self {
        match number & 1 {
            0 => Unit::Turn(number >> 1),
            _ => Unit::Steps {
                task: number >> 1 >> PART_BITS,
                part: (number >> 1) & ((1 << PART_BITS) - 1),
            },
        }
    }
}

/// The units that rows of a table after `from` up to `to` belong to.
pub(crate) fn units_of_rows(
    db: &dyn Db,
    table: Table,
    from: i64,
    to: i64,
) -> Result<Vec<Unit>, Error> {
    let sql = match table {
        Table::Turns => "SELECT id, 0 FROM turns WHERE id > ?1 AND id <= ?2 ORDER BY id",
        Table::Steps => "SELECT task, seq FROM steps WHERE id > ?1 AND id <= ?2 ORDER BY task, seq",
        Table::Commits => {
            "SELECT c.task, (SELECT MAX(seq) FROM steps s WHERE s.task = c.task) FROM commits c
             WHERE c.id > ?1 AND c.id <= ?2 ORDER BY c.id"
        }
        Table::Blobs => return Ok(Vec::new()),
    };
    let mut units = db.rows(sql, args![from, to], |row| {
        let number: i64 = row.get(0)?;
        Ok(match table {
            Table::Turns => Unit::Turn(number),
            _ => {
                let seq = row.get::<Option<i64>>(1)?.unwrap_or(0);
                Unit::Steps { task: number, part: seq / STEPS_PER_DOCUMENT }
            }
        })
    })?;
    units.dedup();
    Ok(units)
}

/// The words under which the index has each unit. A unit whose rows are gone has none.
pub(crate) fn index_entries(db: &dyn Db, units: &[Unit]) -> Result<Vec<(Unit, String)>, Error> {
    let mut sessions: HashMap<Unit, i64> = HashMap::new();
    let mut documents: HashMap<Unit, Document> = HashMap::new();
    for turn in turns(db, &turn_rows(units))? {
        sessions.insert(Unit::Turn(turn.row), turn.session);
        documents.insert(Unit::Turn(turn.row), turn.document);
    }
    for steps in task_parts(db, units)? {
        sessions.insert(steps.unit, steps.session);
        documents.insert(steps.unit, steps.document);
    }
    let mut rows: Vec<i64> = sessions.values().copied().collect();
    rows.sort_unstable();
    rows.dedup();
    let projects = projects(db, &rows)?;
    let mut entries = Vec::with_capacity(units.len());
    for unit in units {
        let Some(document) = documents.remove(unit) else { continue };
        let session = sessions.get(unit).copied().unwrap_or(0);
        let mut marks = vec![session_mark(session)];
        marks.extend(projects.get(&session).map(|project| project_mark(project)));
        entries.push((*unit, document.index_words(&marks)));
    }
    Ok(entries)
}

fn projects(db: &dyn Db, sessions: &[i64]) -> Result<HashMap<i64, String>, Error> {
    if sessions.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT row, project FROM sessions WHERE row IN LIST(?1)";
    let found = db.rows(sql, args![sessions], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.into_iter().collect())
}

/// The rows of the turns among units.
pub(crate) fn turn_rows(units: &[Unit]) -> Vec<i64> {
    let row = |unit: &Unit| match unit {
        Unit::Turn(row) => Some(*row),
        Unit::Steps { .. } => None,
    };
    units.iter().filter_map(row).collect()
}

/// A turn with what is searched of it.
pub(crate) struct TurnText {
    pub(crate) row: i64,
    pub(crate) id: TurnId,
    /// Row of the session that made it.
    pub(crate) session: i64,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    pub(crate) document: Document,
}

/// The turns in rows, in any order. A turn that cannot be decoded has an empty document; `verify`
/// reports it.
pub(crate) fn turns(db: &dyn Db, rows: &[i64]) -> Result<Vec<TurnText>, Error> {
    struct Found {
        row: i64,
        id: ObjectId,
        session: i64,
        header: Object,
        body_version: u16,
        blobs: Option<String>,
        place: Option<Place>,
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let found = db.rows(
        "SELECT id, hash, session, version, header, body_version, blobs,
                seg, off, len, packing, size FROM turns WHERE id IN LIST(?1)",
        args![rows],
        |row| {
            let bytes = row.get::<&str>(4)?.as_bytes().to_vec();
            Ok(Found {
                row: row.get(0)?,
                id: row.get(1)?,
                session: row.get(2)?,
                header: Object { kind: Kind::Turn, version: row.get(3)?, bytes },
                body_version: row.get(5)?,
                blobs: row.get(6)?,
                place: row.place(7)?,
            })
        },
    )?;
    let places: Vec<Place> = found.iter().filter_map(|found| found.place).collect();
    let mut buffer = Vec::new();
    let mut bodies = db.packed(&places, &mut buffer)?.into_iter();
    let mut turns = Vec::with_capacity(found.len());
    for found in found {
        let body = found.place.and_then(|place| Some((place, bodies.next()?)));
        let Ok(header) = found.header.decode::<Header>() else { continue };
        let mut document = Document::default();
        if let Some((place, range)) = body
            && let Ok(bytes) = unpack(buffer[range].into(), place.packing, place.size)
        {
            let body = Object { kind: Kind::TurnBody, version: found.body_version, bytes };
            let messages = turn::messages(&header, &body).unwrap_or_default();
            let blobs = blobs(db, found.blobs.as_deref())?;
            document = Document::of_turn(&messages, &|id| read_blob(db, &blobs, id));
        }
        turns.push(TurnText {
            row: found.row,
            id: TurnId(found.id),
            session: found.session,
            started_at: header.started_at,
            ended_at: header.ended_at,
            document,
        });
    }
    Ok(turns)
}

/// The places of the blobs that an object refers to.
fn blobs(db: &dyn Db, rows: Option<&str>) -> Result<HashMap<ObjectId, Place>, Error> {
    let Some(rows) = rows else { return Ok(HashMap::new()) };
    let rows: Vec<i64> = serde_json::from_str(rows).unwrap_or_default();
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let found = db.rows(
        "SELECT hash, seg, off, len, packing, size FROM blobs WHERE id IN LIST(?1)",
        args![&rows],
        |row| Ok((row.get::<ObjectId>(0)?, row.place(1)?)),
    )?;
    Ok(found.into_iter().filter_map(|(id, place)| Some((id, place?))).collect())
}

fn read_blob(db: &dyn Db, blobs: &HashMap<ObjectId, Place>, id: BlobId) -> Option<String> {
    clip_output(&db.body(blobs.get(&id.0)?).ok()?)
}

/// A task, as far as a search needs it. It is read on its own: a damaged store is searched as well.
#[derive(Clone)]
pub(crate) struct TaskText {
    pub(crate) row: i64,
    pub(crate) id: TaskId,
    description: String,
    started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) base_turn: Option<TurnId>,
}

/// Some steps of a task with what is searched of them.
pub(crate) struct StepsText {
    pub(crate) unit: Unit,
    pub(crate) task: TaskText,
    /// Row of the task's session.
    pub(crate) session: i64,
    pub(crate) commit: Option<(CommitId, Commit)>,
    /// When the last of the steps was stored.
    pub(crate) at: Timestamp,
    pub(crate) document: Document,
}

/// The steps among units, in any order.
pub(crate) fn task_parts(db: &dyn Db, units: &[Unit]) -> Result<Vec<StepsText>, Error> {
    let mut rows: Vec<i64> = Vec::new();
    for unit in units {
        if let Unit::Steps { task, .. } = unit {
            rows.push(*task);
        }
    }
    rows.sort_unstable();
    rows.dedup();
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut tasks: HashMap<i64, (i64, TaskText)> = HashMap::new();
    db.query(
        "SELECT row, session, id, description, started_at, ended_at, base_turn FROM tasks
         WHERE row IN LIST(?1)",
        args![&rows],
        &mut |row| {
            let task = TaskText {
                row: row.get(0)?,
                id: super::from_id("a task's id", row.get(2)?)?,
                description: row.get(3)?,
                started_at: row.get(4)?,
                ended_at: row.get(5)?,
                base_turn: row.get::<Option<_>>(6)?.map(TurnId),
            };
            tasks.insert(task.row, (row.get(1)?, task));
            Ok(())
        },
    )?;
    let commits = commits(db, &rows)?;
    let mut parts = Vec::new();
    for unit in units {
        let Unit::Steps { task: row, part } = *unit else { continue };
        let Some((session, task)) = tasks.get(&row) else { continue };
        let commit = commits.get(&row).cloned();
        let (steps, blobs) = steps(db, row, part)?;
        let at = steps.last().map_or(task.started_at, |step| step.timestamp);
        let document = Document::of_steps(
            &task.description,
            &steps,
            commit.as_ref().map(|(_, commit)| commit),
            &|id| read_blob(db, &blobs, id),
        );
        let (unit, session) = (*unit, *session);
        parts.push(StepsText { unit, task: task.clone(), session, commit, at, document });
    }
    Ok(parts)
}

/// The commits of tasks, by the row of the task.
fn commits(db: &dyn Db, tasks: &[i64]) -> Result<HashMap<i64, (CommitId, Commit)>, Error> {
    let found = db.rows(
        "SELECT task, hash, version, seg, off, len, packing, size FROM commits
         WHERE task IN LIST(?1)",
        args![tasks],
        |row| Ok((row.get::<i64>(0)?, row.get::<ObjectId>(1)?, row.get(2)?, row.place(3)?)),
    )?;
    let mut commits = HashMap::new();
    for (task, id, version, place) in found {
        let Some(place) = place else { continue };
        let object = Object { kind: Kind::Commit, version, bytes: db.body(&place)? };
        if let Ok(commit) = object.decode::<Commit>() {
            commits.insert(task, (CommitId(id), commit));
        }
    }
    Ok(commits)
}

type Blobs = HashMap<ObjectId, Place>;

fn steps(db: &dyn Db, task: i64, part: i64) -> Result<(Vec<Step>, Blobs), Error> {
    let first = part * STEPS_PER_DOCUMENT;
    let found = db.rows(
        "SELECT version, blobs, seg, off, len, packing, size FROM steps
         WHERE task = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq",
        args![task, first, first + STEPS_PER_DOCUMENT],
        |row| Ok((row.get(0)?, row.get::<Option<String>>(1)?, row.place(2)?)),
    )?;
    let places: Vec<Place> = found.iter().filter_map(|(_, _, place)| *place).collect();
    let mut buffer = Vec::new();
    let mut bodies = db.packed(&places, &mut buffer)?.into_iter();
    let (mut steps, mut all) = (Vec::new(), HashMap::new());
    for (version, step_blobs, place) in found {
        let Some((place, range)) = place.and_then(|place| Some((place, bodies.next()?))) else {
            continue;
        };
        all.extend(blobs(db, step_blobs.as_deref())?);
        let Ok(bytes) = unpack(buffer[range].into(), place.packing, place.size) else { continue };
        let object = Object { kind: Kind::Step, version, bytes };
        steps.extend(object.decode::<Step>().ok());
    }
    Ok((steps, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_distinct_numbers() {
        let units = [
            Unit::Turn(1),
            Unit::Turn(1 << 40),
            Unit::Steps { task: 1, part: 0 },
            Unit::Steps { task: 1, part: 9 },
            Unit::Steps { task: 1 << 40, part: (1 << PART_BITS) - 1 },
        ];
        for unit in units {
            assert_eq!(Unit::from_number(unit.number()), unit);
        }
    }
}
