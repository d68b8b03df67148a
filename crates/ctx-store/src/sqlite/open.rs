//! Opening a store: where its files are, how each connection is set, who may open it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::Error;
use crate::schema::SCHEMA;

use super::segment::read_files_through;

/// One entry per schema, in order; never changed once released.
const MIGRATIONS: [&str; SCHEMA as usize] = [include_str!("migrations/0001_first.sql")];

/// Small pages waste least between bodies and cost least per commit (measured).
const PAGE_BYTES: u32 = 4096;
const CACHE_KIB: u32 = 4096;
/// How long a connection waits for another.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// Where a store's files are.
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

    pub(crate) fn search(&self) -> PathBuf {
        self.dir.join("search.db")
    }

    /// The directory of the segments that are files.
    pub(crate) fn segments(&self) -> PathBuf {
        self.dir.join("segments")
    }

    pub(crate) fn segment(&self, number: i64) -> PathBuf {
        self.segments().join(number.to_string())
    }

    /// Held by who looks at everything, and by who erases.
    pub(crate) fn erase_lock(&self) -> PathBuf {
        self.dir.join("erase.lock")
    }

    /// Held by processes that fill the indexes behind their commits.
    pub(crate) fn indexing_lock(&self) -> PathBuf {
        self.dir.join("indexing.lock")
    }

    pub(crate) fn turnstile(&self) -> PathBuf {
        self.dir.join("turnstile.lock")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("write.lock")
    }
}

/// Makes the directory and an empty database of the newest schema.
pub(crate) fn create(files: &Files, project: &str, store_id: &str) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&files.dir)?;
    refuse_network_disk(&files.dir)?;
    if is_store(files)? {
        return Err(Error::StoreExists(files.dir.clone()));
    }
    if files.wal().exists() {
        let log = files.wal();
        return Err(Error::Damaged(format!(
            "{} is the log of a database that is gone; put the database back, or move the log away",
            log.display()
        )));
    }
    // Built under another name, so that a crash leaves either no store or a whole one.
    let fresh = files.dir.join(format!("ctx.db.{store_id}.new"));
    let made = build(&fresh, project, store_id).and_then(|()| place(&fresh, files));
    let _ = fs::remove_file(&fresh);
    made
}

fn build(path: &Path, project: &str, store_id: &str) -> Result<(), Error> {
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

fn place(fresh: &Path, files: &Files) -> Result<(), Error> {
    // A link fails where a name exists, so the first of two inits wins.
    match fs::hard_link(fresh, files.database()) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::StoreExists(files.dir.clone()));
        }
        linked => linked?,
    }
    WriteLock::open(files)?;
    File::open(&files.dir)?.sync_all()?;
    keep_a_log(&connect(files)?)
}

/// What writers of all processes lock in turn. Who waits for the lock itself holds the turnstile before it: a process that writes
/// without a pause finds it held, and lets the other in.
pub(crate) struct WriteLock {
    turnstile: File,
    write: File,
}

impl WriteLock {
    pub(crate) fn open(files: &Files) -> Result<Self, Error> {
        Ok(Self { turnstile: lock_file(&files.turnstile())?, write: lock_file(&files.lock())? })
    }

    /// Takes the lock; closing the files lets go of it.
    pub(crate) fn lock(&self) -> Result<(), Error> {
        lock(&self.turnstile)?;
        let locked = lock(&self.write);
        if let Err(error) = self.turnstile.unlock() {
            // Nobody else would come through.
            let _ = self.write.unlock();
            return Err(error.into());
        }
        locked
    }

    pub(crate) fn unlock(&self) -> std::io::Result<()> {
        self.write.unlock()
    }
}

/// A file that is only ever locked.
pub(crate) fn lock_file(path: &Path) -> Result<File, Error> {
    Ok(OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?)
}

/// Locks a file, whatever signals come meanwhile.
fn lock(file: &File) -> Result<(), Error> {
    loop {
        match file.lock() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            locked => return Ok(locked?),
        }
    }
}

/// The write lock, taken; dropping it lets go.
pub(crate) fn locked(files: &Files) -> Result<WriteLock, Error> {
    let lock = WriteLock::open(files)?;
    lock.lock()?;
    Ok(lock)
}

/// Write-ahead logging is a property of the file; a copy made by `backup` lacks it.
pub(crate) fn keep_a_log(connection: &Connection) -> Result<(), Error> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    }
    Ok(())
}

/// Whether there is a database. The file is not opened: closing it would drop every lock that SQLite holds
/// on it in this process.
pub(crate) fn is_store(files: &Files) -> Result<bool, Error> {
    match fs::metadata(files.database()) {
        Ok(meta) if meta.is_file() && meta.len() > 0 => Ok(true),
        Ok(_) => Err(Error::Damaged(format!("{} is empty or no file", files.database().display()))),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// A connection to a store that exists. Its schema is checked by whoever uses it.
pub(crate) fn connect(files: &Files) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(files.database(), flags)?;
    configure(&connection)?;
    read_files_through(&connection, files)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), Error> {
    connection.busy_timeout(BUSY)?;
    // A verb that ends must not pay for a checkpoint; the writer makes them by size.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Without it, a statement is prepared anew whenever a bound of a range changes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;"
    ))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Refuses a store that a newer program wrote, and brings an older one forward.
pub(crate) fn check_schema(connection: &mut Connection) -> Result<(), Error> {
    match schema_of(connection)? {
        SCHEMA => Ok(()),
        // Newer schemas only add; whether this program may still write is `min_writer`'s to say.
        newer if newer > SCHEMA => check_min_writer(connection),
        older => migrate(connection, older),
    }
}

pub(crate) fn schema_of(connection: &Connection) -> Result<u32, Error> {
    let found = match meta(connection, "schema") {
        Err(Error::Internal(why)) => {
            return Err(Error::Damaged(format!("it is not a ctx store: {why}")));
        }
        found => found?,
    };
    found
        .and_then(|schema| schema.parse().ok())
        .ok_or_else(|| Error::Damaged("its schema version cannot be read".to_owned()))
}

/// A value of `meta`.
pub(crate) fn meta(connection: &Connection, key: &str) -> Result<Option<String>, Error> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

/// Schema and data move in one transaction.
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
            "after the migration, rows of {table} point at nothing; the store is as it was"
        )));
    }
    for key in ["schema", "min_writer"] {
        transaction
            .execute("UPDATE meta SET value = ?2 WHERE key = ?1", (key, SCHEMA.to_string()))?;
    }
    transaction.commit()?;
    Ok(())
}

/// In every write transaction: a program that became too old meanwhile must not write.
pub(crate) fn check_min_writer(connection: &Connection) -> Result<(), Error> {
    let least =
        meta(connection, "min_writer")?.and_then(|least| least.parse().ok()).unwrap_or(u32::MAX);
    if least > SCHEMA { Err(Error::TooNew { found: least, known: SCHEMA }) } else { Ok(()) }
}

/// SQLite's locks, and flock, do not hold between machines.
pub(crate) fn refuse_network_disk(path: &Path) -> Result<(), Error> {
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
