//! Where two lines of turns part, and what a session wrote after a moment. Only row numbers are read on the way back.

use std::collections::BTreeSet;

use ctx_core::commit::FileTouch;
use ctx_core::id::{SessionId, TurnId};
use ctx_core::lineage::{Node, Walk, meet};
use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;

use super::hashes::{Table, locate};
use super::list::known_row;
use super::rows;

/// So many rows one read transaction goes back, so that none is long.
const STEPS_MAX: usize = 100_000;

pub(crate) fn place_of(
    connection: &Connection,
    side: &Connection,
    turn: TurnId,
) -> Result<Node<i64>, Error> {
    let missing = || Error::NotFound { what: "turn", name: turn.to_string() };
    let id = locate(connection, side, Table::Turns, turn.0)?.ok_or_else(missing)?;
    let depth = connection
        .prepare_cached("SELECT depth FROM turns WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    Ok(Node { id, depth })
}

/// Goes back from two turns, as far as one transaction may.
pub(crate) fn walk(
    connection: &Connection,
    a: Node<i64>,
    b: Node<i64>,
) -> Result<Walk<i64>, Error> {
    let mut statement = connection.prepare_cached("SELECT parent FROM turns WHERE id = ?1")?;
    meet(a, b, STEPS_MAX, |row| {
        let parent: Option<Option<i64>> =
            statement.query_row([row], |row| row.get(0)).optional()?;
        parent.ok_or_else(|| Error::Damaged(format!("turn row {row} is missing")))
    })
}

pub(crate) fn name_of(connection: &Connection, row: i64) -> Result<TurnId, Error> {
    let hash = connection
        .prepare_cached("SELECT hash FROM turns WHERE id = ?1")?
        .query_row([row], |row| row.get(0))?;
    Ok(TurnId(rows::hash(hash)?))
}

/// Whether a turn was made in a session.
pub(crate) fn is_made_in(
    connection: &Connection,
    side: &Connection,
    session: SessionId,
    turn: TurnId,
) -> Result<bool, Error> {
    let row = place_of(connection, side, turn)?.id;
    let mut statement =
        connection.prepare_cached("SELECT session = ?2 FROM turns WHERE id = ?1")?;
    Ok(statement.query_row(params![row, known_row(connection, session)?], |row| row.get(0))?)
}

/// The files that a session's tasks wrote after a moment, by name.
pub(crate) fn files_written(
    connection: &Connection,
    session: SessionId,
    after: Timestamp,
    limit: usize,
) -> Result<Vec<String>, Error> {
    let session = known_row(connection, session)?;
    let mut statement = connection.prepare_cached(
        "SELECT x.files FROM tasks t JOIN steps x ON x.task = t.row
         WHERE t.session = ?1 AND t.last_activity_at > ?2 AND x.at > ?2 AND x.files IS NOT NULL",
    )?;
    let mut found = statement.query(params![session, after.0])?;
    let mut files = BTreeSet::new();
    while let (Some(row), true) = (found.next()?, files.len() < limit) {
        let touched: Vec<FileTouch> = rows::json("the files of a step", &row.get::<_, String>(0)?)?;
        files.extend(touched.into_iter().filter(|touch| touch.written).map(|touch| touch.path));
    }
    Ok(files.into_iter().take(limit).collect())
}
