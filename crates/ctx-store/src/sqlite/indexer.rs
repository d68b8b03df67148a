//! Fills `search.db`, the index of hashes and words.
//!
//! The file contains nothing that cannot be derived from `ctx.db`. Per table it covers the rows up
//! to a watermark, which is updated in the same transaction as the entries. If the file does not
//! match its store, it is cleared and filled again.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use crate::Error;
use crate::driver::{Place, Table};
use crate::word_filter::{self, BLOCK_ROWS, RowText};

use super::hash_index::{self, RUN_ROWS};
use super::open::{BUSY_TIMEOUT, Files, connect, meta};
use super::segment;

/// Must change with the format of `search.db`; a file of another version is cleared.
const INDEX_VERSION: &str = "3";
/// Most rows that are indexed in one transaction.
const BATCH_ROWS: usize = 4 * RUN_ROWS;
/// Most bytes of texts in the cache. The bodies of rows that are not cached are read again.
const CACHED_BYTES_MAX: usize = 64 << 20;

/// Most word hashes of a tail: 4 MB.
const TAIL_WORDS_MAX: usize = 1 << 20;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS info (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS marks (tbl INTEGER PRIMARY KEY, upto INTEGER NOT NULL, hash BLOB);
    CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL,
        first INTEGER NOT NULL, entries BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS runs_by_row ON runs(tbl, first);
    CREATE TABLE IF NOT EXISTS blocks (id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, rows INTEGER NOT NULL, filter BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS blocks_by_row ON blocks(tbl, last);";

/// Inode number of an index in memory; no file has it.
const IN_MEMORY_INODE: u64 = u64::MAX;

/// Texts that the writer of this process has stored in rows that are not indexed yet.
#[derive(Default)]
pub(crate) struct TextCache {
    rows: HashMap<(Table, i64), Arc<Vec<u8>>>,
    bytes: usize,
}

impl TextCache {
    pub(crate) fn add(&mut self, texts: Vec<RowText>) {
        for (table, row, text) in texts {
            if self.bytes + text.len() > CACHED_BYTES_MAX {
                return;
            }
            self.bytes += text.len();
            self.rows.insert((table, row), text);
        }
    }

    fn take(&mut self, table: Table, row: i64) -> Option<Arc<Vec<u8>>> {
        let text = self.rows.remove(&(table, row))?;
        self.bytes -= text.len();
        Some(text)
    }

    fn remove_through(&mut self, table: Table, watermark: i64) {
        self.rows.retain(|(of, row), _| *of != table || *row > watermark);
        self.bytes = self.rows.values().map(|text| text.len()).sum();
    }
}

fn lock_text_cache(text_cache: &Mutex<TextCache>) -> MutexGuard<'_, TextCache> {
    text_cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to `search.db` and the inode of its file: another process may replace a damaged
/// file under the same name.
pub(crate) struct SearchDb {
    connection: Connection,
    inode: u64,
}

impl std::ops::Deref for SearchDb {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl SearchDb {
    /// Returns the connection in the slot, or opens a new one if the file was replaced.
    pub(crate) fn current<'a>(
        slot: &'a mut Option<SearchDb>,
        files: &Files,
        main: &Connection,
    ) -> Result<&'a mut SearchDb, Error> {
        let inode = fs::metadata(files.search_db()).map(|meta| meta.ino()).ok();
        let search_db = match slot.take() {
            Some(search_db) if Some(search_db.inode) == inode => search_db,
            _ => SearchDb::open(files, main)?,
        };
        Ok(slot.insert(search_db))
    }

    /// Opens `search.db`. Creates a missing file, and clears one that does not match the store.
    fn open(files: &Files, main: &Connection) -> Result<Self, Error> {
        match Self::open_file(files, main) {
            Err(Error::Damaged(_)) => {
                remove_files(&files.search_db());
                Self::open_file(files, main)
            }
            // Reading and recording must work even if the index cannot be written; an empty one is
            // enough.
            Err(Error::ReadOnly(_) | Error::Full | Error::Unavailable(_)) => Self::in_memory(main),
            opened => opened,
        }
    }

    fn in_memory(main: &Connection) -> Result<Self, Error> {
        let mut search_db =
            Self { connection: Connection::open_in_memory()?, inode: IN_MEMORY_INODE };
        search_db.clear(main)?;
        Ok(search_db)
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.inode == IN_MEMORY_INODE
    }

    fn open_file(files: &Files, main: &Connection) -> Result<Self, Error> {
        // Created with its mode before SQLite opens it: the log file inherits the mode.
        match fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(files.search_db())
        {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e.into()),
            _ => {}
        }
        let inode = fs::metadata(files.search_db())?.ino();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(files.search_db(), flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8192; \
                PRAGMA wal_autocheckpoint = 4000;",
        )?;
        let mut search_db = Self { connection, inode };
        if !matches_store(&search_db, main)? {
            search_db.clear_unless(main, matches_store)?;
        }
        Ok(search_db)
    }

    /// Replaces the file if it is damaged; `false` if it is intact.
    pub(crate) fn replace_if_damaged(
        slot: &mut Option<SearchDb>,
        files: &Files,
        main: &Connection,
    ) -> Result<bool, Error> {
        let check = |search_db: &SearchDb| {
            search_db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        };
        let intact = slot
            .take()
            .is_none_or(|search_db| check(&search_db).is_ok_and(|result| result == "ok"));
        if !intact {
            remove_files(&files.search_db());
        }
        SearchDb::current(slot, files, main)?;
        Ok(!intact)
    }

    /// Replaces the file by an empty one.
    pub(crate) fn recreate(
        slot: &mut Option<SearchDb>,
        files: &Files,
        main: &Connection,
    ) -> Result<(), Error> {
        *slot = None;
        remove_files(&files.search_db());
        SearchDb::current(slot, files, main).map(drop)
    }

    /// Deletes all entries, for all connections.
    fn clear(&mut self, main: &Connection) -> Result<(), Error> {
        self.clear_unless(main, |_, _| Ok(false))
    }

    /// Deletes all entries unless `usable` holds. If several processes find the file unusable at
    /// once, the first one clears it.
    fn clear_unless(
        &mut self,
        main: &Connection,
        usable: fn(&Connection, &Connection) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let tag = expected_tag(main)?;
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if usable(&tx, main)? {
            return Ok(());
        }
        tx.execute_batch(SCHEMA)?;
        tx.execute_batch("DELETE FROM marks; DELETE FROM runs; DELETE FROM blocks;")?;
        tx.execute(
            "INSERT INTO info(key, value) VALUES ('fits', ?1) ON CONFLICT(key) DO UPDATE \
            SET value = ?1",
            [tag],
        )?;
        tx.commit()?;
        Ok(())
    }
}

/// Whether the index has this version, belongs to this store, and is not ahead of it.
fn matches_store(search_db: &Connection, main: &Connection) -> Result<bool, Error> {
    let initialized: bool = search_db.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'info')",
        [],
        |row| row.get(0),
    )?;
    if !initialized {
        return Ok(false);
    }
    let found: Option<String> = search_db
        .query_row("SELECT value FROM info WHERE key = 'fits'", [], |row| row.get(0))
        .optional()?;
    if found != Some(expected_tag(main)?) {
        return Ok(false);
    }
    for table in Table::ALL {
        if !watermark_matches(search_db, main, table)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the row at the watermark is the one that was indexed. After an older copy was restored,
/// other rows may have been stored under the same numbers.
fn watermark_matches(
    search_db: &Connection,
    main: &Connection,
    table: Table,
) -> Result<bool, Error> {
    let watermark: Option<(i64, Option<[u8; 32]>)> = search_db
        .query_row("SELECT upto, hash FROM marks WHERE tbl = ?1", [table as i64], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((upto, hash)) = watermark else { return Ok(true) };
    let stored = hash_index::hash_of_row(main, table, upto)?;
    Ok(upto <= newest_row(main, table)? && (stored.is_none() || hash.is_none() || stored == hash))
}

fn expected_tag(main: &Connection) -> Result<String, Error> {
    Ok(format!("{INDEX_VERSION} {}", meta(main, "store")?.unwrap_or_default()))
}

fn remove_files(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
}

/// Highest row number that a table ever had.
fn newest_row(main: &Connection, table: Table) -> Result<i64, Error> {
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

/// Number of rows that are not indexed yet.
pub(crate) fn lag(main: &Connection, search_db: &Connection) -> Result<u64, Error> {
    let mut lag = 0;
    for table in Table::ALL {
        lag += newest_row(main, table)?
            .saturating_sub(hash_index::watermark(search_db, table)?)
            .unsigned_abs();
    }
    Ok(lag)
}

/// Fills the index in batches.
pub(crate) struct Indexer {
    files: Files,
    main: Connection,
    search_db: Option<SearchDb>,
    tails: HashMap<Table, Tail>,
}

/// Rows up to the watermark that the next batch indexes again, because their run or block is not
/// full. A tail of another watermark is not used: another process has indexed rows.
struct Tail {
    watermark: i64,
    /// All rows after this one are in the tail.
    after: i64,
    rows: Vec<Row>,
}

struct Row {
    id: i64,
    hash: [u8; 32],
    place: Option<Place>,
    /// Hashes of the words, if they are known.
    words: Option<Vec<u32>>,
}

impl Indexer {
    pub(crate) fn open(files: &Files) -> Result<Self, Error> {
        let (files, main) = (files.clone(), connect(files)?);
        Ok(Self { files, main, search_db: None, tails: HashMap::new() })
    }

    /// Indexes all rows that are stored now.
    pub(crate) fn catch_up(&mut self, text_cache: &Mutex<TextCache>) -> Result<(), Error> {
        for table in Table::ALL {
            while self.batch(table, text_cache)? {}
            let watermark = self
                .search_db
                .as_ref()
                .map_or(Ok(0), |search_db| hash_index::watermark(search_db, table))?;
            // Rows that another process indexed are still in the cache.
            lock_text_cache(text_cache).remove_through(table, watermark);
        }
        Ok(())
    }

    /// Replaces a damaged `search.db`; `false` if it is intact.
    pub(crate) fn replace_if_damaged(&mut self) -> Result<bool, Error> {
        SearchDb::replace_if_damaged(&mut self.search_db, &self.files, &self.main)
    }

    /// Indexes a batch of rows of a table; `false` if there are no more.
    fn batch(&mut self, table: Table, text_cache: &Mutex<TextCache>) -> Result<bool, Error> {
        let search_db = SearchDb::current(&mut self.search_db, &self.files, &self.main)?;
        // One snapshot: rows must match their bodies while other processes delete both.
        let main = self.main.unchecked_transaction()?;
        if search_db.is_in_memory()
            || newest_row(&main, table)? <= hash_index::watermark(search_db, table)?
        {
            return Ok(false);
        }
        let tx = search_db.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let watermark = hash_index::watermark(&tx, table)?;
        let (run, block) =
            (reopen_last_run(&tx, table, watermark)?, reopen_last_block(&tx, table, watermark)?);
        let from = run.min(block);
        let tail = self.tails.remove(&table);
        let tail = tail.filter(|tail| tail.watermark == watermark && tail.after <= from);
        let (mut rows, read_from) = match tail {
            Some(tail) => (tail.rows, watermark),
            None => (Vec::new(), from),
        };
        let new = rows_after(&main, table, read_from)?;
        let is_complete = new.len() < BATCH_ROWS;
        rows.extend(new);
        let after = |rows: &[Row], from: i64| rows.partition_point(|row| row.id <= from);
        let first_of_run = after(&rows, run);
        index_hashes(&tx, table, &rows[first_of_run..])?;
        if table != Table::Blobs {
            let first_of_block = after(&rows, block);
            for block in rows[first_of_block..].chunks_mut(BLOCK_ROWS) {
                index_words(&tx, &main, table, block, text_cache)?;
            }
        }
        // If the last rows were deleted, the watermark moves past them.
        let last = if is_complete {
            newest_row(&main, table)?
        } else {
            rows.last().map_or(watermark, |row| row.id)
        };
        tx.execute(
            "INSERT INTO marks(tbl, upto, hash) VALUES (?1, ?2, ?3) ON CONFLICT(tbl) DO UPDATE SET \
                upto = ?2, hash = ?3",
            params![table as i64, last, hash_index::hash_of_row(&main, table, last)?],
        )?;
        tx.commit()?;
        self.tails.insert(table, Tail::new(last, from, rows));
        Ok(last > watermark)
    }
}

impl Tail {
    /// Keeps as many of the rows after `from` as a run has, and the words of one block.
    fn new(watermark: i64, from: i64, mut rows: Vec<Row>) -> Self {
        let dropped = rows.len().saturating_sub(RUN_ROWS);
        let after = rows[..dropped].last().map_or(from, |row| row.id);
        rows.drain(..dropped);
        let (mut count, mut words) = (0, 0);
        for row in rows.iter_mut().rev() {
            (count, words) = (count + 1, words + row.words.as_ref().map_or(0, Vec::len));
            if count > BLOCK_ROWS || words > TAIL_WORDS_MAX {
                row.words = None;
            }
        }
        Self { watermark, after, rows }
    }
}

/// Row after which the next block begins. A last block that is not full is deleted and built again.
fn reopen_last_block(search_db: &Connection, table: Table, watermark: i64) -> Result<i64, Error> {
    let last: Option<(i64, i64, i64)> = search_db
        .prepare_cached(
            "SELECT id, first, rows FROM blocks WHERE tbl = ?1 ORDER BY last DESC LIMIT 1",
        )?
        .query_row([table as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match last {
        Some((id, first, rows)) if rows < BLOCK_ROWS as i64 => {
            search_db.prepare_cached("DELETE FROM blocks WHERE id = ?1")?.execute([id])?;
            Ok(first - 1)
        }
        _ => Ok(watermark),
    }
}

fn rows_after(main: &Connection, table: Table, from: i64) -> Result<Vec<Row>, Error> {
    let mut statement = main.prepare_cached(&format!(
        "SELECT id, hash, seg, off, len, packing, size FROM {} WHERE id > ?1 ORDER BY id LIMIT \
            {BATCH_ROWS}",
        table.name()
    ))?;
    let rows = statement.query_map([from], |row| {
        let (id, hash, place) = (row.get(0)?, row.get(1)?, segment::place_from_row(row, 2)?);
        Ok(Row { id, hash, place, words: None })
    })?;
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

fn index_hashes(search_db: &Connection, table: Table, mut rows: &[Row]) -> Result<(), Error> {
    let mut statement =
        search_db.prepare_cached("INSERT INTO runs(tbl, first, entries) VALUES (?1, ?2, ?3)")?;
    while let Some(first) = rows.first().map(|row| row.id) {
        let (run, rest) = rows.split_at(hash_index::run_length(rows.iter().map(|row| row.id)));
        let entries = hash_index::encode_entries(first, run.iter().map(|row| (row.id, row.hash)));
        statement.execute(params![table as i64, first, entries])?;
        rows = rest;
    }
    Ok(())
}

fn index_words(
    search_db: &Connection,
    main: &Connection,
    table: Table,
    block: &mut [Row],
    text_cache: &Mutex<TextCache>,
) -> Result<(), Error> {
    let mut all = Vec::new();
    for row in &mut *block {
        let words = match row.words.take() {
            Some(words) => words,
            None => words_of(main, table, row, text_cache),
        };
        all.extend_from_slice(&words);
        row.words = Some(words);
    }
    match (block.first(), block.last()) {
        (Some(first), Some(last)) => {
            put_block(search_db, table, (first.id, last.id, block.len()), all)
        }
        _ => Ok(()),
    }
}

/// Hashes of the words of a row; none if its body was purged or cannot be read.
fn words_of(main: &Connection, table: Table, row: &Row, text_cache: &Mutex<TextCache>) -> Vec<u32> {
    let cached = lock_text_cache(text_cache).take(table, row.id);
    match (cached, row.place) {
        (Some(text), _) => word_filter::record_hashes(&text),
        (None, Some(place)) => {
            word_filter::record_hashes(&segment::read(main, &place).unwrap_or_default())
        }
        (None, None) => Vec::new(),
    }
}

fn put_block(
    search_db: &Connection,
    table: Table,
    (first, last, rows): (i64, i64, usize),
    words: Vec<u32>,
) -> Result<(), Error> {
    search_db
        .prepare_cached(
            "INSERT INTO blocks(tbl, first, last, rows, filter) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![table as i64, first, last, rows as i64, word_filter::filter(&words)])?;
    Ok(())
}
