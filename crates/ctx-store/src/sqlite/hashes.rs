//! From a hash to its row, without an index on the commit path.
//!
//! `search.db` holds the first eight bytes of every hash that it has seen, each with table and row; the
//! rows behind its mark are looked through. Every answer is checked against the row's own hash.

use std::collections::HashMap;

use ctx_core::id::ObjectId;
use ctx_core::object::Kind;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Error, Found};

use super::behind::Side;
use super::open::Files;

/// The tables whose rows are named by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    Turns = 0,
    Steps = 1,
    Commits = 2,
    Blobs = 3,
}

impl Table {
    pub(crate) const ALL: [Table; 4] = [Table::Turns, Table::Steps, Table::Commits, Table::Blobs];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Table::Turns => "turns",
            Table::Steps => "steps",
            Table::Commits => "commits",
            Table::Blobs => "blobs",
        }
    }

    pub(crate) const fn kind(self) -> Kind {
        match self {
            Table::Turns => Kind::Turn,
            Table::Steps => Kind::Step,
            Table::Commits => Kind::Commit,
            Table::Blobs => Kind::Blob,
        }
    }

    /// Table and row in one number.
    pub(crate) const fn reference(self, row: i64) -> i64 {
        row * 4 + self as i64
    }

    const fn from_reference(reference: i64) -> (Self, i64) {
        (Self::ALL[(reference & 3) as usize], reference >> 2)
    }
}

/// The first eight bytes of a hash, as SQLite orders them.
pub(crate) fn prefix(hash: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    let n = hash.len().min(8);
    bytes[..n].copy_from_slice(&hash[..n]);
    // The sign bit is flipped, so that the order of the numbers is the order of the bytes.
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

/// A writer's way from hashes to rows. Blobs are looked up inside the transaction that may store them, so
/// those behind the mark are kept in memory. `search.db` is opened when something is first looked up.
pub(crate) struct Tail {
    files: Files,
    side: Option<Side>,
    seen: i64,
    blobs: HashMap<ObjectId, i64>,
    fresh: bool,
}

/// So many blobs are remembered before those that are indexed by now are forgotten.
const TAIL_MAX: usize = 65_536;

impl Tail {
    pub(crate) fn new(files: Files) -> Self {
        Self { files, side: None, seen: -1, blobs: HashMap::new(), fresh: false }
    }

    pub(crate) fn add(&mut self, blob: ObjectId, row: i64) {
        self.blobs.insert(blob, row);
        self.seen = self.seen.max(row);
    }

    /// After a rollback: what was added may not be there.
    pub(crate) fn forget(&mut self) {
        self.blobs.clear();
        self.seen = -1;
    }

    /// At the start of a transaction: other processes may have stored something since the last one.
    pub(crate) fn begin(&mut self) {
        self.fresh = false;
    }

    /// The row of a hash.
    pub(crate) fn find(&mut self, connection: &Connection, table: Table, id: ObjectId) -> Result<Option<i64>, Error> {
        let side = Side::current(&mut self.side, &self.files, connection)?;
        if table != Table::Blobs {
            return locate(connection, side, table, id);
        }
        if !self.fresh {
            if self.seen < 0 || self.blobs.len() > TAIL_MAX {
                self.seen = mark(side, Table::Blobs)?;
                self.blobs.clear();
            }
            self.seen = blobs_after(connection, self.seen, &mut self.blobs)?;
            self.fresh = true;
        }
        match self.blobs.get(&id) {
            // Another process may have removed it since.
            Some(row) if hash_at(connection, table, *row)? == Some(*id.as_bytes()) => Ok(Some(*row)),
            _ => indexed(connection, side, table, id),
        }
    }
}

fn blobs_after(connection: &Connection, mut seen: i64, blobs: &mut HashMap<ObjectId, i64>) -> Result<i64, Error> {
    let mut statement = connection.prepare_cached("SELECT id, hash FROM blobs WHERE id > ?1")?;
    let mut rows = statement.query([seen])?;
    while let Some(row) = rows.next()? {
        let (id, hash): (i64, [u8; 32]) = (row.get(0)?, row.get(1)?);
        blobs.insert(ObjectId::from_bytes(hash), id);
        seen = id;
    }
    Ok(seen)
}

/// How far the indexes have come in a table.
pub(crate) fn mark(side: &Connection, table: Table) -> Result<i64, Error> {
    let mut statement = side.prepare_cached("SELECT upto FROM marks WHERE tbl = ?1")?;
    Ok(statement.query_row([table as i64], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// The row of a hash in one table.
pub(crate) fn locate(connection: &Connection, side: &Connection, table: Table, id: ObjectId) -> Result<Option<i64>, Error> {
    // The mark first: what is indexed between the two looks is then seen by both, not by neither.
    let mark = mark(side, table)?;
    match indexed(connection, side, table, id)? {
        Some(row) => Ok(Some(row)),
        None => after(connection, mark, table, id),
    }
}

fn indexed(connection: &Connection, side: &Connection, table: Table, id: ObjectId) -> Result<Option<i64>, Error> {
    let mut statement = side.prepare_cached("SELECT ref FROM hashes WHERE prefix = ?1")?;
    let mut rows = statement.query([prefix(id.as_bytes())])?;
    while let Some(row) = rows.next()? {
        let (found_in, at) = Table::from_reference(row.get(0)?);
        if found_in == table && hash_at(connection, table, at)? == Some(*id.as_bytes()) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn hash_at(connection: &Connection, table: Table, row: i64) -> Result<Option<[u8; 32]>, Error> {
    let mut statement = connection.prepare_cached(&format!("SELECT hash FROM {} WHERE id = ?1", table.name()))?;
    Ok(statement.query_row([row], |row| row.get(0)).optional()?)
}

fn after(connection: &Connection, mark: i64, table: Table, id: ObjectId) -> Result<Option<i64>, Error> {
    let mut statement = connection.prepare_cached(&format!("SELECT id FROM {} WHERE id > ?1 AND hash = ?2", table.name()))?;
    Ok(statement.query_row(params![mark, id.as_bytes()], |row| row.get(0)).optional()?)
}

/// Everything whose hash begins with these hex digits.
pub(crate) fn starting_with(connection: &Connection, side: &Connection, digits: &str, limit: usize) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let (low, high) = (bound(digits, b'0'), bound(digits, b'f'));
    let mut statement = side.prepare_cached("SELECT ref FROM hashes WHERE prefix BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query(params![low, high])?;
    for table in Table::ALL {
        found.extend(after_the_mark(connection, mark(side, table)?, table, digits, limit)?);
    }
    while let (Some(row), true) = (rows.next()?, found.len() < limit) {
        let (table, at) = Table::from_reference(row.get(0)?);
        let Some(hash) = hash_at(connection, table, at)? else { continue };
        let id = ObjectId::from_bytes(hash);
        let one = Found { id, kind: table.kind() };
        // A turn that two sessions made alike has two rows and one name.
        if id.to_string().starts_with(digits) && !found.contains(&one) {
            found.push(one);
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn after_the_mark(connection: &Connection, mark: i64, table: Table, digits: &str, limit: usize) -> Result<Vec<Found>, Error> {
    let sql = format!("SELECT DISTINCT hash FROM {} WHERE id > ?1 AND lower(hex(hash)) GLOB ?2 || '*' LIMIT ?3", table.name());
    let mut statement = connection.prepare_cached(&sql)?;
    let hashes = statement.query_map(params![mark, digits, limit as i64], |row| row.get::<_, [u8; 32]>(0))?;
    hashes.map(|hash| Ok(Found { id: ObjectId::from_bytes(hash?), kind: table.kind() })).collect()
}

/// The least or greatest prefix that begins with these digits.
fn bound(digits: &str, fill: u8) -> i64 {
    let mut hex: Vec<u8> = digits.bytes().take(16).collect();
    hex.resize(16, fill);
    let value = std::str::from_utf8(&hex).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    (value ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_keep_the_order_of_the_bytes() {
        let hashes = [[0x00; 32], [0x7f; 32], [0x80; 32], [0xff; 32]];
        assert!(hashes.windows(2).all(|pair| prefix(&pair[0]) < prefix(&pair[1])));
        assert!(bound("8", b'0') <= prefix(&hashes[2]) && prefix(&hashes[2]) <= bound("8", b'f'));
        assert!(prefix(&hashes[3]) > bound("8", b'f'));
    }

    #[test]
    fn references_name_table_and_row() {
        for table in Table::ALL {
            assert_eq!(Table::from_reference(table.reference(12345)), (table, 12345));
        }
    }
}
