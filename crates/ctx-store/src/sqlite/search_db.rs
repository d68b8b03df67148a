//! The file `search.db`: opening it, and replacing it if it is damaged or of another store.
//!
//! The file contains nothing that cannot be derived from `ctx.db`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};

use crate::Error;
use crate::driver::Table;

use super::hash_index;
use super::indexer::{newest_row, words_mark};
use super::open::{BUSY_TIMEOUT, Files, meta};

/// Must change with the format of `search.db`, the words of a text or the documents; a file of
/// another version is cleared.
const INDEX_VERSION: &str = "5";

/// `marks` are the rows up to which the hashes and the words of each table are indexed, `runs` the
/// hashes of rows. `documents`
/// has the unit of each document of `words`, in the order in which they were indexed. The words of
/// a document are separated by spaces, so the tokenizer of ASCII text finds them as they are. Their
/// positions are not stored: the text of a candidate is compared.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS info (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE marks (tbl INTEGER PRIMARY KEY, upto INTEGER NOT NULL, hash BLOB);
    CREATE TABLE runs (id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL,
        first INTEGER NOT NULL, entries BLOB NOT NULL);
    CREATE INDEX runs_by_row ON runs(tbl, first);
    CREATE TABLE documents (id INTEGER PRIMARY KEY AUTOINCREMENT, unit INTEGER NOT NULL UNIQUE);
    CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1,
        detail = none, tokenize = 'ascii', prefix = '1 2 3');
    CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);";
/// The tables of every version.
const DROP: &str = "
    DROP TABLE IF EXISTS vocabulary; DROP TABLE IF EXISTS words; DROP TABLE IF EXISTS documents;
    DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS runs; DROP TABLE IF EXISTS blocks;";

/// Inode number of an index in memory; no file has it.
const IN_MEMORY_INODE: u64 = u64::MAX;

/// A connection to `search.db` and the inode of its file: another process may replace a damaged
/// file under the same name.
pub(crate) struct SearchDb {
    pub(super) connection: Connection,
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
        tx.execute_batch(DROP)?;
        tx.execute_batch(SCHEMA)?;
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
        for mark in [table as i64, words_mark(table)] {
            if !watermark_matches(search_db, main, table, mark)? {
                return Ok(false);
            }
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
    mark: i64,
) -> Result<bool, Error> {
    let watermark: Option<(i64, Option<[u8; 32]>)> = search_db
        .query_row("SELECT upto, hash FROM marks WHERE tbl = ?1", [mark], |row| {
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
