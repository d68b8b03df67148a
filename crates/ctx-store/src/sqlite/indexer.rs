//! Fills `search.db`, the index of hashes and words.
//!
//! Per table it covers the rows up to a watermark, which is updated in the same transaction as the
//! entries. So a crash at any point leaves an index that is behind, never one that is wrong. Hashes
//! and words have watermarks of their own: hashes are needed by the next write and indexed quickly,
//! words are needed by the next search.

use std::collections::HashMap;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::Error;
use crate::driver::Table;
use crate::relational::search_documents::{self, Unit};

use super::db::{HashIndex, SqliteDb};
use super::hash_index::{self, RUN_ROWS};
use super::open::{Files, connect};
use super::search_db::SearchDb;

/// Most rows that are indexed in one transaction.
const BATCH_ROWS: usize = RUN_ROWS / 2;
/// Most rows whose words are indexed in one transaction before a deadline is looked at.
const SHORT_BATCH_ROWS: usize = 256;
/// Documents whose text is in memory at a time.
const CHUNK: usize = 16;
/// Number under which `marks` has the newest deleted turn whose words were removed.
const FORGOTTEN_MARK: i64 = 100;
/// Pages that one transaction merges to erase the words of deleted texts.
const MERGE_PAGES: i64 = 2000;

/// Highest row number that a table ever had.
pub(super) fn newest_row(main: &Connection, table: Table) -> Result<i64, Error> {
    let sql = match table {
        Table::Turns | Table::Blobs => format!(
            "SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = '{}'",
            table.name()
        ),
        Table::Steps | Table::Commits => {
            format!("SELECT COALESCE(MAX(id), 0) FROM {}", table.name())
        }
    };
    Ok(main.prepare_cached(&sql)?.query_row([], |row| row.get(0))?)
}

/// What is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Hashes,
    HashesAndWords,
}

/// Number under which `marks` has the newest row of a table whose words are indexed.
pub(super) const fn words_mark(table: Table) -> i64 {
    const FIRST: i64 = 10;
    FIRST + table as i64
}

/// The tables whose rows have words.
fn tables_with_words() -> impl Iterator<Item = Table> {
    Table::ALL.into_iter().filter(|table| *table != Table::Blobs)
}

/// Number of rows that are not indexed yet.
pub(crate) fn lag(main: &Connection, search_db: &Connection) -> Result<u64, Error> {
    let mut lag = 0;
    for table in Table::ALL {
        let hashes = hash_index::watermark(search_db, table)?;
        let words = match table {
            Table::Blobs => hashes,
            _ => hash_index::mark(search_db, words_mark(table))?,
        };
        lag += newest_row(main, table)?.saturating_sub(hashes.min(words)).unsigned_abs();
    }
    Ok(lag)
}

/// Indexes the rows of a store in the connections of a reader: an index in memory.
pub(crate) fn fill(main: &Connection, search_db: &mut SearchDb) -> Result<(), Error> {
    let mut tails = HashMap::new();
    for table in Table::ALL {
        while hash_batch(main, search_db, table, &mut tails)? {}
    }
    for table in tables_with_words() {
        while words_batch(main, search_db, table, BATCH_ROWS)? {}
    }
    Ok(())
}

/// Fills the index in batches.
pub(crate) struct Indexer {
    files: Files,
    main: Connection,
    search_db: Option<SearchDb>,
    tails: Tails,
}

/// Rows up to the watermark that the next batch indexes again, because their run is not full. A
/// tail of another watermark is not used: another process has indexed rows.
struct Tail {
    watermark: i64,
    /// All rows after this one are in the tail.
    after: i64,
    rows: Vec<HashRow>,
}

type HashRow = (i64, [u8; 32]);
type Tails = HashMap<Table, Tail>;

impl Indexer {
    pub(crate) fn open(files: &Files) -> Result<Self, Error> {
        let (files, main) = (files.clone(), connect(files)?);
        Ok(Self { files, main, search_db: None, tails: HashMap::new() })
    }

    /// Indexes all rows that are stored now, or as many as it can until a time.
    pub(crate) fn catch_up(&mut self, extent: Extent, until: Option<Instant>) -> Result<(), Error> {
        let is_over = || until.is_some_and(|until| Instant::now() >= until);
        let rows_max = if until.is_some() { SHORT_BATCH_ROWS } else { BATCH_ROWS };
        for table in Table::ALL {
            while self.run(|main, search_db, tails| hash_batch(main, search_db, table, tails))? {}
        }
        if extent == Extent::Hashes {
            return Ok(());
        }
        for table in tables_with_words() {
            while self.run(|main, search_db, _| words_batch(main, search_db, table, rows_max))? {
                if is_over() {
                    return Ok(());
                }
            }
        }
        self.run(|main, search_db, _| forget(main, search_db).map(|()| false))?;
        while self.run(|_, search_db, _| is_erasing(search_db))? && !is_over() {
            self.run(|_, search_db, _| erase_some(search_db).map(|()| false))?;
        }
        Ok(())
    }

    /// Runs a function with the connections. An index in memory is not filled here: `false`.
    fn run(
        &mut self,
        run: impl FnOnce(&Connection, &mut SearchDb, &mut Tails) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let search_db = SearchDb::current(&mut self.search_db, &self.files, &self.main)?;
        if search_db.is_in_memory() {
            return Ok(false);
        }
        run(&self.main, search_db, &mut self.tails)
    }

    /// Moves the log of `search.db` into the file and empties it, if no reader prevents it.
    pub(crate) fn empty_log(&mut self) {
        let _ = self.run(|_, search_db, _| {
            search_db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            Ok(false)
        });
    }

    /// Replaces a damaged `search.db`; `false` if it is intact.
    pub(crate) fn replace_if_damaged(&mut self) -> Result<bool, Error> {
        SearchDb::replace_if_damaged(&mut self.search_db, &self.files, &self.main)
    }
}

/// Indexes the hashes of a batch of rows of a table; `false` if there are no more.
fn hash_batch(
    main: &Connection,
    search_db: &mut SearchDb,
    table: Table,
    tails: &mut Tails,
) -> Result<bool, Error> {
    // One snapshot: other processes delete rows.
    let main = main.unchecked_transaction()?;
    if newest_row(&main, table)? <= hash_index::watermark(search_db, table)? {
        return Ok(false);
    }
    let tx = search_db.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let watermark = hash_index::watermark(&tx, table)?;
    let from = reopen_last_run(&tx, table, watermark)?;
    let tail = tails.remove(&table);
    let tail = tail.filter(|tail| tail.watermark == watermark && tail.after <= from);
    let mut rows = match tail {
        Some(mut tail) => {
            tail.rows.retain(|(row, _)| *row > from);
            tail.rows
        }
        None => rows_between(&main, table, from, watermark, RUN_ROWS)?,
    };
    let new = rows_between(&main, table, watermark, i64::MAX, BATCH_ROWS)?;
    let is_complete = new.len() < BATCH_ROWS;
    // If the last rows were deleted, the watermark moves past them.
    let last = match new.last() {
        Some((last, _)) if !is_complete => *last,
        _ => newest_row(&main, table)?,
    };
    rows.extend(new);
    index_hashes(&tx, table, &rows)?;
    put_mark(&tx, table as i64, last, hash_index::hash_of_row(&main, table, last)?)?;
    tx.commit()?;
    let after = rows.len().saturating_sub(RUN_ROWS);
    let (dropped, rows) = (rows[..after].last().map_or(from, |row| row.0), rows.split_off(after));
    tails.insert(table, Tail { watermark: last, after: dropped, rows });
    Ok(last > watermark)
}

/// Indexes the words of a batch of rows of a table; `false` if there are no more.
fn words_batch(
    main: &Connection,
    search_db: &mut SearchDb,
    table: Table,
    rows_max: usize,
) -> Result<bool, Error> {
    let snapshot = main.unchecked_transaction()?;
    let mark = words_mark(table);
    if newest_row(main, table)? <= hash_index::mark(search_db, mark)? {
        return Ok(false);
    }
    let tx = search_db.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = hash_index::mark(&tx, mark)?;
    let last = match last_of_batch(main, table, from, rows_max)? {
        Some(last) => last,
        // If the last rows were deleted, the watermark moves past them.
        None => newest_row(main, table)?,
    };
    let db = SqliteDb::new(main, HashIndex::Reader(None));
    let units = search_documents::units_of_rows(&db, table, from, last)?;
    put_mark(&tx, mark, last, hash_index::hash_of_row(main, table, last)?)?;
    drop(snapshot);
    for units in units.chunks(CHUNK) {
        for (unit, words) in entries(main, units)? {
            put_document(&tx, unit, &words)?;
        }
    }
    tx.commit()?;
    Ok(last > from)
}

/// Row that completes a batch; none if there are fewer rows.
fn last_of_batch(
    main: &Connection,
    table: Table,
    from: i64,
    rows_max: usize,
) -> Result<Option<i64>, Error> {
    let sql =
        format!("SELECT id FROM {} WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2", table.name());
    let offset = rows_max as i64 - 1;
    Ok(main.prepare_cached(&sql)?.query_row([from, offset], |row| row.get(0)).optional()?)
}

/// The words of some units. Rows must match their bodies while other processes delete both, so they
/// are read in one snapshot. It is a short one: as long as it exists, the writer cannot start its
/// log anew.
fn entries(main: &Connection, units: &[Unit]) -> Result<Vec<(Unit, String)>, Error> {
    let snapshot = main.unchecked_transaction()?;
    search_documents::index_entries(&SqliteDb::new(&snapshot, HashIndex::Reader(None)), units)
}

/// Adds a document, in place of the one that the unit had.
fn put_document(search_db: &Connection, unit: Unit, words: &str) -> Result<(), Error> {
    if matches!(unit, Unit::Steps { .. }) {
        delete_document(search_db, unit)?;
    }
    search_db
        .prepare_cached("INSERT INTO documents(unit) VALUES (?1)")?
        .execute([unit.number()])?;
    search_db
        .prepare_cached("INSERT INTO words(rowid, text) VALUES (?1, ?2)")?
        .execute(params![search_db.last_insert_rowid(), words])?;
    Ok(())
}

/// Deletes the document of a unit; `false` if there is none.
fn delete_document(search_db: &Connection, unit: Unit) -> Result<bool, Error> {
    let id: Option<i64> = search_db
        .prepare_cached("DELETE FROM documents WHERE unit = ?1 RETURNING id")?
        .query_row([unit.number()], |row| row.get(0))
        .optional()?;
    if let Some(id) = id {
        search_db.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
    }
    Ok(id.is_some())
}

fn put_mark(
    search_db: &Connection,
    mark: i64,
    upto: i64,
    hash: Option<[u8; 32]>,
) -> Result<(), Error> {
    let sql = "INSERT INTO marks(tbl, upto, hash) VALUES (?1, ?2, ?3) ON CONFLICT(tbl) DO UPDATE \
        SET upto = ?2, hash = ?3";
    search_db.prepare_cached(sql)?.execute(params![mark, upto, hash])?;
    Ok(())
}

/// Deletes the documents of deleted turns.
fn forget(main: &Connection, search_db: &mut SearchDb) -> Result<(), Error> {
    let newest: i64 =
        main.query_row("SELECT COALESCE(MAX(id), 0) FROM forgotten", [], |row| row.get(0))?;
    let mark = "SELECT COALESCE(MAX(upto), 0) FROM marks WHERE tbl = ?1";
    let forgotten = |search_db: &Connection| -> Result<i64, Error> {
        Ok(search_db.prepare_cached(mark)?.query_row([FORGOTTEN_MARK], |row| row.get(0))?)
    };
    if newest <= forgotten(search_db)? {
        return Ok(());
    }
    let tx = search_db.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut statement = main.prepare_cached("SELECT turn FROM forgotten WHERE id > ?1")?;
    let mut turns = statement.query([forgotten(&tx)?])?;
    let mut deleted = false;
    while let Some(turn) = turns.next()? {
        deleted |= delete_document(&tx, Unit::Turn(turn.get(0)?))?;
    }
    put_mark(&tx, FORGOTTEN_MARK, newest, None)?;
    if deleted {
        tx.execute("INSERT OR REPLACE INTO info(key, value) VALUES ('erasing', 'new')", [])?;
    }
    tx.commit()?;
    Ok(())
}

/// Whether the index still contains words of deleted texts.
fn is_erasing(search_db: &Connection) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM info WHERE key = 'erasing')";
    Ok(search_db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Merges some pages of the index, without the words of deleted documents. When all are merged, the
/// file is written anew: free pages and the log contain old pages.
fn erase_some(search_db: &mut SearchDb) -> Result<(), Error> {
    let tx = search_db.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let is_new: bool = tx.query_row(
        "SELECT EXISTS (SELECT 1 FROM info WHERE key = 'erasing' AND value = 'new')",
        [],
        |row| row.get(0),
    )?;
    let pages = if is_new { -MERGE_PAGES } else { MERGE_PAGES };
    let before = tx.total_changes();
    tx.execute("INSERT INTO words(words, rank) VALUES ('merge', ?1)", [pages])?;
    // The statement itself counts as one change.
    let is_merged = tx.total_changes() - before < 2;
    if is_merged {
        tx.execute("DELETE FROM info WHERE key = 'erasing'", [])?;
    } else if is_new {
        tx.execute("UPDATE info SET value = 'merging' WHERE key = 'erasing'", [])?;
    }
    tx.commit()?;
    if is_merged {
        search_db.execute_batch("VACUUM")?;
        search_db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

fn rows_between(
    main: &Connection,
    table: Table,
    from: i64,
    to: i64,
    limit: usize,
) -> Result<Vec<HashRow>, Error> {
    let mut statement = main.prepare_cached(&format!(
        "SELECT id, hash FROM {} WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3",
        table.name()
    ))?;
    let rows = statement
        .query_map(params![from, to, limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Row after which the next run begins. A last run that is not full is deleted and built again.
fn reopen_last_run(search_db: &Connection, table: Table, watermark: i64) -> Result<i64, Error> {
    let last: Option<(i64, i64, usize)> = search_db
        .prepare_cached(
            "SELECT id, first, length(entries) FROM runs WHERE tbl = ?1 ORDER BY first \
            DESC LIMIT 1",
        )?
        .query_row([table as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match last {
        Some((id, first, bytes)) if !hash_index::run_is_full(bytes) => {
            search_db.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([id])?;
            Ok(first - 1)
        }
        _ => Ok(watermark),
    }
}

fn index_hashes(search_db: &Connection, table: Table, mut rows: &[HashRow]) -> Result<(), Error> {
    let mut statement =
        search_db.prepare_cached("INSERT INTO runs(tbl, first, entries) VALUES (?1, ?2, ?3)")?;
    while let Some(first) = rows.first().map(|row| row.0) {
        let (run, rest) = rows.split_at(hash_index::run_length(rows.iter().map(|row| row.0)));
        let entries = hash_index::encode_entries(first, run.iter().copied());
        statement.execute(params![table as i64, first, entries])?;
        rows = rest;
    }
    Ok(())
}
