//! Opens a store: names of its files, connection settings, schema checks, and the write lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::Error;
use crate::schema::SCHEMA;

use super::segment::register_segment_file;

/// One entry per schema number, in order. A released entry never changes.
const MIGRATIONS: [&str; SCHEMA as usize] = [include_str!("migrations/0001_first.sql")];

/// In bytes. Measured: small pages waste the least space and cost the least per transaction.
const PAGE_BYTES: u32 = 4096;
/// Page cache of a connection. Another connection's write empties it, so a reader gains little.
const CACHE_KIB: u32 = 1024;
/// Most prepared statements that a connection keeps. A server uses about a hundred.
const STATEMENTS_MAX: usize = 128;
/// How long a connection waits for a lock of another one.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// File names of a store.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) dir: PathBuf,
}

impl Files {
    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("ctx.db")
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.dir.join("ctx.db-wal")
    }

    pub(crate) fn search_db(&self) -> PathBuf {
        self.dir.join("search.db")
    }

    /// Directory of the segment files.
    pub(crate) fn segments(&self) -> PathBuf {
        self.dir.join("segments")
    }

    pub(crate) fn segment(&self, number: i64) -> PathBuf {
        self.segments().join(number.to_string())
    }

    /// Held shared by long reads and exclusively while bytes of segment files are erased.
    pub(crate) fn erase_lock(&self) -> PathBuf {
        self.dir.join("erase.lock")
    }

    /// Held by long-running processes, which fill the index and move the log in the background.
    pub(crate) fn indexing_lock(&self) -> PathBuf {
        self.dir.join("indexing.lock")
    }

    pub(crate) fn next_writer_lock(&self) -> PathBuf {
        // Older versions that run at the same time use this file name.
        self.dir.join("turnstile.lock")
    }

    pub(crate) fn write_lock(&self) -> PathBuf {
        self.dir.join("write.lock")
    }
}

/// Creates the directory and an empty database of the newest schema.
pub(crate) fn create(files: &Files, project: &str, store_id: &str) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&files.dir)?;
    reject_network_file_system(&files.dir)?;
    if is_store(files)? {
        return Err(Error::StoreExists(files.dir.clone()));
    }
    if files.wal().exists() {
        let log = files.wal();
        return Err(Error::Damaged(format!(
            "{} exists without its database; restore the database or move the log away",
            log.display()
        )));
    }
    // Built under another name: a crash leaves either no store or a complete one.
    let temporary = files.dir.join(format!("ctx.db.{store_id}.new"));
    let made = build_database(&temporary, project, store_id)
        .and_then(|()| link_into_place(&temporary, files));
    let _ = fs::remove_file(&temporary);
    made
}

fn build_database(path: &Path, project: &str, store_id: &str) -> Result<(), Error> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut connection = Connection::open(path)?;
    connection
        .execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}; PRAGMA synchronous = FULL;"))?;
    let transaction = connection.transaction()?;
    MIGRATIONS.iter().try_for_each(|sql| transaction.execute_batch(sql))?;
    let schema = SCHEMA.to_string();
    let rows = [
        ("schema", schema.as_str()),
        ("min_writer", &schema),
        ("project", project),
        ("store", store_id),
    ];
    for (key, value) in rows {
        transaction.execute("INSERT INTO meta(key, value) VALUES (?1, ?2)", [key, value])?;
    }
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    File::open(path)?.sync_all()?;
    Ok(())
}

fn link_into_place(temporary: &Path, files: &Files) -> Result<(), Error> {
    // A hard link fails if the name exists, so the first of two concurrent calls wins.
    match fs::hard_link(temporary, files.database()) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::StoreExists(files.dir.clone()));
        }
        linked => linked?,
    }
    WriteLock::open(files)?;
    File::open(&files.dir)?.sync_all()?;
    enable_wal(&connect(files)?)
}

/// The write lock between processes. A process holds `next_writer` while it waits for the lock, so
/// a process that writes without a pause cannot acquire the lock again before the waiting one.
pub(crate) struct WriteLock {
    next_writer: File,
    write: File,
}

impl WriteLock {
    pub(crate) fn open(files: &Files) -> Result<Self, Error> {
        Ok(Self {
            next_writer: lock_file(&files.next_writer_lock())?,
            write: lock_file(&files.write_lock())?,
        })
    }

    /// Blocks until the lock is acquired. Closing the files releases it.
    pub(crate) fn lock(&self) -> Result<(), Error> {
        lock_retrying_interrupts(&self.next_writer)?;
        let locked = lock_retrying_interrupts(&self.write);
        if let Err(error) = self.next_writer.unlock() {
            // No other process could acquire the lock while this one keeps `next_writer`.
            let _ = self.write.unlock();
            return Err(error.into());
        }
        locked
    }

    pub(crate) fn unlock(&self) -> std::io::Result<()> {
        self.write.unlock()
    }
}

/// Opens or creates a file that is used only for locking.
pub(crate) fn lock_file(path: &Path) -> Result<File, Error> {
    Ok(OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?)
}

/// Locks a file, and retries when a signal interrupts the call.
fn lock_retrying_interrupts(file: &File) -> Result<(), Error> {
    loop {
        match file.lock() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            locked => return Ok(locked?),
        }
    }
}

/// Whether a long-running process has the store open. It fills the index and moves the log.
pub(crate) fn is_open_in_background(files: &Files) -> bool {
    lock_file(&files.indexing_lock()).is_ok_and(|lock| lock.try_lock().is_err())
}

/// Acquires the write lock. Dropping the value releases it.
pub(crate) fn acquire_write_lock(files: &Files) -> Result<WriteLock, Error> {
    let lock = WriteLock::open(files)?;
    lock.lock()?;
    Ok(lock)
}

/// Turns write-ahead logging on. The mode is a property of the file, and a copy made by `backup`
/// does not have it.
pub(crate) fn enable_wal(connection: &Connection) -> Result<(), Error> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    }
    Ok(())
}

/// Whether the database exists. The file is not opened: closing it would release every lock that
/// SQLite holds on it in this process.
pub(crate) fn is_store(files: &Files) -> Result<bool, Error> {
    match fs::metadata(files.database()) {
        Ok(meta) if meta.is_file() && meta.len() > 0 => Ok(true),
        Ok(_) => {
            Err(Error::Damaged(format!("{} is empty or not a file", files.database().display())))
        }
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Connects to an existing store. The caller checks its schema.
pub(crate) fn connect(files: &Files) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(files.database(), flags)?;
    configure(&connection)?;
    register_segment_file(&connection, files)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), Error> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A short command must not run a checkpoint at its end; the writer runs them by log size.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Without this, a statement is prepared again whenever a bound of a range changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;"
    ))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

/// Rejects a store that a newer ctx wrote, and migrates an older one.
pub(crate) fn check_schema(connection: &mut Connection) -> Result<(), Error> {
    match schema_of(connection)? {
        SCHEMA => Ok(()),
        // Newer schemas only add tables and columns; `min_writer` decides whether this ctx may
        // write.
        newer if newer > SCHEMA => check_min_writer(connection),
        older => migrate(connection, older),
    }
}

pub(crate) fn schema_of(connection: &Connection) -> Result<u32, Error> {
    let found = match meta(connection, "schema") {
        Err(Error::Internal(why)) => {
            return Err(Error::Damaged(format!("not a ctx store: {why}")));
        }
        found => found?,
    };
    found
        .and_then(|schema| schema.parse().ok())
        .ok_or_else(|| Error::Damaged("its schema version cannot be read".to_owned()))
}

pub(crate) fn meta(connection: &Connection, key: &str) -> Result<Option<String>, Error> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

/// Migrates schema and data in one transaction.
fn migrate(connection: &mut Connection, from: u32) -> Result<(), Error> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let from = schema_of(&transaction)?.max(from);
    for sql in MIGRATIONS.iter().skip(from as usize) {
        transaction.execute_batch(sql)?;
    }
    let dangling: Option<String> = transaction
        .query_row("SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1", [], |row| row.get(0))
        .optional()?;
    if let Some(table) = dangling {
        return Err(Error::Damaged(format!(
            "migration rolled back: rows of {table} refer to rows that do not exist"
        )));
    }
    for key in ["schema", "min_writer"] {
        transaction
            .execute("UPDATE meta SET value = ?2 WHERE key = ?1", (key, SCHEMA.to_string()))?;
    }
    transaction.commit()?;
    Ok(())
}

/// Called in every write transaction: another process may have migrated the store meanwhile.
pub(crate) fn check_min_writer(connection: &Connection) -> Result<(), Error> {
    let min_writer =
        meta(connection, "min_writer")?.and_then(|value| value.parse().ok()).unwrap_or(u32::MAX);
    if min_writer > SCHEMA {
        Err(Error::TooNew { found: min_writer, known: SCHEMA })
    } else {
        Ok(())
    }
}

/// Returns an error for a directory on a network file system: neither the locks of SQLite nor
/// `flock` work between machines.
pub(crate) fn reject_network_file_system(path: &Path) -> Result<(), Error> {
    const NETWORK: [(i64, &str); 7] = [
        (0x6969, "nfs"),
        (0xFF53_4D42, "cifs"),
        (0xFE53_4D42, "smb2"),
        (0x517B, "smb"),
        (0x0102_1997, "9p"),
        (0x00C3_6400, "ceph"),
        (0x5346_414F, "afs"),
    ];
    let Ok(found) = rustix::fs::statfs(path) else { return Ok(()) };
    #[allow(clippy::unnecessary_cast, reason = "the type differs between platforms")]
    let kind = found.f_type as i64;
    match NETWORK.iter().find(|(magic, _)| *magic == kind) {
        Some((_, fs)) => Err(Error::NetworkDisk { path: path.to_owned(), fs }),
        None => Ok(()),
    }
}
