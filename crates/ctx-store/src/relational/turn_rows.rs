//! Rows of `turns`: reading turns, walking to ancestors, and the tree that a session's head is in.

use std::collections::HashMap;

use ctx_core::ancestry::{AncestorSearch, TreePosition, common_ancestor};
use ctx_core::id::{ObjectId, SessionId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::turn::{self, Header};

use crate::driver::{Db, HashQuery, Table, Tx, args, limit_arg};
use crate::pack::Packed;
use crate::{Error, Found, PAGE_MAX, StoredTurn, TreeTurn, TurnQuery};

use super::session_rows::known_row;
use super::{checked, compaction_rows, decoded, not_found, to_json};

/// Rows that one read walks back at most, so that no read transaction is long.
const WALK_MAX: usize = 100_000;

/// The row of a turn that must exist.
pub(crate) fn known_turn(db: &dyn Db, turn: TurnId) -> Result<i64, Error> {
    db.locate_one(Table::Turns, turn.0)?.ok_or_else(|| not_found("turn", turn))
}

fn missing(row: i64) -> Error {
    Error::Damaged(format!("turn row {row} is missing"))
}

/// The row and the depth of a turn's parent row: one step towards the root.
fn parent_of(db: &dyn Db, row: i64) -> Result<Option<i64>, Error> {
    db.row("SELECT parent FROM turns WHERE id = ?1", args![row], |found| found.get(0))?
        .ok_or_else(|| missing(row))
}

pub(crate) fn depth_of(db: &dyn Db, row: i64) -> Result<u64, Error> {
    db.row("SELECT depth FROM turns WHERE id = ?1", args![row], |found| found.get(0))?
        .ok_or_else(|| missing(row))
}

/// The hash of a turn's row; `None` if the turn was deleted.
pub(crate) fn id_at(db: &dyn Db, row: i64) -> Result<Option<TurnId>, Error> {
    Ok(db
        .row("SELECT hash FROM turns WHERE id = ?1", args![row], |found| found.get(0))?
        .map(TurnId))
}

/// The ancestor of a turn at a depth, or the turn itself if it is at that depth or above it.
pub(crate) fn ancestor_at(db: &dyn Db, turn: i64, depth: u64) -> Result<Option<i64>, Error> {
    let mut at = Some(turn);
    while let Some(row) = at {
        let (parent, here): (Option<i64>, u64) = db
            .row("SELECT parent, depth FROM turns WHERE id = ?1", args![row], |found| {
                Ok((found.get(0)?, found.get(1)?))
            })?
            .ok_or_else(|| missing(row))?;
        if here <= depth {
            return Ok(at);
        }
        at = parent;
    }
    Ok(None)
}

/// Whether `turn` is `head` or an ancestor of it.
pub(crate) fn is_ancestor(db: &dyn Db, turn: i64, head: Option<i64>) -> Result<bool, Error> {
    let mut at = head;
    // A turn is stored after its parent, so ancestors have smaller row numbers.
    while let Some(here) = at.filter(|here| *here > turn) {
        at = parent_of(db, here)?;
    }
    Ok(at == Some(turn))
}

/// Whether a turn belongs to the tree of a session: made in it, an ancestor of its head, or on a
/// branch that a rewind left. A tree of more than `tree_max` turns is not searched.
pub(crate) fn is_in_tree(
    db: &dyn Db,
    session: i64,
    head: Option<i64>,
    turn: i64,
    tree_max: usize,
) -> Result<bool, Error> {
    let made_here = "SELECT session = ?2 FROM turns WHERE id = ?1";
    if db.is_true(made_here, args![turn, session])? || is_ancestor(db, turn, head)? {
        return Ok(true);
    }
    let tree = db.rows(TREE, args![session, limit_arg(tree_max)], |row| row.get::<i64>(0))?;
    Ok(tree.len() == tree_max || tree.contains(&turn))
}

/// A range of the turns that lead to a head, newest first, with their bodies.
pub(crate) fn list(db: &dyn Db, range: &TurnQuery) -> Result<Vec<StoredTurn>, Error> {
    let head = known_turn(db, range.head)?;
    let mut at = match range.from_depth {
        Some(depth) => ancestor_at(db, head, depth)?,
        None => Some(head),
    };
    let mut turns = Vec::new();
    while let (Some(row), true) = (at, turns.len() < range.limit) {
        let (turn, parent) = read(db, row)?;
        at = parent;
        turns.push(turn);
    }
    Ok(turns)
}

/// A turn, and the row of its parent.
pub(crate) fn read(db: &dyn Db, row: i64) -> Result<(StoredTurn, Option<i64>), Error> {
    let (id, object, parent, depth, body_version, place) = db
        .row(
            "SELECT hash, version, header, parent, depth, body_version, seg, off, len, packing, size
             FROM turns WHERE id = ?1",
            args![row],
            |found| {
                let header = found.get::<String>(2)?.into_bytes();
                let object = Object { kind: Kind::Turn, version: found.get(1)?, bytes: header };
                Ok((
                    found.get::<ObjectId>(0)?,
                    object,
                    found.get(3)?,
                    found.get(4)?,
                    found.get(5)?,
                    found.place(6)?,
                ))
            },
        )?
        .ok_or_else(|| missing(row))?;
    let header: Header = decoded(id, &checked(id, object)?)?;
    let body = match place {
        None => None,
        Some(place) => {
            let bytes = db.body(&place)?;
            let object = Object { kind: Kind::TurnBody, version: body_version, bytes };
            Some(checked(header.body, object)?)
        }
    };
    let compaction = match header.kind {
        turn::Kind::Compaction => compaction_rows::read(db, row)?,
        turn::Kind::Normal => None,
    };
    Ok((StoredTurn { id: TurnId(id), depth, header, body, compaction }, parent))
}

const TREE: &str = "WITH RECURSIVE
       up(id, parent) AS (
         SELECT t.id, t.parent FROM turns t
         WHERE t.id IN (SELECT turn FROM session_history WHERE session = ?1)
         UNION SELECT t.id, t.parent FROM turns t JOIN up ON t.id = up.parent),
       down(id) AS (
         SELECT id FROM up WHERE parent IS NULL
         UNION SELECT t.id FROM turns t JOIN down ON t.parent = down.id)
     SELECT t.id, t.hash, p.hash, t.depth
     FROM down JOIN turns t ON t.id = down.id LEFT JOIN turns p ON p.id = t.parent
     ORDER BY t.id LIMIT ?2";

/// The tree of turns that a session's heads, past and present, are in, oldest first.
pub(crate) fn tree(db: &dyn Db, session: SessionId, limit: usize) -> Result<Vec<TreeTurn>, Error> {
    let limit = limit_arg(limit.min(PAGE_MAX * 10));
    let (mut turns, mut rows) = (Vec::new(), Vec::new());
    db.query(TREE, args![known_row(db, session)?, limit], &mut |row| {
        rows.push(row.get::<i64>(0)?);
        turns.push(TreeTurn {
            id: TurnId(row.get(1)?),
            parent: row.get::<Option<_>>(2)?.map(TurnId),
            depth: row.get(3)?,
            heads: Vec::new(),
        });
        Ok(())
    })?;
    let mut heads: HashMap<i64, Vec<String>> = HashMap::new();
    db.query(
        "SELECT head, label FROM sessions WHERE head IN LIST(?1) ORDER BY row",
        args![&rows],
        &mut |row| {
            heads.entry(row.get(0)?).or_default().push(row.get(1)?);
            Ok(())
        },
    )?;
    for (turn, row) in turns.iter_mut().zip(rows) {
        turn.heads = heads.remove(&row).unwrap_or_default();
    }
    Ok(turns)
}

/// The row and depth of a turn, to start a [`walk`] from.
pub(crate) fn node(db: &dyn Db, turn: TurnId) -> Result<TreePosition<i64>, Error> {
    let id = known_turn(db, turn)?;
    Ok(TreePosition { id, depth: depth_of(db, id)? })
}

/// Walks back from two turns towards their last common ancestor, as far as one read may.
pub(crate) fn walk(
    db: &dyn Db,
    a: TreePosition<i64>,
    b: TreePosition<i64>,
) -> Result<AncestorSearch<i64>, Error> {
    common_ancestor(a, b, WALK_MAX, |row| parent_of(db, row))
}

/// Inserts a turn as a child of `parent` and returns its row.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    session: i64,
    parent: Option<i64>,
    depth: u64,
    record: &turn::Record,
    body: Option<&Packed>,
    blobs: Option<&str>,
) -> Result<i64, Error> {
    let header =
        std::str::from_utf8(&record.object.bytes).map_err(|e| Error::Internal(e.to_string()))?;
    tx.insert_object(
        Table::Turns,
        "INSERT INTO turns(hash, version, parent, depth, session, header, blobs, body_version,
             seg, off, len, packing, size)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        args![
            &record.id.0,
            record.object.version,
            parent,
            depth,
            session,
            header,
            blobs,
            body.map_or(Kind::TurnBody.newest_version(), |body| body.version),
        ],
        body,
    )
}

// ---- objects of all kinds
// ------------------------------------------------------------------------

/// The object in a row of a table; `None` if the row or its body is gone.
pub(crate) fn object_at(db: &dyn Db, table: Table, row: i64) -> Result<Option<Object>, Error> {
    if table == Table::Turns {
        return db.row("SELECT version, header FROM turns WHERE id = ?1", args![row], |found| {
            let bytes = found.get::<String>(1)?.into_bytes();
            Ok(Object { kind: Kind::Turn, version: found.get(0)?, bytes })
        });
    }
    let sql = match table {
        Table::Steps => "SELECT version, seg, off, len, packing, size FROM steps WHERE id = ?1",
        Table::Commits => "SELECT version, seg, off, len, packing, size FROM commits WHERE id = ?1",
        Table::Turns | Table::Blobs => {
            "SELECT version, seg, off, len, packing, size FROM blobs WHERE id = ?1"
        }
    };
    let found = db.row(sql, args![row], |found| Ok((found.get(0)?, found.place(1)?)))?;
    let Some((version, Some(place))) = found else { return Ok(None) };
    Ok(Some(Object { kind: table.kind(), version, bytes: db.body(&place)? }))
}

/// A turn header, step, commit or blob by its hash, checked.
pub(crate) fn object(db: &dyn Db, id: ObjectId) -> Result<Option<Object>, Error> {
    let named = |error| match error {
        Error::Damaged(why) => Error::DamagedObject { id, why },
        other => other,
    };
    for table in Table::ALL {
        if let Some(row) = db.locate_one(table, id)? {
            let object = object_at(db, table, row).map_err(named)?;
            return object.map(|object| checked(id, object)).transpose();
        }
    }
    Ok(None)
}

/// Objects of every kind whose id begins with hex digits.
pub(crate) fn resolve(db: &dyn Db, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
    let mut found: Vec<Found> = Vec::new();
    for table in Table::ALL {
        for (_, id) in db.locate(table, HashQuery::Prefix(prefix), limit)? {
            let one = Found { id, kind: table.kind() };
            // Two sessions can store equal turns: two rows with one id.
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// The `blobs` column: the rows of the blobs that an object refers to.
pub(crate) fn blob_rows_json(rows: &[i64]) -> Result<Option<String>, Error> {
    if rows.is_empty() { Ok(None) } else { to_json(rows).map(Some) }
}
