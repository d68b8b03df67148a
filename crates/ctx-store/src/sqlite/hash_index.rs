//! Finds the row of a hash. The index is written after the transaction, not inside it.
//!
//! `search.db` holds runs: sorted hash prefixes of up to [`RUN_ROWS`] consecutive rows. Runs are
//! written once and in order; a B-tree with random keys would rewrite many pages with every batch.
//! Rows after the watermark of the index are scanned. Every match is compared with the complete
//! hash of the row.

use std::collections::HashMap;

use ctx_core::id::ObjectId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;
use crate::driver::Table;

use super::open::Files;
use super::search_db::SearchDb;

/// A range of rows of a table, beginning at row `first`. Each entry is the first eight bytes of a
/// hash and the distance of its row from `first`; entries are sorted.
pub(crate) struct Run {
    first: i64,
    entries: Vec<u8>,
}

/// Most rows of a run.
pub(crate) const RUN_ROWS: usize = 4096;
/// Row numbers of a run differ by less than this, so that a distance fits into 16 bits.
const RUN_SPAN: i64 = 1 << 16;

const PREFIX_BYTES: usize = 8;
const ENTRY_BYTES: usize = PREFIX_BYTES + 2;

/// Number of leading row numbers that fit into one run.
pub(crate) fn run_length(ids: impl Iterator<Item = i64>) -> usize {
    let mut first = None;
    ids.take(RUN_ROWS).take_while(|id| id - *first.get_or_insert(*id) < RUN_SPAN).count()
}

/// Whether a run whose entries have this size is complete.
pub(crate) const fn run_is_full(bytes: usize) -> bool {
    bytes >= RUN_ROWS * ENTRY_BYTES
}

/// Encodes the entries of a run that begins at row `first`.
pub(crate) fn encode_entries(first: i64, rows: impl Iterator<Item = (i64, [u8; 32])>) -> Vec<u8> {
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

/// Rows of a run whose hash prefixes are between `low` and `high`, both inclusive.
fn rows_between<'a>(
    first: i64,
    entries: &'a [u8],
    low: &[u8],
    high: &'a [u8],
) -> impl Iterator<Item = i64> + 'a {
    let at = |n: usize| &entries[n * ENTRY_BYTES..(n + 1) * ENTRY_BYTES];
    let count = entries.len() / ENTRY_BYTES;
    let below = |n: usize| &at(n)[..low.len()] < low;
    // Hashes are distributed evenly, so the position can be estimated.
    let (mut from, mut to) = search_range(estimate_position(low, count), count, below);
    while from < to {
        let middle = from.midpoint(to);
        if below(middle) { from = middle + 1 } else { to = middle }
    }
    let inside = move |n: &usize| &at(*n)[..high.len()] <= high;
    (from..count).take_while(inside).map(move |n| {
        first + i64::from(u16::from_be_bytes([at(n)[PREFIX_BYTES], at(n)[PREFIX_BYTES + 1]]))
    })
}

/// Bounds of the first entry that is not below the searched value, found by an exponential search
/// from the estimated position.
fn search_range(guess: usize, count: usize, below: impl Fn(usize) -> bool) -> (usize, usize) {
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

/// Estimated position of a hash that begins with these bytes among `count` evenly distributed ones.
fn estimate_position(prefix: &[u8], count: usize) -> usize {
    let mut four = [0; 4];
    let known = prefix.len().min(4);
    four[..known].copy_from_slice(&prefix[..known]);
    ((u64::from(u32::from_be_bytes(four)) * count as u64) >> 32) as usize
}

/// Hash lookups of a writer. A transaction looks up blobs before it stores them, so the blobs after
/// the watermark are kept in memory. `search.db` is opened by the first lookup.
pub(crate) struct WriterHashIndex {
    files: Files,
    search_db: Option<SearchDb>,
    /// Newest blob row that was read; -1 if the index must be read first.
    last_row: i64,
    recent_blobs: HashMap<ObjectId, i64>,
    /// Blob runs of the index, as read at `watermark`.
    runs: Vec<Run>,
    watermark: i64,
    /// Whether this transaction has read the blobs of other processes.
    up_to_date: bool,
}

/// Number of blobs in memory above which those that are indexed by now are dropped.
const RECENT_BLOBS_MAX: usize = 65_536;

impl WriterHashIndex {
    pub(crate) fn new(files: Files) -> Self {
        Self {
            files,
            search_db: None,
            last_row: -1,
            recent_blobs: HashMap::new(),
            runs: Vec::new(),
            watermark: 0,
            up_to_date: false,
        }
    }

    pub(crate) fn add(&mut self, blob: ObjectId, row: i64) {
        self.recent_blobs.insert(blob, row);
        self.last_row = self.last_row.max(row);
    }

    /// Drops the blobs in memory. After a rollback they may not be stored.
    pub(crate) fn reset(&mut self) {
        self.recent_blobs.clear();
        self.last_row = -1;
    }

    /// Called at the start of a transaction: other processes may have stored blobs meanwhile.
    pub(crate) fn begin(&mut self) {
        self.up_to_date = false;
    }

    pub(crate) fn find(
        &mut self,
        connection: &Connection,
        table: Table,
        id: ObjectId,
    ) -> Result<Option<i64>, Error> {
        if table != Table::Blobs {
            return match self.locate(connection, table, id) {
                Err(Error::Damaged(_))
                    if SearchDb::replace_if_damaged(
                        &mut self.search_db,
                        &self.files,
                        connection,
                    )? =>
                {
                    self.locate(connection, table, id)
                }
                located => located,
            };
        }
        if !self.up_to_date {
            self.refresh(connection)?;
        }
        match self.recent_blobs.get(&id) {
            // Another process may have removed the row.
            Some(row) if hash_of_row(connection, table, *row)? == Some(*id.as_bytes()) => {
                return Ok(Some(*row));
            }
            _ => {}
        }
        for run in &self.runs {
            if let Some(row) = locate_in_run(connection, table, run.first, &run.entries, id)? {
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
        locate(
            connection,
            SearchDb::current(&mut self.search_db, &self.files, connection)?,
            table,
            id,
        )
    }

    /// Reads the blobs that any process has stored since the last transaction.
    fn refresh(&mut self, connection: &Connection) -> Result<(), Error> {
        if (self.last_row < 0 || self.recent_blobs.len() > RECENT_BLOBS_MAX)
            && self.reload(connection).is_err()
        {
            // A damaged index is replaced by an empty one, whose watermark is 0: all blobs are read
            // below.
            SearchDb::replace_if_damaged(&mut self.search_db, &self.files, connection)?;
            self.reload(connection)?;
        }
        self.last_row = load_blobs_after(connection, self.last_row, &mut self.recent_blobs)?;
        self.up_to_date = true;
        Ok(())
    }

    /// Loads the runs if the index has advanced, and drops the blobs that they cover.
    fn reload(&mut self, connection: &Connection) -> Result<(), Error> {
        let search_db = SearchDb::current(&mut self.search_db, &self.files, connection)?;
        let watermark = watermark(search_db, Table::Blobs)?;
        if self.last_row < 0 || watermark > self.watermark {
            let runs = load_runs(search_db, Table::Blobs)?;
            (self.runs, self.watermark, self.last_row) = (runs, watermark, watermark);
            self.recent_blobs.clear();
        }
        Ok(())
    }
}

fn load_runs(search_db: &Connection, table: Table) -> Result<Vec<Run>, Error> {
    let mut statement =
        search_db.prepare_cached("SELECT first, entries FROM runs WHERE tbl = ?1")?;
    let runs = statement
        .query_map([table as i64], |row| Ok(Run { first: row.get(0)?, entries: row.get(1)? }))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Row in a run whose complete hash equals `id`.
fn locate_in_run(
    connection: &Connection,
    table: Table,
    first: i64,
    entries: &[u8],
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    let prefix = &id.as_bytes()[..PREFIX_BYTES];
    for row in rows_between(first, entries, prefix, prefix) {
        if hash_of_row(connection, table, row)? == Some(*id.as_bytes()) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn load_blobs_after(
    connection: &Connection,
    mut last_row: i64,
    blobs: &mut HashMap<ObjectId, i64>,
) -> Result<i64, Error> {
    let mut statement = connection.prepare_cached("SELECT id, hash FROM blobs WHERE id > ?1")?;
    let mut rows = statement.query([last_row])?;
    while let Some(row) = rows.next()? {
        let (id, hash): (i64, [u8; 32]) = (row.get(0)?, row.get(1)?);
        blobs.insert(ObjectId::from_bytes(hash), id);
        last_row = id;
    }
    Ok(last_row)
}

/// Newest row of a table whose hash is indexed; 0 if none is.
pub(crate) fn watermark(search_db: &Connection, table: Table) -> Result<i64, Error> {
    mark(search_db, table as i64)
}

/// A watermark by its number in `marks`; 0 if there is none.
pub(crate) fn mark(search_db: &Connection, number: i64) -> Result<i64, Error> {
    let mut statement = search_db.prepare_cached("SELECT upto FROM marks WHERE tbl = ?1")?;
    Ok(statement.query_row([number], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Row with this hash: from the index, else from a scan of the rows after the watermark.
pub(crate) fn locate(
    connection: &Connection,
    search_db: &Connection,
    table: Table,
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    // The watermark is read first: a row that is indexed between the two reads is then found by
    // both of them, not by neither.
    let watermark = watermark(search_db, table)?;
    match locate_in_runs(connection, search_db, table, id)? {
        Some(row) => Ok(Some(row)),
        None => locate_after_watermark(connection, watermark, table, id),
    }
}

fn locate_in_runs(
    connection: &Connection,
    search_db: &Connection,
    table: Table,
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    let mut statement = search_db
        .prepare_cached("SELECT first, entries FROM runs WHERE tbl = ?1 ORDER BY first DESC")?;
    let mut runs = statement.query([table as i64])?;
    while let Some(run) = runs.next()? {
        let entries = run.get_ref(1)?.as_blob().unwrap_or_default();
        if let Some(row) = locate_in_run(connection, table, run.get(0)?, entries, id)? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

pub(crate) fn hash_of_row(
    connection: &Connection,
    table: Table,
    row: i64,
) -> Result<Option<[u8; 32]>, Error> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT hash FROM {} WHERE id = ?1", table.name()))?;
    Ok(statement.query_row([row], |row| row.get(0)).optional()?)
}

fn locate_after_watermark(
    connection: &Connection,
    watermark: i64,
    table: Table,
    id: ObjectId,
) -> Result<Option<i64>, Error> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT id FROM {} WHERE id > ?1 AND hash = ?2", table.name()))?;
    Ok(statement.query_row(params![watermark, id.as_bytes()], |row| row.get(0)).optional()?)
}

/// Rows whose hash begins with these lower-case hex digits, at most `limit`.
pub(crate) fn locate_prefix(
    connection: &Connection,
    search_db: &Connection,
    table: Table,
    digits: &str,
    limit: usize,
) -> Result<Vec<(i64, ObjectId)>, Error> {
    let (low, high) = (prefix_bound(digits, b'0'), prefix_bound(digits, b'f'));
    let mut found =
        prefix_after_watermark(connection, watermark(search_db, table)?, table, digits, limit)?;
    for run in load_runs(search_db, table)? {
        for row in rows_between(run.first, &run.entries, &low, &high) {
            let Some(hash) = hash_of_row(connection, table, row)? else { continue };
            let id = ObjectId::from_bytes(hash);
            if found.len() < limit && id.to_string().starts_with(digits) {
                found.push((row, id));
            }
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn prefix_after_watermark(
    connection: &Connection,
    watermark: i64,
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
        .query_map(params![watermark, digits, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            Ok((row.get(0)?, ObjectId::from_bytes(row.get(1)?)))
        })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Pads hex digits with `fill` to an eight-byte bound.
fn prefix_bound(digits: &str, fill: u8) -> [u8; PREFIX_BYTES] {
    let mut hex: Vec<u8> = digits.bytes().take(2 * PREFIX_BYTES).collect();
    hex.resize(2 * PREFIX_BYTES, fill);
    let value = std::str::from_utf8(&hex).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    value.unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod run_properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> [u8; 32] {
        *ObjectId::of(&[&n.to_be_bytes()]).as_bytes()
    }

    #[test]
    fn a_wrong_estimate_still_gives_bounds_of_the_first_entry() {
        let numbers: Vec<usize> = (0..300).map(|n| n / 3 * 2).collect();
        for searched in 0..210 {
            let right = numbers.partition_point(|n| *n < searched);
            for guess in [0, 1, 7, 150, 299, 300, 4000] {
                let (from, to) = search_range(guess, numbers.len(), |n| numbers[n] < searched);
                assert!(
                    from <= right && right <= to && to <= numbers.len(),
                    "{searched} from {guess}: {from}..{to}, not {right}"
                );
            }
        }
    }

    #[test]
    fn a_run_finds_each_of_its_rows_and_no_other() {
        let rows: Vec<(i64, [u8; 32])> =
            (0..RUN_ROWS as u64).map(|n| (1000 + n as i64 * 3, hash(n))).collect();
        let entries = encode_entries(1000, rows.iter().copied());
        for (id, hash) in &rows {
            assert_eq!(
                rows_between(1000, &entries, &hash[..8], &hash[..8]).collect::<Vec<_>>(),
                [*id]
            );
        }
        assert_eq!(
            rows_between(1000, &entries, &hash(1 << 40)[..8], &hash(1 << 40)[..8]).count(),
            0
        );
        assert_eq!(
            rows_between(1000, &entries, &prefix_bound("", b'0'), &prefix_bound("", b'f')).count(),
            RUN_ROWS
        );
    }

    #[test]
    fn a_prefix_finds_the_hashes_that_begin_with_it() {
        let rows: Vec<(i64, [u8; 32])> = (0..500).map(|n| (n as i64, hash(n))).collect();
        let entries = encode_entries(0, rows.iter().copied());
        for digits in ["a", "0", "f7", "ffff"] {
            let mut expected: Vec<i64> = rows
                .iter()
                .filter(|(_, hash)| ObjectId::from_bytes(*hash).to_string().starts_with(digits))
                .map(|(id, _)| *id)
                .collect();
            let mut found: Vec<i64> =
                rows_between(0, &entries, &prefix_bound(digits, b'0'), &prefix_bound(digits, b'f'))
                    .collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{digits}");
        }
    }

    #[test]
    fn a_run_ends_before_its_distances_overflow() {
        assert_eq!(run_length((0..10_000).map(|n| n * 100)), 656);
        assert_eq!(run_length(0..10_000), RUN_ROWS);
        assert_eq!(run_length(std::iter::empty()), 0);
    }
}
