//! The indexes behind the commits: hashes and words, in `search.db`.
//!
//! That file holds nothing that `ctx.db` does not: it is filled after the fact up to a mark per table, and
//! thrown away and filled anew whenever it does not fit its store. Its marks move in the same transaction
//! as what they speak of.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::Error;

use super::hashes::{self, Table};
use super::open::{Files, connect, meta};
use super::pack::Place;
use super::words::{self, BLOCK_ROWS};

/// Changed whenever the meaning of `search.db` changes: it is then filled anew.
const VERSION: &str = "1";
/// Rows indexed in one transaction.
const BATCH_ROWS: usize = 4096;
/// Words of so many rows are kept for the index; it reads the bodies of the others.
const REMEMBERED_MAX: usize = 65_536;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS info (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS marks (tbl INTEGER PRIMARY KEY, upto INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS hashes (prefix INTEGER NOT NULL, ref INTEGER NOT NULL, PRIMARY KEY (prefix, ref)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS blocks (id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        rows INTEGER NOT NULL, filter BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS blocks_by_row ON blocks(tbl, last);";

/// Words that writers of this process read on the way.
pub(crate) type Remembered = HashMap<(Table, i64), Arc<[u32]>>;

pub(crate) fn remember(remembered: &mut Remembered, words: Vec<(Table, i64, Arc<[u32]>)>) {
    if remembered.len() < REMEMBERED_MAX {
        remembered.extend(words.into_iter().map(|(table, row, words)| ((table, row), words)));
    }
}

/// A connection to `search.db`, made or made anew where it does not fit the store.
pub(crate) fn side(files: &Files, main: &Connection) -> Result<Connection, Error> {
    match fitting(files, main) {
        Ok(Some(side)) => Ok(side),
        Ok(None) | Err(Error::Damaged(_)) => {
            discard(&files.search());
            fitting(files, main)?.ok_or_else(|| Error::Internal("a new search.db does not fit its store".to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn fitting(files: &Files, main: &Connection) -> Result<Option<Connection>, Error> {
    // Made with its rights before SQLite opens it: the log beside it inherits them.
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(files.search())?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let side = Connection::open_with_flags(files.search(), flags)?;
    side.busy_timeout(std::time::Duration::from_secs(10))?;
    side.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    side.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    side.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4000;")?;
    let store = meta(main, "store")?.unwrap_or_default();
    let wanted = format!("{VERSION} {store}");
    if info(&side)?.is_none() {
        side.execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} COMMIT;"))?;
        side.execute("INSERT OR IGNORE INTO info(key, value) VALUES ('fits', ?1)", [&wanted])?;
    }
    if info(&side)?.as_deref() != Some(wanted.as_str()) {
        return Ok(None);
    }
    for table in Table::ALL {
        if hashes::mark(&side, table)? > newest(main, table)? {
            return Ok(None);
        }
    }
    Ok(Some(side))
}

fn info(side: &Connection) -> Result<Option<String>, Error> {
    let known: bool = side.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'info')", [], |row| row.get(0))?;
    if !known {
        return Ok(None);
    }
    Ok(side.query_row("SELECT value FROM info WHERE key = 'fits'", [], |row| row.get(0)).optional()?)
}

/// Throws `search.db` away.
pub(crate) fn discard(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
}

fn newest(main: &Connection, table: Table) -> Result<i64, Error> {
    let mut statement = main.prepare_cached(&format!("SELECT COALESCE(MAX(id), 0) FROM {}", table.name()))?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// How many rows the indexes have not seen.
pub(crate) fn lag(main: &Connection, side: &Connection) -> Result<u64, Error> {
    let mut lag = 0;
    for table in Table::ALL {
        lag += newest(main, table)?.saturating_sub(hashes::mark(side, table)?).unsigned_abs();
    }
    Ok(lag)
}

/// Who fills the indexes.
pub(crate) struct Indexer {
    main: Connection,
    side: Connection,
}

struct Row {
    id: i64,
    hash: [u8; 32],
    place: Option<Place>,
}

impl Indexer {
    pub(crate) fn open(files: &Files) -> Result<Self, Error> {
        let main = connect(files)?;
        let side = side(files, &main)?;
        Ok(Self { main, side })
    }

    /// Indexes every row that is there now.
    pub(crate) fn catch_up(&mut self, remembered: &std::sync::Mutex<Remembered>) -> Result<(), Error> {
        for table in Table::ALL {
            while self.batch(table, remembered)? {}
        }
        Ok(())
    }

    /// Indexes some rows of a table; `false` when there were none.
    fn batch(&mut self, table: Table, remembered: &std::sync::Mutex<Remembered>) -> Result<bool, Error> {
        if newest(&self.main, table)? <= hashes::mark(&self.side, table)? {
            return Ok(false);
        }
        let tx = self.side.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mark = hashes::mark(&tx, table)?;
        let from = if table == Table::Blobs { mark } else { reopen_last_block(&tx, table, mark)? };
        let rows = rows_after(&self.main, table, from)?;
        let Some(last) = rows.last().map(|row| row.id) else { return Ok(false) };
        index_hashes(&tx, table, rows.iter().filter(|row| row.id > mark))?;
        if table != Table::Blobs {
            for block in rows.chunks(BLOCK_ROWS) {
                index_words(&tx, &self.main, table, block, remembered)?;
            }
        }
        tx.execute("INSERT INTO marks(tbl, upto) VALUES (?1, ?2) ON CONFLICT(tbl) DO UPDATE SET upto = ?2", params![table as i64, last])?;
        tx.commit()?;
        Ok(last > mark)
    }
}

/// Where the next block begins: a last block that is not full is taken up again.
fn reopen_last_block(side: &Connection, table: Table, mark: i64) -> Result<i64, Error> {
    let last: Option<(i64, i64, i64)> = side
        .prepare_cached("SELECT id, first, rows FROM blocks WHERE tbl = ?1 ORDER BY last DESC LIMIT 1")?
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
    let mut statement =
        main.prepare_cached(&format!("SELECT id, hash, seg, off, len, packing, size FROM {} WHERE id > ?1 ORDER BY id LIMIT {BATCH_ROWS}", table.name()))?;
    let rows = statement.query_map([from], |row| Ok(Row { id: row.get(0)?, hash: row.get(1)?, place: Place::from_row(row, 2)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn index_hashes<'a>(side: &Connection, table: Table, rows: impl Iterator<Item = &'a Row>) -> Result<(), Error> {
    let mut entries: Vec<(i64, i64)> = rows.map(|row| (hashes::prefix(&row.hash), table.reference(row.id))).collect();
    // In order, neighbours fall into the same pages.
    entries.sort_unstable();
    let mut statement = side.prepare_cached("INSERT OR IGNORE INTO hashes(prefix, ref) VALUES (?1, ?2)")?;
    for (prefix, reference) in entries {
        statement.execute(params![prefix, reference])?;
    }
    Ok(())
}

fn index_words(
    side: &Connection,
    main: &Connection,
    table: Table,
    block: &[Row],
    remembered: &std::sync::Mutex<Remembered>,
) -> Result<(), Error> {
    let mut all = Vec::new();
    for row in block {
        let known = remembered.lock().map_err(|_| Error::Internal("the words of another thread".to_owned()))?.remove(&(table, row.id));
        match (known, row.place) {
            (Some(words), _) => all.extend_from_slice(&words),
            (None, Some(place)) => all.extend(words::hashes(&place.read(main).unwrap_or_default())),
            (None, None) => {}
        }
    }
    let [first, .., last] = block else {
        let [only] = block else { return Ok(()) };
        return put_block(side, table, (only.id, only.id, 1), all);
    };
    put_block(side, table, (first.id, last.id, block.len()), all)
}

fn put_block(side: &Connection, table: Table, (first, last, rows): (i64, i64, usize), words: Vec<u32>) -> Result<(), Error> {
    side.prepare_cached("INSERT INTO blocks(tbl, first, last, rows, filter) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![table as i64, first, last, rows as i64, words::filter(words)])?;
    Ok(())
}
