//! The indexes behind the commits: hashes and words, in `search.db`.
//!
//! That file holds nothing that `ctx.db` does not: it is filled after the fact up to a mark per table, and
//! thrown away and filled anew whenever it does not fit its store. Its marks move in the same transaction
//! as what they speak of.

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
use crate::word_filter::{self, BLOCK_ROWS, RowWords};

use super::hash_index::{self, RUN_ROWS};
use super::open::{BUSY, Files, connect, meta};
use super::segment;

/// Changed whenever the meaning of `search.db` changes: it is then filled anew.
const VERSION: &str = "3";
/// Rows indexed in one transaction.
const BATCH_ROWS: usize = 4 * RUN_ROWS;
/// So many words are kept for the index, 64 MB; it reads the bodies of the other rows.
const REMEMBERED_MAX_WORDS: usize = 16 << 20;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS info (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS marks (tbl INTEGER PRIMARY KEY, upto INTEGER NOT NULL, hash BLOB);
    CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, first INTEGER NOT NULL, entries BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS runs_by_row ON runs(tbl, first);
    CREATE TABLE IF NOT EXISTS blocks (id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        rows INTEGER NOT NULL, filter BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS blocks_by_row ON blocks(tbl, last);";

/// No file has this number.
const IN_MEMORY: u64 = u64::MAX;

/// Words that writers of this process read on the way.
#[derive(Default)]
pub(crate) struct RememberedWords {
    rows: HashMap<(Table, i64), Arc<[u32]>>,
    words: usize,
}

impl RememberedWords {
    pub(crate) fn add(&mut self, words: Vec<RowWords>) {
        for (table, row, words) in words {
            if self.words + words.len() > REMEMBERED_MAX_WORDS {
                return;
            }
            self.words += words.len();
            self.rows.insert((table, row), words);
        }
    }

    fn take(&mut self, table: Table, row: i64) -> Option<Arc<[u32]>> {
        let words = self.rows.remove(&(table, row))?;
        self.words -= words.len();
        Some(words)
    }

    fn forget(&mut self, table: Table, mark: i64) {
        self.rows.retain(|(of, row), _| *of != table || *row > mark);
        self.words = self.rows.values().map(|words| words.len()).sum();
    }
}

fn remembered_words(remembered: &Mutex<RememberedWords>) -> MutexGuard<'_, RememberedWords> {
    remembered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to `search.db`, and which file it is: a damaged one is replaced under the same name.
pub(crate) struct Side {
    connection: Connection,
    inode: u64,
}

impl std::ops::Deref for Side {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Side {
    /// The connection in the slot, if it is to the file that is there now; else a new one.
    pub(crate) fn current<'a>(
        slot: &'a mut Option<Side>,
        files: &Files,
        main: &Connection,
    ) -> Result<&'a mut Side, Error> {
        let there = fs::metadata(files.search()).map(|meta| meta.ino()).ok();
        let side = match slot.take() {
            Some(side) if Some(side.inode) == there => side,
            _ => Side::open(files, main)?,
        };
        Ok(slot.insert(side))
    }

    /// Opens `search.db`, makes it where there is none, and empties it where it does not fit the store.
    fn open(files: &Files, main: &Connection) -> Result<Self, Error> {
        match Self::fitting(files, main) {
            Err(Error::Damaged(_)) => {
                discard(&files.search());
                Self::fitting(files, main)
            }
            // Nothing can be written here, and yet everything must be readable and recordable: an empty index will do.
            Err(Error::ReadOnly(_) | Error::Full | Error::Unavailable(_)) => Self::in_memory(main),
            opened => opened,
        }
    }

    fn in_memory(main: &Connection) -> Result<Self, Error> {
        let mut side = Self { connection: Connection::open_in_memory()?, inode: IN_MEMORY };
        side.empty(main)?;
        Ok(side)
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.inode == IN_MEMORY
    }

    fn fitting(files: &Files, main: &Connection) -> Result<Self, Error> {
        // Made with its rights before SQLite opens it: the log beside it inherits them.
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(files.search()) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e.into()),
            _ => {}
        }
        let inode = fs::metadata(files.search())?.ino();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(files.search(), flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4000;",
        )?;
        let mut side = Self { connection, inode };
        if !fits(&side, main)? {
            side.empty_unless(main, fits)?;
        }
        Ok(side)
    }

    /// Replaces the file if that is what is damaged; `false` if it is well.
    pub(crate) fn heal(
        slot: &mut Option<Side>,
        files: &Files,
        main: &Connection,
    ) -> Result<bool, Error> {
        let check = |side: &Side| {
            side.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        };
        let well = slot.take().is_none_or(|side| check(&side).is_ok_and(|word| word == "ok"));
        if !well {
            discard(&files.search());
        }
        Side::current(slot, files, main)?;
        Ok(!well)
    }

    /// Starts over with an empty file.
    pub(crate) fn renew(
        slot: &mut Option<Side>,
        files: &Files,
        main: &Connection,
    ) -> Result<(), Error> {
        *slot = None;
        discard(&files.search());
        Side::current(slot, files, main).map(drop)
    }

    /// Throws away what it holds, for all who have it open.
    fn empty(&mut self, main: &Connection) -> Result<(), Error> {
        self.empty_unless(main, |_, _| Ok(false))
    }

    /// Of several who find it wanting at once, the first empties it and the others take what they find.
    fn empty_unless(
        &mut self,
        main: &Connection,
        well: fn(&Connection, &Connection) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let wanted = wanted(main)?;
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if well(&tx, main)? {
            return Ok(());
        }
        tx.execute_batch(SCHEMA)?;
        tx.execute_batch("DELETE FROM marks; DELETE FROM runs; DELETE FROM blocks;")?;
        tx.execute("INSERT INTO info(key, value) VALUES ('fits', ?1) ON CONFLICT(key) DO UPDATE SET value = ?1", [wanted])?;
        tx.commit()?;
        Ok(())
    }
}

/// Whether it is of this program's version and of this store, and not ahead of it.
fn fits(side: &Connection, main: &Connection) -> Result<bool, Error> {
    let made: bool = side.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'info')",
        [],
        |row| row.get(0),
    )?;
    if !made {
        return Ok(false);
    }
    let found: Option<String> = side
        .query_row("SELECT value FROM info WHERE key = 'fits'", [], |row| row.get(0))
        .optional()?;
    if found != Some(wanted(main)?) {
        return Ok(false);
    }
    for table in Table::ALL {
        if !knows_its_rows(side, main, table)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the row at the mark is the one that was indexed: a copy of an earlier moment may have been put back
/// and gone another way.
fn knows_its_rows(side: &Connection, main: &Connection, table: Table) -> Result<bool, Error> {
    let mark: Option<(i64, Option<[u8; 32]>)> = side
        .query_row("SELECT upto, hash FROM marks WHERE tbl = ?1", [table as i64], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((upto, hash)) = mark else { return Ok(true) };
    let there = hash_index::hash_at(main, table, upto)?;
    Ok(upto <= newest(main, table)? && (there.is_none() || hash.is_none() || there == hash))
}

fn wanted(main: &Connection) -> Result<String, Error> {
    Ok(format!("{VERSION} {}", meta(main, "store")?.unwrap_or_default()))
}

/// Removes a damaged `search.db`.
fn discard(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
}

/// The newest row that a table ever had.
fn newest(main: &Connection, table: Table) -> Result<i64, Error> {
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

/// How many rows the indexes have not seen.
pub(crate) fn lag(main: &Connection, side: &Connection) -> Result<u64, Error> {
    let mut lag = 0;
    for table in Table::ALL {
        lag += newest(main, table)?.saturating_sub(hash_index::mark(side, table)?).unsigned_abs();
    }
    Ok(lag)
}

/// Who fills the indexes.
pub(crate) struct Indexer {
    files: Files,
    main: Connection,
    side: Option<Side>,
}

struct Row {
    id: i64,
    hash: [u8; 32],
    place: Option<Place>,
}

impl Indexer {
    pub(crate) fn open(files: &Files) -> Result<Self, Error> {
        Ok(Self { files: files.clone(), main: connect(files)?, side: None })
    }

    /// Indexes every row that is there now.
    pub(crate) fn catch_up(&mut self, remembered: &Mutex<RememberedWords>) -> Result<(), Error> {
        for table in Table::ALL {
            while self.batch(table, remembered)? {}
            let mark = self.side.as_ref().map_or(Ok(0), |side| hash_index::mark(side, table))?;
            // Another process may have been there first, and asked nobody for the words.
            remembered_words(remembered).forget(table, mark);
        }
        Ok(())
    }

    /// Replaces a damaged `search.db`; `false` if it is well.
    pub(crate) fn heal(&mut self) -> Result<bool, Error> {
        Side::heal(&mut self.side, &self.files, &self.main)
    }

    /// Indexes some rows of a table; `false` when there were none.
    fn batch(&mut self, table: Table, remembered: &Mutex<RememberedWords>) -> Result<bool, Error> {
        let side = Side::current(&mut self.side, &self.files, &self.main)?;
        // One moment of the store: a clean-up moves bodies.
        let main = self.main.unchecked_transaction()?;
        if side.is_in_memory() || newest(&main, table)? <= hash_index::mark(side, table)? {
            return Ok(false);
        }
        let tx = side.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mark = hash_index::mark(&tx, table)?;
        let (run, block) =
            (reopen_last_run(&tx, table, mark)?, reopen_last_block(&tx, table, mark)?);
        let rows = rows_after(&main, table, run.min(block))?;
        let after = |from: i64| &rows[rows.partition_point(|row| row.id <= from)..];
        index_hashes(&tx, table, after(run))?;
        if table != Table::Blobs {
            for block in after(block).chunks(BLOCK_ROWS) {
                index_words(&tx, &main, table, block, remembered)?;
            }
        }
        // Where the last rows are gone, the mark passes over them.
        let last = if rows.len() < BATCH_ROWS {
            newest(&main, table)?
        } else {
            rows.last().map_or(mark, |row| row.id)
        };
        tx.execute(
            "INSERT INTO marks(tbl, upto, hash) VALUES (?1, ?2, ?3) ON CONFLICT(tbl) DO UPDATE SET upto = ?2, hash = ?3",
            params![table as i64, last, hash_index::hash_at(&main, table, last)?],
        )?;
        tx.commit()?;
        Ok(last > mark)
    }
}

/// Where the next block begins: a last block that is not full is taken up again.
fn reopen_last_block(side: &Connection, table: Table, mark: i64) -> Result<i64, Error> {
    let last: Option<(i64, i64, i64)> = side
        .prepare_cached(
            "SELECT id, first, rows FROM blocks WHERE tbl = ?1 ORDER BY last DESC LIMIT 1",
        )?
        .query_row([table as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match last {
        Some((id, first, rows)) if rows < BLOCK_ROWS as i64 => {
            side.prepare_cached("DELETE FROM blocks WHERE id = ?1")?.execute([id])?;
            Ok(first - 1)
        }
        _ => Ok(mark),
    }
}

fn rows_after(main: &Connection, table: Table, from: i64) -> Result<Vec<Row>, Error> {
    let mut statement = main.prepare_cached(&format!(
        "SELECT id, hash, seg, off, len, packing, size FROM {} WHERE id > ?1 ORDER BY id LIMIT {BATCH_ROWS}",
        table.name()
    ))?;
    let rows = statement.query_map([from], |row| {
        Ok(Row { id: row.get(0)?, hash: row.get(1)?, place: segment::place_from_row(row, 2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Where the next run begins: a last run that is not full is taken up again.
fn reopen_last_run(side: &Connection, table: Table, mark: i64) -> Result<i64, Error> {
    let last: Option<(i64, i64, usize)> = side
        .prepare_cached("SELECT id, first, length(entries) FROM runs WHERE tbl = ?1 ORDER BY first DESC LIMIT 1")?
        .query_row([table as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match last {
        Some((id, first, bytes)) if !hash_index::run_is_full(bytes) => {
            side.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([id])?;
            Ok(first - 1)
        }
        _ => Ok(mark),
    }
}

fn index_hashes(side: &Connection, table: Table, mut rows: &[Row]) -> Result<(), Error> {
    let mut statement =
        side.prepare_cached("INSERT INTO runs(tbl, first, entries) VALUES (?1, ?2, ?3)")?;
    while let Some(first) = rows.first().map(|row| row.id) {
        let (run, rest) = rows.split_at(hash_index::run_length(rows.iter().map(|row| row.id)));
        let entries = hash_index::entries(first, run.iter().map(|row| (row.id, row.hash)));
        statement.execute(params![table as i64, first, entries])?;
        rows = rest;
    }
    Ok(())
}

fn index_words(
    side: &Connection,
    main: &Connection,
    table: Table,
    block: &[Row],
    remembered: &Mutex<RememberedWords>,
) -> Result<(), Error> {
    let mut all = Vec::new();
    for row in block {
        let known = remembered_words(remembered).take(table, row.id);
        match (known, row.place) {
            (Some(words), _) => all.extend_from_slice(&words),
            (None, Some(place)) => {
                all.extend(word_filter::hashes(&segment::read(main, &place).unwrap_or_default()));
            }
            (None, None) => {}
        }
    }
    match (block.first(), block.last()) {
        (Some(first), Some(last)) => put_block(side, table, (first.id, last.id, block.len()), all),
        _ => Ok(()),
    }
}

fn put_block(
    side: &Connection,
    table: Table,
    (first, last, rows): (i64, i64, usize),
    words: Vec<u32>,
) -> Result<(), Error> {
    side.prepare_cached(
        "INSERT INTO blocks(tbl, first, last, rows, filter) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![table as i64, first, last, rows as i64, word_filter::filter(&words)])?;
    Ok(())
}
