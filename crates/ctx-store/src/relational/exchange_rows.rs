//! What another store asks before an exchange of sessions: heads, turns of a path, tasks.

use std::collections::HashMap;

use ctx_core::exchange::{PathQuery, SessionHead, TaskMark, task_digest};
use ctx_core::id::{SessionId, StepId, TaskId, TurnId};

use crate::Error;
use crate::driver::{Db, Row, Table, args};

use super::turn_rows::{ancestor_at, depth_of, id_at};
use super::{from_id, from_name};

/// Every session, oldest first.
pub(crate) fn heads(db: &dyn Db) -> Result<Vec<SessionHead>, Error> {
    let mut marks: HashMap<i64, Vec<TaskMark>> = HashMap::new();
    let tasks = db.rows(
        "SELECT t.id, x.hash, t.steps, t.ended_at, t.session
         FROM tasks t JOIN steps x ON x.id = t.head",
        args![],
        |row| Ok((row.get::<i64>(4)?, mark(row)?)),
    )?;
    for (session, mark) in tasks {
        marks.entry(session).or_default().push(mark);
    }
    db.rows(
        "SELECT s.row, s.id, s.label, s.origin, h.hash, s.turn_count, s.updated_at
         FROM sessions s LEFT JOIN turns h ON h.id = s.head ORDER BY s.row",
        args![],
        |row| {
            let mut tasks = marks.remove(&row.get(0)?).unwrap_or_default();
            Ok(SessionHead {
                session: from_id("a session's id", row.get(1)?)?,
                label: row.get(2)?,
                origin: from_name("a session's origin", row.get(3)?)?,
                head: row.get::<Option<_>>(4)?.map(TurnId),
                turns: row.get(5)?,
                tasks: task_digest(&mut tasks),
                updated_at: row.get(6)?,
            })
        },
    )
}

fn mark(row: Row<'_>) -> Result<TaskMark, Error> {
    Ok(TaskMark {
        task: from_id("a task's id", row.get(0)?)?,
        head: StepId(row.get(1)?),
        steps: row.get(2)?,
        ended: row.get::<Option<i64>>(3)?.is_some(),
    })
}

/// The turns at the depths of a query.
pub(crate) fn path(db: &dyn Db, query: &PathQuery) -> Result<Vec<Option<TurnId>>, Error> {
    let Some(head) = db.locate_one(Table::Turns, query.head.0)? else {
        return Ok(vec![None; query.depths.len()]);
    };
    let last = depth_of(db, head)?;
    let turn = |depth: &u64| match *depth {
        depth if depth == 0 || depth > last => Ok(None),
        depth => ancestor_at(db, head, depth)?.map_or(Ok(None), |row| id_at(db, row)),
    };
    query.depths.iter().map(turn).collect()
}

/// The depth of each turn that is stored.
pub(crate) fn depths(db: &dyn Db, turns: &[TurnId]) -> Result<Vec<Option<u64>>, Error> {
    let depth = |turn: &TurnId| {
        let row = db.locate_one(Table::Turns, turn.0)?;
        row.map(|row| depth_of(db, row)).transpose()
    };
    turns.iter().map(depth).collect()
}

/// The tasks of a session, oldest first. None if the session does not exist.
pub(crate) fn tasks_of(db: &dyn Db, session: SessionId) -> Result<Vec<TaskMark>, Error> {
    db.rows(
        "SELECT t.id, x.hash, t.steps, t.ended_at
         FROM tasks t JOIN steps x ON x.id = t.head JOIN sessions s ON s.row = t.session
         WHERE s.id = ?1 ORDER BY t.row",
        args![&session.to_string()],
        mark,
    )
}

/// A task by its id.
pub(crate) fn task(db: &dyn Db, task: TaskId) -> Result<Option<TaskMark>, Error> {
    db.row(
        "SELECT t.id, x.hash, t.steps, t.ended_at
         FROM tasks t JOIN steps x ON x.id = t.head WHERE t.id = ?1",
        args![&task.to_string()],
        mark,
    )
}
