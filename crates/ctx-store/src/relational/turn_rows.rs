//! Rows of `turns`: reading turns, walking to ancestors, and the tree that a session's head is in.

use std::collections::HashMap;

use ctx_core::ancestry::{self, Links};
use ctx_core::id::{ObjectId, SessionId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::turn;

use crate::driver::{Db, HashQuery, Table, Tx, args, limit_arg};
use crate::pack::Packed;
use crate::{Error, Found, PAGE_MAX, StoredTurn, TreeTurn, TurnQuery};

use super::session_rows::known_row;
use super::turn_path::Path;
use super::{checked, not_found, to_json, usage_rows};

/// The row of a turn that must exist.
pub(crate) fn known_turn(db: &dyn Db, turn: TurnId) -> Result<i64, Error> {
    db.locate_one(Table::Turns, turn.0)?.ok_or_else(|| not_found("turn", turn))
}

pub(crate) fn missing(row: i64) -> Error {
    Error::Damaged(format!("turn row {row} is missing"))
}

/// The links of a turn's row towards the root.
fn links(db: &dyn Db, row: i64) -> Result<Links<i64>, Error> {
    db.row("SELECT depth, parent, skip FROM turns WHERE id = ?1", args![row], |found| {
        Ok(Links { depth: found.get(0)?, parent: found.get(1)?, skip: found.get(2)? })
    })?
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
    ancestry::ancestor_at(turn, depth, |row| links(db, row))
}

/// Whether `turn` is `head` or an ancestor of it.
pub(crate) fn is_ancestor(db: &dyn Db, turn: i64, head: Option<i64>) -> Result<bool, Error> {
    match head {
        // A turn is stored after its parent, so ancestors have smaller row numbers.
        Some(head) if turn < head => Ok(ancestor_at(db, head, depth_of(db, turn)?)? == Some(turn)),
        head => Ok(head == Some(turn)),
    }
}

/// Whether a turn belongs to the tree of a session: it has the root of a head, past or present.
pub(crate) fn is_in_tree(
    db: &dyn Db,
    session: i64,
    head: Option<i64>,
    turn: i64,
) -> Result<bool, Error> {
    if is_ancestor(db, turn, head)? {
        return Ok(true);
    }
    let root = ancestor_at(db, turn, 1)?;
    if root.is_some() && head.map_or(Ok(None), |head| ancestor_at(db, head, 1))? == root {
        return Ok(true);
    }
    // A session that was moved back before its first turn has several roots. The turn of a move
    // has the root of its parent, which is the move before it unless the head was moved back.
    let mut at = db.int("SELECT last_move FROM sessions WHERE row = ?1", args![session])?;
    let mut newer: Option<(i64, Option<i64>)> = None;
    while let Some(row) = at {
        let (prev, turn) = head_move(db, row)?;
        if let Some((newer, parent)) = newer
            && (parent.is_none() || parent != turn)
            && ancestor_at(db, newer, 1)? == root
        {
            return Ok(true);
        }
        newer = match turn {
            Some(turn) => Some((turn, links(db, turn)?.parent)),
            None => None,
        };
        at = prev;
    }
    newer.map_or(Ok(false), |(turn, _)| Ok(ancestor_at(db, turn, 1)? == root))
}

/// The row of the move before a move of a head, and the turn that the head was moved to.
fn head_move(db: &dyn Db, row: i64) -> Result<(Option<i64>, Option<i64>), Error> {
    db.row("SELECT prev, turn FROM session_history WHERE id = ?1", args![row], |found| {
        Ok((found.get(0)?, found.get(1)?))
    })?
    .ok_or_else(|| Error::Damaged(format!("head move {row} is missing")))
}

/// The path of a query: the turns that lead to a head, newest first.
pub(crate) fn path<'a>(db: &'a dyn Db, range: &TurnQuery) -> Result<Path<'a>, Error> {
    let head = known_turn(db, range.head)?;
    let first = match range.from_depth {
        Some(depth) => ancestor_at(db, head, depth)?,
        None => Some(head),
    };
    Ok(Path::from(db, first))
}

/// A turn that must exist.
pub(crate) fn read(db: &dyn Db, row: i64) -> Result<StoredTurn, Error> {
    Path::from(db, Some(row)).next_turn()?.ok_or_else(|| missing(row))
}

const TREE: &str = "WITH RECURSIVE
       moves(prev, turn) AS (
         SELECT prev, turn FROM session_history
         WHERE id = (SELECT last_move FROM sessions WHERE row = ?1)
         UNION ALL SELECT h.prev, h.turn FROM session_history h JOIN moves ON h.id = moves.prev),
       up(id, parent) AS (
         SELECT t.id, t.parent FROM turns t WHERE t.id IN (SELECT turn FROM moves)
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

/// The last common ancestor of two turns, which may be one of them; `None` if there is none.
pub(crate) fn common_ancestor(db: &dyn Db, a: TurnId, b: TurnId) -> Result<Option<TurnId>, Error> {
    let (a, b) = (known_turn(db, a)?, known_turn(db, b)?);
    let found = ancestry::common_ancestor(a, b, |row| links(db, row))?;
    found.map_or(Ok(None), |row| id_at(db, row))
}

/// Inserts a turn as a child of `parent`, counts its usage, and returns its row.
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
    usage_rows::count(tx, session, header, usage_rows::Turn::Inserted)?;
    tx.insert_object(
        Table::Turns,
        "INSERT INTO turns(hash, version, parent, depth, session, header, blobs, body_version,
             skip, seg, off, len, packing, size)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, CASE WHEN ?9 <> 0 THEN ?3 ELSE
             (SELECT skip FROM turns WHERE id = (SELECT skip FROM turns WHERE id = ?3)) END,
             ?10, ?11, ?12, ?13, ?14)",
        args![
            &record.id.0,
            record.object.version,
            parent,
            depth,
            session,
            header,
            blobs,
            body.map_or(Kind::TurnBody.newest_version(), |body| body.version),
            ancestry::skip_depth(depth) + 1 == depth,
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
    // Most objects that are read by their hash are blobs, the last table.
    for table in Table::ALL.into_iter().rev() {
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
