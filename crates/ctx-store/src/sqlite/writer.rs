//! The writer of this process: transactions, the lock between processes, checkpoints.
//!
//! A group of writes is one `BEGIN IMMEDIATE … COMMIT` under `flock`. Rules run inside it in order,
//! each seeing the writes before it. A rejected write changes nothing. An error rolls the whole
//! group back; if one of its writes may be the cause, they are run again one by one. No caller gets
//! a result before COMMIT has synced, and no committed write is reported as failed.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use crate::Error;
use crate::transition::Outcome;
use crate::write::{self, PreparedWrite, WriteError, stores_nothing};

use super::Reader;
use super::db::{HashIndex, SqliteDb, SqliteTx};
use super::hash_index::WriterHashIndex;
use super::open::{
    BUSY_TIMEOUT, Files, WriteLock, check_min_writer, check_schema, connect, is_open_in_background,
};
use super::segment::{BodySink, ChunkAppender};
use super::segment_file::SegmentFile;

/// Page cache of the writer. It stays valid as long as no other process writes.
const WRITER_CACHE_KIB: u32 = 4096;
/// Log size in pages after which a process that runs one verb moves the log: 4 MB.
const VERB_PAGES: i32 = 1024;
/// Log size in bytes after which a maintenance transaction moves the log.
const LARGE_LOG_BYTES: u64 = 64 << 20;
/// Log size in pages after which the checkpointer of a long-running process moves the log: 16 MB.
const PASSIVE_PAGES: i32 = 4096;
/// Pages that the writer moves itself after the checkpointer has moved the others. When all are
/// moved, the next transaction begins at the start of the log.
const LAST_PAGES: i32 = 512;
/// Checkpoints that the checkpointer runs in a row until only [`LAST_PAGES`] are left.
const PASSES_MAX: usize = 4;
/// Log size in pages after which a checkpoint waits for readers and restarts the log: 64 MB.
const RESTART_PAGES: i32 = 16_384;

/// Smallest group whose bodies go to a segment file.
const FILE_GROUP_MIN: usize = 8;
/// Total size of bodies for which a segment file pays: large enough for a second sync, small enough
/// to be held in memory.
const FILE_GROUP_BYTES: std::ops::Range<usize> = 64 << 10..16 << 20;

/// State that the writer shares with readers and background threads.
pub(crate) struct Shared {
    pub(crate) files: Files,
    pub(crate) compress: bool,
    /// Wakes the indexer after each group that stored something.
    pub(crate) wake_indexer: Option<SyncSender<()>>,
    /// Wakes the checkpointer of a long-running process.
    pub(crate) wake_checkpointer: Option<SyncSender<()>>,
    pub(crate) log: Arc<LogProgress>,
    /// Connections that no reader uses.
    pub(crate) readers: Mutex<Vec<Reader>>,
}

impl Shared {
    pub(crate) fn take_reader(&self) -> Option<Reader> {
        self.readers.lock().ok()?.pop()
    }
}

/// What the writer and the checkpointer of this process know of the log.
#[derive(Default)]
pub(crate) struct LogProgress {
    /// Pages in the log after the last transaction of this process.
    pages: AtomicI32,
    /// Pages that the checkpointer has moved; 0 after the writer has moved the rest.
    moved: AtomicI32,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    lock: WriteLock,
    open: Option<Open>,
    /// A sync failed: the log may not be on the disk.
    sync_failed: bool,
}

/// A connection and the state that belongs to it. All of it is dropped after a failed sync.
struct Open {
    connection: Connection,
    hash_index: WriterHashIndex,
    segment: Option<SegmentFile>,
    /// Pages in the log at which the next checkpoint runs.
    next_checkpoint: i32,
}

impl Writer {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Self, Error> {
        let lock = WriteLock::open(&shared.files)?;
        let mut writer = Self { shared, lock, open: None, sync_failed: false };
        writer.connect()?;
        Ok(writer)
    }

    fn connect(&mut self) -> Result<(), Error> {
        if self.open.is_some() {
            return Ok(());
        }
        // A verb reads before it writes. Its connection has parsed the schema already.
        let known = if self.sync_failed { None } else { self.shared.take_reader() };
        let mut connection = match known {
            Some(reader) => reader.main,
            None => connect(&self.shared.files)?,
        };
        connection.execute_batch(&format!("PRAGMA cache_size = -{WRITER_CACHE_KIB}"))?;
        check_schema(&mut connection)?;
        if self.sync_failed {
            empty_log(&connection)?;
            self.sync_failed = false;
        }
        let log = self.shared.log.clone();
        connection.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            log.pages.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        let hash_index = WriterHashIndex::new(self.shared.files.clone());
        let next_checkpoint = PASSIVE_PAGES;
        self.open = Some(Open { connection, hash_index, segment: None, next_checkpoint });
        Ok(())
    }

    /// Gives the connection to the readers.
    pub(crate) fn close(self) {
        if let (Some(open), Ok(mut readers)) = (self.open, self.shared.readers.lock()) {
            readers.push(Reader { main: open.connection, search_db: None });
        }
    }

    /// Runs a group in one transaction, and returns the outcome of each write in order.
    pub(crate) fn run_group(&mut self, group: &[&PreparedWrite]) -> Vec<Result<Outcome, Error>> {
        match self.transaction(group) {
            Ok(outcomes) => outcomes,
            // One write caused the failure; run alone, only that one fails.
            Err(Error::NotFound { .. } | Error::Internal(_)) if group.len() > 1 => {
                group.iter().map(|write| self.run_alone(write)).collect()
            }
            // The disk or the database failed for all of them. A sync is never retried.
            Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn run_alone(&mut self, write: &PreparedWrite) -> Result<Outcome, Error> {
        let mut outcomes = self.transaction(&[write])?;
        outcomes
            .pop()
            .unwrap_or_else(|| Err(Error::Internal("a write without an outcome".to_owned())))
    }

    /// The outcome of each write, or one error that rolled all of them back.
    fn transaction(
        &mut self,
        group: &[&PreparedWrite],
    ) -> Result<Vec<Result<Outcome, Error>>, Error> {
        let shared = self.shared.clone();
        self.connect()?;
        self.lock.lock()?;
        let result = match self.open.as_mut() {
            Some(open) => begin_and_commit(open, &shared, group),
            None => Err(Error::Internal("the writer lost its connection".to_owned())),
        };
        if self.lock.unlock().is_err()
            && let Ok(fresh) = WriteLock::open(&self.shared.files)
        {
            // Closing the old file releases the lock.
            self.lock = fresh;
        }
        match result {
            Ok((outcomes, stored)) => {
                if let Some(wake) = self.shared.wake_indexer.as_ref().filter(|_| stored) {
                    let _ = wake.try_send(());
                }
                Ok(outcomes)
            }
            Err(error) => {
                self.roll_back(&error);
                Err(error)
            }
        }
    }

    /// Rolls back. After a failed sync it also drops the connection: the log may or may not be on
    /// the disk, so the next connection moves it into the database and syncs it before writing.
    fn roll_back(&mut self, error: &Error) {
        let Some(mut open) = self.open.take() else { return };
        open.hash_index.reset();
        let rolled_back =
            open.connection.is_autocommit() || open.connection.execute_batch("ROLLBACK").is_ok();
        if rolled_back && !matches!(error, Error::Unavailable(_) | Error::Damaged(_)) {
            self.open = Some(open);
            return;
        }
        self.sync_failed = true;
    }

    /// Moves the log into the database when it has grown. A failure is harmless: the log holds
    /// everything.
    pub(crate) fn checkpoint(&mut self) {
        let pages = self.shared.log.pages.load(Ordering::Relaxed);
        match self.shared.wake_checkpointer.clone() {
            Some(wake) => self.checkpoint_behind_writes(pages, &wake),
            None if pages >= VERB_PAGES => self.checkpoint_of_verb(pages),
            None => {}
        }
    }

    /// The progress of a passive checkpoint is known only while some process has the store open. A
    /// process that runs one verb therefore empties the log; otherwise each verb would move all of
    /// it again. It leaves the log to a long-running process, if there is one and it does so.
    fn checkpoint_of_verb(&self, pages: i32) {
        if pages >= RESTART_PAGES || !is_open_in_background(&self.shared.files) {
            self.run_checkpoint("TRUNCATE", Wait::No);
        }
    }

    /// A thread moves the log behind the writes. It never finishes while writes arrive, so the
    /// writer moves the last pages itself. It waits for readers only if the log has grown too long.
    fn checkpoint_behind_writes(&mut self, pages: i32, wake: &SyncSender<()>) {
        let Some(open) = &mut self.open else { return };
        let moved = self.shared.log.moved.load(Ordering::Relaxed);
        if pages < PASSIVE_PAGES {
            open.next_checkpoint = PASSIVE_PAGES;
        }
        if moved > 0 && (moved..=moved + LAST_PAGES).contains(&pages) {
            self.shared.log.moved.store(0, Ordering::Relaxed);
            self.run_checkpoint("PASSIVE", Wait::No);
        } else if pages >= open.next_checkpoint {
            open.next_checkpoint = pages + PASSIVE_PAGES;
            if pages >= RESTART_PAGES {
                self.run_checkpoint("RESTART", Wait::ForReaders);
            } else {
                let _ = wake.try_send(());
            }
        }
    }

    fn run_checkpoint(&self, mode: &str, wait: Wait) {
        let Some(open) = &self.open else { return };
        if self.lock.lock().is_err() {
            return;
        }
        let _ = with_busy_timeout(&open.connection, wait, |connection| {
            connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
        });
        let _ = self.lock.unlock();
    }
}

/// Whether a checkpoint waits for readers.
#[derive(PartialEq)]
enum Wait {
    No,
    ForReaders,
}

/// Lowers the priority of a background thread. Otherwise it delays the writer after each sync,
/// which costs a seventh of the throughput of many writers.
pub(crate) fn lower_priority() {
    const NICE: i32 = 19;
    // Not permitted everywhere; then all threads are equal.
    let _ = rustix::process::nice(NICE);
}

/// Starts the thread that runs passive checkpoints. It ends when the sender is dropped.
pub(crate) fn start_checkpointer(
    files: Files,
    log: Arc<LogProgress>,
    wakes: Receiver<()>,
) -> Result<(), Error> {
    let run = move || {
        lower_priority();
        let mut connection = None;
        while wakes.recv().is_ok() {
            wakes.try_iter().count();
            if connection.is_none() {
                connection = connect(&files).ok();
            }
            match connection.as_ref().map(|open| move_most_pages(open, &log)) {
                Some(Ok(moved)) => log.moved.store(moved, Ordering::Relaxed),
                Some(Err(_)) | None => connection = None,
            }
        }
    };
    std::thread::Builder::new().name("ctx-checkpoint".to_owned()).spawn(run)?;
    Ok(())
}

/// Moves pages into the database until few are left, and returns how many of the log are moved.
fn move_most_pages(connection: &Connection, log: &LogProgress) -> rusqlite::Result<i32> {
    let mut moved = 0;
    for _ in 0..PASSES_MAX {
        moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))?;
        if log.pages.load(Ordering::Relaxed) - moved <= LAST_PAGES / 2 {
            break;
        }
    }
    Ok(moved)
}

/// Moves the whole log into the database, which syncs it, or fails.
fn empty_log(connection: &Connection) -> Result<(), Error> {
    match connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))? {
        0 => Ok(()),
        _ => Err(Error::Unavailable(
            "a sync failed, and a reader prevents the log from being moved into the database"
                .to_owned(),
        )),
    }
}

/// Moves the log into the database after a large maintenance transaction, if no reader prevents it.
/// The caller has the write lock.
pub(crate) fn empty_large_log(connection: &Connection, files: &Files) {
    let bytes = std::fs::metadata(files.wal()).map_or(0, |meta| meta.len());
    if bytes < LARGE_LOG_BYTES {
        return;
    }
    let _ = with_busy_timeout(connection, Wait::No, |connection| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    });
}

/// Runs a statement with or without waiting for readers.
fn with_busy_timeout<T>(
    connection: &Connection,
    wait: Wait,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if wait == Wait::ForReaders {
        return run(connection);
    }
    connection.busy_timeout(Duration::ZERO)?;
    let result = run(connection);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    result
}

/// The outcome of each write, and whether any of them stored something.
type GroupOutcome = (Vec<Result<Outcome, Error>>, bool);

fn begin_and_commit(
    open: &mut Open,
    shared: &Shared,
    group: &[&PreparedWrite],
) -> Result<GroupOutcome, Error> {
    let connection = &open.connection;
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    check_min_writer(connection)?;
    open.hash_index.begin();
    let sink = body_sink(&mut open.segment, connection, &shared.files, group)?;
    let index = HashIndex::Writer((&mut open.hash_index).into());
    let mut tx = SqliteTx::new(SqliteDb::new(connection, index), sink);
    let mut outcomes = Vec::with_capacity(group.len());
    for write in group {
        outcomes.push(match write::run(&mut tx, write) {
            Ok(outcome) => Ok(outcome),
            Err(WriteError::Rejected(error)) => Err(error),
            Err(WriteError::Failed(error)) => return Err(error),
        });
    }
    if group.iter().zip(&outcomes).all(|(write, outcome)| stores_nothing(write, outcome)) {
        drop(tx);
        connection.prepare_cached("ROLLBACK")?.execute([])?;
        return Ok((outcomes, false));
    }
    tx.flush()?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok((outcomes, true))
}

/// Chooses where the bodies of a group are stored.
fn body_sink<'a>(
    slot: &'a mut Option<SegmentFile>,
    connection: &Connection,
    files: &Files,
    group: &[&PreparedWrite],
) -> Result<BodySink<'a>, Error> {
    let bytes = group.iter().map(|write| write.bytes).sum();
    if group.len() < FILE_GROUP_MIN || !FILE_GROUP_BYTES.contains(&bytes) {
        return Ok(BodySink::Chunks(ChunkAppender::open(connection)?));
    }
    let claimed = slot
        .take()
        .filter(SegmentFile::is_writable)
        .or_else(|| SegmentFile::claim(files, connection).ok());
    // Without a file the bodies go to the database.
    let Some(claimed) = claimed else {
        return Ok(BodySink::Chunks(ChunkAppender::open(connection)?));
    };
    let segment = slot.insert(claimed);
    segment.begin_group(bytes);
    Ok(BodySink::File(segment))
}
