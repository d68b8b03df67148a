//! From a hash to its row, without an index on the commit path.
//!
//! `search.db` holds runs: the beginnings of the hashes of some thousand neighbouring rows, sorted. They are
//! written once and in order, where a tree of random keys would be rewritten page by page with every batch.
//! Rows behind the mark are looked through. Every answer is checked against the row's own hash.

use std::collections::HashMap;

use ctx_core::id::ObjectId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;
use crate::driver::Table;

use super::indexer::Side;
use super::open::Files;

/// The rows of a table from `first` on, in the order of their hashes: each entry is the first eight bytes of
/// a hash and the distance of its row from `first`.
pub(crate) struct Run {
    first: i64,
    entries: Vec<u8>,
}

/// How many rows a run covers.
pub(crate) const RUN_ROWS: usize = 4096;
/// How far apart the rows of one run may be.
const RUN_SPAN: i64 = 1 << 16;

const PREFIX_BYTES: usize = 8;
const ENTRY_BYTES: usize = PREFIX_BYTES + 2;

/// The first of several runs of neighbouring rows: how many of these it may take.
pub(crate) fn run_length(ids: impl Iterator<Item = i64>) -> usize {
    let mut first = None;
    ids.take(RUN_ROWS).take_while(|id| id - *first.get_or_insert(*id) < RUN_SPAN).count()
}

/// Whether a run of so many bytes takes no more rows.
pub(crate) const fn run_is_full(bytes: usize) -> bool {
    bytes >= RUN_ROWS * ENTRY_BYTES
}

/// The entries of a run.
pub(crate) fn entries(first: i64, rows: impl Iterator<Item = (i64, [u8; 32])>) -> Vec<u8> {
    let mut sorted: Vec<[u8; ENTRY_BYTES]> =
        rows.map(|(id, hash)| entry(&hash, (id - first) as u16)).collect();
    sorted.sort_unstable();
    sorted.concat()
}

fn entry(hash: &[u8; 32], distance: u16) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..PREFIX_BYTES].copy_from_slice(&hash[..PREFIX_BYTES]);
    entry[PREFIX_BYTES..].copy_from_slice(&distance.to_be_bytes());
    entry
}

/// The rows of a run whose hashes begin within these bounds.
fn within<'a>(
    first: i64,
    entries: &'a [u8],
    low: &[u8],
    high: &'a [u8],
) -> impl Iterator<Item = i64> + 'a {
    let at = |n: usize| &entries[n * ENTRY_BYTES..(n + 1) * ENTRY_BYTES];
    let count = entries.len() / ENTRY_BYTES;
    let below = |n: usize| &at(n)[..low.len()] < low;
    // Hashes are spread evenly, so it can be guessed where one is.
    let (mut from, mut to) = around(expected(low, count), count, below);
    while from < to {
        let middle = from.midpoint(to);
        if below(middle) { from = middle + 1 } else { to = middle }
    }
    let inside = move |n: &usize| &at(*n)[..high.len()] <= high;
    (from..count).take_while(inside).map(move |n| {
        first + i64::from(u16::from_be_bytes([at(n)[PREFIX_BYTES], at(n)[PREFIX_BYTES + 1]]))
    })
}

/// Where to look for the first that is not below something: from a guess on, in strides that grow.
fn around(guess: usize, count: usize, below: impl Fn(usize) -> bool) -> (usize, usize) {
    let mut stride = 8;
    if guess < count && below(guess) {
        let mut from = guess + 1;
        while from + stride < count && below(from + stride) {
            (from, stride) = (from + stride + 1, stride * 2);
        }
        return (from, count.min(from + stride));
    }
    let mut to = guess.min(count);
    while to > stride && !below(to - stride) {
        (to, stride) = (to - stride, stride * 2);
    }
    (to.saturating_sub(stride), to)
}

/// About where among so many evenly spread hashes one that begins so would be.
fn expected(begins: &[u8], count: usize) -> usize {
    let mut four = [0; 4];
    let known = begins.len().min(4);
    four[..known].copy_from_slice(&begins[..known]);
    ((u64::from(u32::from_be_bytes(four)) * count as u64) >> 32) as usize
}

/// A writer's way from hashes to rows. Blobs are looked up inside the transaction that may store them, so
/// those behind the mark are kept in memory. `search.db` is opened when something is first looked up.
pub(crate) struct Tail {
    files: Files,
    side: Option<Side>,
    seen: i64,
    blobs: HashMap<ObjectId, i64>,
    /// What the index knows of blobs, as of `seen`.
    runs: Vec<Run>,
    /// The mark when they were read.
    indexed: i64,
    fresh: bool,
}

/// So many blobs are remembered before those that are indexed by now are forgotten.
const TAIL_MAX: usize = 65_536;

impl Tail {
    pub(crate) fn new(files: Files) -> Self {
        Self {
            files,
            side: None,
            seen: -1,
            blobs: HashMap::new(),
            runs: Vec::new(),
            indexed: 0,
            fresh: false,
        }
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
    pub(crate) fn find(
        &mut self,
        connection: &Connection,
        table: Table,
        id: ObjectId,
    ) -> Result<Option<i64>, Error> {
        if table != Table::Blobs {
            return match self.locate(connection, table, id) {
                Err(Error::Damaged(_)) if Side::heal(&mut self.side, &self.files, connection)? => {
                    self.locate(connection, table, id)
                }
                located => located,
            };
        }
        if !self.fresh {
            self.refresh(connection)?;
        }
        match self.blobs.get(&id) {
            // Another process may have removed it since.
            Some(row) if hash_at(connection, table, *row)? == Some(*id.as_bytes()) => {
                return Ok(Some(*row));
            }
            _ => {}
        }
        for run in &self.runs {
            if let Some(row) = in_run(connection, table, run.first, &run.entries, id)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn locate(
        &mut self,
        connection: &Connection,
        table: Table,
        id: ObjectId,
    ) -> Result<Option<i64>, Error> {
        locate(connection, Side::current(&mut self.side, &self.files, connection)?, table, id)
    }

    /// Takes in what was stored since the last transaction, by whomever.
    fn refresh(&mut self, connection: &Connection) -> Result<(), Error> {
        if (self.seen < 0 || self.blobs.len() > TAIL_MAX) && self.reload(connection).is_err() {
            // A damaged index is replaced; one that cannot be had at all costs a second copy of a blob, no more.
            Side::heal(&mut self.side, &self.files, connection)?;
            self.reload(connection)?;
        }
        self.seen = blobs_after(connection, self.seen, &mut self.blobs)?;
        self.fresh = true;
        Ok(())
    }

    /// Takes over from the index what it has learnt since, and forgets that here.
    fn reload(&mut self, connection: &Connection) -> Result<(), Error> {
        let side = Side::current(&mut self.side, &self.files, connection)?;
        let mark = mark(side, Table::Blobs)?;
        if self.seen < 0 || mark > self.indexed {
            let runs = runs(side, Table::Blobs)?;
            (self.runs, self.indexed, self.seen) = (runs, mark, mark);
            self.blobs.clear();
        }
        Ok(())
    }
}

/// All runs of a table.
fn runs(side: &Connection, table: Table) -> Result<Vec<Run>, Error> {
    let mut statement = side.prepare_cached("SELECT first, entries FROM runs WHERE tbl = ?1")?;
    let runs = statement
        .query_map([table as i64], |row| Ok(Run { first: row.get(0)?, entries: row.get(1)? }))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// The row of a run that has exactly this hash.
fn in_run(
    connection: &Connection,
    table: Table,
    first: i64,
    entries: &[u8],
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    let prefix = &id.as_bytes()[..PREFIX_BYTES];
    for row in within(first, entries, prefix, prefix) {
        if hash_at(connection, table, row)? == Some(*id.as_bytes()) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn blobs_after(
    connection: &Connection,
    mut seen: i64,
    blobs: &mut HashMap<ObjectId, i64>,
) -> Result<i64, Error> {
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
pub(crate) fn locate(
    connection: &Connection,
    side: &Connection,
    table: Table,
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    // The mark first: what is indexed between the two looks is then seen by both, not by neither.
    let mark = mark(side, table)?;
    match indexed(connection, side, table, id)? {
        Some(row) => Ok(Some(row)),
        None => after(connection, mark, table, id),
    }
}

fn indexed(
    connection: &Connection,
    side: &Connection,
    table: Table,
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    let mut statement =
        side.prepare_cached("SELECT first, entries FROM runs WHERE tbl = ?1 ORDER BY first DESC")?;
    let mut runs = statement.query([table as i64])?;
    while let Some(run) = runs.next()? {
        let entries = run.get_ref(1)?.as_blob().unwrap_or_default();
        if let Some(row) = in_run(connection, table, run.get(0)?, entries, id)? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

pub(crate) fn hash_at(
    connection: &Connection,
    table: Table,
    row: i64,
) -> Result<Option<[u8; 32]>, Error> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT hash FROM {} WHERE id = ?1", table.name()))?;
    Ok(statement.query_row([row], |row| row.get(0)).optional()?)
}

fn after(
    connection: &Connection,
    mark: i64,
    table: Table,
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT id FROM {} WHERE id > ?1 AND hash = ?2", table.name()))?;
    Ok(statement.query_row(params![mark, id.as_bytes()], |row| row.get(0)).optional()?)
}

/// Finds newer rows with the hash of a row. It reads the runs from the newest back, and each once.
pub(crate) struct NewerRows<'c> {
    main: &'c Connection,
    side: &'c Connection,
    table: Table,
    /// The newest runs, newest first.
    runs: Vec<Run>,
}

impl<'c> NewerRows<'c> {
    pub(crate) fn new(main: &'c Connection, side: &'c Connection, table: Table) -> Self {
        Self { main, side, table, runs: Vec::new() }
    }

    /// The indexed rows with a hash that are newer than `row`.
    pub(crate) fn find(&mut self, row: i64, id: ObjectId) -> Result<Vec<i64>, Error> {
        self.read_back_to(row)?;
        let prefix = &id.as_bytes()[..PREFIX_BYTES];
        let mut newer = Vec::new();
        for run in &self.runs {
            for other in within(run.first, &run.entries, prefix, prefix) {
                if other > row && hash_at(self.main, self.table, other)? == Some(*id.as_bytes()) {
                    newer.push(other);
                }
            }
        }
        Ok(newer)
    }

    fn read_back_to(&mut self, row: i64) -> Result<(), Error> {
        let oldest = self.runs.last().map_or(i64::MAX, |run| run.first);
        if oldest <= row {
            return Ok(());
        }
        let mut statement = self.side.prepare_cached(
            "SELECT first, entries FROM runs WHERE tbl = ?1 AND first < ?2 ORDER BY first DESC",
        )?;
        let mut runs = statement.query(params![self.table as i64, oldest])?;
        while let Some(found) = runs.next()? {
            let run = Run { first: found.get(0)?, entries: found.get(1)? };
            let is_last = run.first <= row;
            self.runs.push(run);
            if is_last {
                break;
            }
        }
        Ok(())
    }
}

/// Rows of a table whose hash begins with hex digits.
pub(crate) fn starting_with(
    connection: &Connection,
    side: &Connection,
    table: Table,
    digits: &str,
    limit: usize,
) -> Result<Vec<(i64, ObjectId)>, Error> {
    let (low, high) = (bound(digits, b'0'), bound(digits, b'f'));
    let mut found = behind_watermark(connection, mark(side, table)?, table, digits, limit)?;
    for run in runs(side, table)? {
        for row in within(run.first, &run.entries, &low, &high) {
            let Some(hash) = hash_at(connection, table, row)? else { continue };
            let id = ObjectId::from_bytes(hash);
            if found.len() < limit && id.to_string().starts_with(digits) {
                found.push((row, id));
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn behind_watermark(
    connection: &Connection,
    mark: i64,
    table: Table,
    digits: &str,
    limit: usize,
) -> Result<Vec<(i64, ObjectId)>, Error> {
    let sql = format!(
        "SELECT id, hash FROM {} WHERE id > ?1 AND lower(hex(hash)) GLOB ?2 || '*' LIMIT ?3",
        table.name()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement
        .query_map(params![mark, digits, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            Ok((row.get(0)?, ObjectId::from_bytes(row.get(1)?)))
        })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The least or greatest eight bytes that begin with these digits.
fn bound(digits: &str, fill: u8) -> [u8; PREFIX_BYTES] {
    let mut hex: Vec<u8> = digits.bytes().take(2 * PREFIX_BYTES).collect();
    hex.resize(2 * PREFIX_BYTES, fill);
    let value = std::str::from_utf8(&hex).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    value.unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod slowly;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> [u8; 32] {
        *ObjectId::of(&[&n.to_be_bytes()]).as_bytes()
    }

    #[test]
    fn a_guess_however_wrong_leads_to_the_first_that_is_not_below() {
        let numbers: Vec<usize> = (0..300).map(|n| n / 3 * 2).collect();
        for wanted in 0..210 {
            let right = numbers.partition_point(|n| *n < wanted);
            for guess in [0, 1, 7, 150, 299, 300, 4000] {
                let (from, to) = around(guess, numbers.len(), |n| numbers[n] < wanted);
                assert!(
                    from <= right && right <= to && to <= numbers.len(),
                    "{wanted} from {guess}: {from}..{to}, not {right}"
                );
            }
        }
    }

    #[test]
    fn a_run_finds_every_row_of_it_and_no_other() {
        let rows: Vec<(i64, [u8; 32])> =
            (0..RUN_ROWS as u64).map(|n| (1000 + n as i64 * 3, hash(n))).collect();
        let entries = entries(1000, rows.iter().copied());
        for (id, hash) in &rows {
            assert_eq!(within(1000, &entries, &hash[..8], &hash[..8]).collect::<Vec<_>>(), [*id]);
        }
        assert_eq!(within(1000, &entries, &hash(1 << 40)[..8], &hash(1 << 40)[..8]).count(), 0);
        assert_eq!(within(1000, &entries, &bound("", b'0'), &bound("", b'f')).count(), RUN_ROWS);
    }

    #[test]
    fn a_beginning_finds_what_begins_so() {
        let rows: Vec<(i64, [u8; 32])> = (0..500).map(|n| (n as i64, hash(n))).collect();
        let entries = entries(0, rows.iter().copied());
        for digits in ["a", "0", "f7", "ffff"] {
            let mut expected: Vec<i64> = rows
                .iter()
                .filter(|(_, hash)| ObjectId::from_bytes(*hash).to_string().starts_with(digits))
                .map(|(id, _)| *id)
                .collect();
            let mut found: Vec<i64> =
                within(0, &entries, &bound(digits, b'0'), &bound(digits, b'f')).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{digits}");
        }
    }

    #[test]
    fn a_run_ends_where_its_numbers_do() {
        assert_eq!(run_length((0..10_000).map(|n| n * 100)), 656);
        assert_eq!(run_length(0..10_000), RUN_ROWS);
        assert_eq!(run_length(std::iter::empty()), 0);
    }
}
