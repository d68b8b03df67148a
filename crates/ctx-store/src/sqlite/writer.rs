//! The one writer of this process, and how it takes turns with those of others.
//!
//! A group is one `BEGIN IMMEDIATE … COMMIT` under `flock`. Rules run inside it, one after the other, each
//! seeing what the ones before it did. A rule that refuses writes nothing; an error rolls the whole
//! group back, and where one of its writes may be at fault they are then tried singly. Nothing is answered
//! before COMMIT has synced, and nothing that is committed is answered as failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use crate::Error;
use crate::transition::{Applied, Outcome};

use super::apply::apply;
use super::behind::Remembered;
use super::file;
use super::hashes::Tail;
use super::once;
use super::open::{BUSY, Files, WriteLock, check_min_writer, check_schema, connect};
use super::queue::Job;
use super::rows;
use super::segment::{Chunks, End};
use super::transaction::Transaction;

/// A quiet checkpoint after so many pages of log: 4 MB.
const PASSIVE_PAGES: i32 = 1024;
/// A checkpoint that waits for readers and starts the log over: 64 MB.
const RESTART_PAGES: i32 = 16_384;

/// So many writes at once are better off with a file for their bodies…
const CROWD: usize = 8;
/// …if these are large enough to pay for a second sync, and small enough to be held in memory.
const CROWD_BYTES: std::ops::Range<usize> = 64 << 10..16 << 20;

/// What the writer shares with the store.
pub(crate) struct Shared {
    pub(crate) files: Files,
    pub(crate) compress: bool,
    pub(crate) remembered: Mutex<Remembered>,
    /// Told after each group that stored something.
    pub(crate) wake_indexer: Option<SyncSender<()>>,
    /// Told when the log has grown, in a process that stays.
    pub(crate) wake_checkpointer: Option<SyncSender<()>>,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    lock: WriteLock,
    open: Option<Open>,
    /// A sync failed: what is in the log may not be on the disk.
    suspect: bool,
}

/// A connection with what belongs to it; dropped whole after a failed sync.
struct Open {
    connection: Connection,
    tail: Tail,
    /// The file that many writes at once put their bodies into.
    segment: Option<file::Segment>,
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI32>,
    /// So many pages of log until the next checkpoint.
    again_at: i32,
}

impl Writer {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Self, Error> {
        let lock = WriteLock::open(&shared.files)?;
        let mut writer = Self { shared, lock, open: None, suspect: false };
        writer.connection()?;
        Ok(writer)
    }

    fn connection(&mut self) -> Result<&mut Open, Error> {
        if self.open.is_none() {
            let mut connection = connect(&self.shared.files)?;
            check_schema(&mut connection)?;
            if self.suspect {
                empty_log(&connection)?;
                self.suspect = false;
            }
            let pages = Arc::new(AtomicI32::new(0));
            let seen = pages.clone();
            connection.wal_hook(Some(move |_: &mut Wal, n: i32| {
                seen.store(n, Ordering::Relaxed);
                Ok(())
            }))?;
            let tail = Tail::new(self.shared.files.clone());
            self.open =
                Some(Open { connection, tail, segment: None, pages, again_at: PASSIVE_PAGES });
        }
        self.open
            .as_mut()
            .ok_or_else(|| Error::Internal("the writer lost its connection".to_owned()))
    }

    /// Commits a group in one transaction; the outcome of each, in order.
    pub(crate) fn commit(&mut self, group: &[Job]) -> Vec<Result<Outcome, Error>> {
        match self.transaction(group) {
            Ok(outcomes) => outcomes,
            // Somebody in the group broke it; alone, only they fail.
            Err(Error::NotFound { .. } | Error::Internal(_)) if group.len() > 1 => {
                group.iter().map(|job| self.single(job)).collect()
            }
            // The disk or the store failed, for all of them; a sync is never retried.
            Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn single(&mut self, job: &Job) -> Result<Outcome, Error> {
        let mut outcomes = self.transaction(std::slice::from_ref(job))?;
        outcomes
            .pop()
            .unwrap_or_else(|| Err(Error::Internal("a write without an outcome".to_owned())))
    }

    /// Commits a group; the outcome of each, or one error that undid all.
    fn transaction(&mut self, group: &[Job]) -> Result<Vec<Result<Outcome, Error>>, Error> {
        let shared = self.shared.clone();
        self.connection()?;
        self.lock.lock()?;
        let result = match self.open.as_mut() {
            Some(open) => begin_to_commit(open, &shared, group),
            None => Err(Error::Internal("the writer lost its connection".to_owned())),
        };
        if self.lock.unlock().is_err() {
            // Closing the file lets go of the lock; what was committed stays committed.
            if let Ok(fresh) = WriteLock::open(&self.shared.files) {
                self.lock = fresh;
            }
        }
        match result {
            Ok((outcomes, words)) => {
                if !words.is_empty() {
                    self.indexable(words);
                }
                Ok(outcomes)
            }
            Err(error) => {
                self.abandon(&error);
                Err(error)
            }
        }
    }

    fn indexable(&self, words: Words) {
        if let Some(wake) = &self.shared.wake_indexer {
            if let Ok(mut remembered) = self.shared.remembered.lock() {
                remembered.add(words);
            }
            let _ = wake.try_send(());
        }
    }

    /// After an error: roll back; after a failed sync, also let go of the connection. What is in the log
    /// then may or may not be on the disk, so the next connection moves it into the database, which syncs,
    /// before anything is written behind it.
    fn abandon(&mut self, error: &Error) {
        let Some(mut open) = self.open.take() else { return };
        open.tail.forget();
        let rolled_back =
            open.connection.is_autocommit() || open.connection.execute_batch("ROLLBACK").is_ok();
        if rolled_back && !matches!(error, Error::Unavailable(_) | Error::Damaged(_)) {
            self.open = Some(open);
            return;
        }
        self.suspect = true;
    }

    /// Moves the log into the database by size. Failing is no harm: the log holds everything.
    ///
    /// How far a quiet checkpoint has come is known only while some process has the store open. Where each
    /// process does one thing and exits, the log is emptied instead, or every one would move it all again.
    /// A process that stays has a thread for it; this one only steps in when that falls too far behind.
    pub(crate) fn checkpoint(&mut self) {
        let Some(open) = &mut self.open else { return };
        let pages = open.pages.load(Ordering::Relaxed);
        if pages < PASSIVE_PAGES {
            open.again_at = PASSIVE_PAGES;
        }
        if pages < open.again_at {
            return;
        }
        let must = pages >= RESTART_PAGES;
        if let Some(wake) = self.shared.wake_checkpointer.as_ref().filter(|_| !must) {
            open.again_at = pages + PASSIVE_PAGES;
            let _ = wake.try_send(());
            return;
        }
        let mode = if self.shared.wake_checkpointer.is_some() { "RESTART" } else { "TRUNCATE" };
        if self.lock.lock().is_err() {
            return;
        }
        let done = waiting(&open.connection, must, |connection| {
            connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?))
            })
        });
        let _ = self.lock.unlock();
        // Where readers held it up, the next try comes after another 4 MB.
        open.again_at = match done {
            Ok((log, moved)) if log == moved => PASSIVE_PAGES,
            _ => pages + PASSIVE_PAGES,
        };
    }
}

/// Makes way for those who wait for an answer: without it, a thread with much to do keeps them from a processor when their
/// disk is ready, which costs a seventh of what many writers get done.
pub(crate) fn behind_others() {
    const NICE: i32 = 10;
    // Where it is not allowed, all are equal.
    let _ = rustix::process::nice(NICE);
}

/// Moves the log into the database quietly whenever it is told that there is some; it ends with the sender.
pub(crate) fn start_checkpointer(files: Files, wakes: Receiver<()>) -> Result<(), Error> {
    let run = move || {
        behind_others();
        let mut connection = None;
        while wakes.recv().is_ok() {
            wakes.try_iter().count();
            if connection.is_none() {
                connection = connect(&files).ok();
            }
            let moved = connection
                .as_ref()
                .map(|open| open.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
            if !matches!(moved, Some(Ok(()))) {
                connection = None;
            }
        }
    };
    std::thread::Builder::new().name("ctx-checkpoint".to_owned()).spawn(run)?;
    Ok(())
}

/// Moves all of the log into the database, which syncs it, or fails.
fn empty_log(connection: &Connection) -> Result<(), Error> {
    match connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))? {
        0 => Ok(()),
        _ => Err(Error::Unavailable(
            "after a failed sync the log must be moved first, and somebody is reading it"
                .to_owned(),
        )),
    }
}

/// Runs something that waits for readers only if it must.
fn waiting<T>(
    connection: &Connection,
    must: bool,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if must {
        return run(connection);
    }
    connection.busy_timeout(Duration::ZERO)?;
    let result = run(connection);
    connection.busy_timeout(BUSY)?;
    result
}

type Words = Vec<(super::hashes::Table, i64, Arc<[u32]>)>;

fn begin_to_commit(
    open: &mut Open,
    shared: &Shared,
    group: &[Job],
) -> Result<(Vec<Result<Outcome, Error>>, Words), Error> {
    let connection = &open.connection;
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    check_min_writer(connection)?;
    open.tail.begin();
    let end = end_for(&mut open.segment, connection, &shared.files, group)?;
    let mut tx = Transaction::new(connection, end, &mut open.tail, shared.compress);
    let mut outcomes = Vec::with_capacity(group.len());
    for job in group {
        outcomes.push(match run(&mut tx, job) {
            Err(Error::Refused(refusal)) => Err(Error::Refused(refusal)),
            Err(error) => return Err(error),
            decided => decided,
        });
    }
    let Transaction { end, words, .. } = tx;
    let nothing = |outcome: &Outcome| match outcome {
        Outcome::Applied(Applied { batch, .. }) => {
            batch.changes.is_empty() && batch.events.is_empty()
        }
        Outcome::Replayed(_) => true,
    };
    if outcomes.iter().flatten().all(nothing) {
        connection.prepare_cached("ROLLBACK")?.execute([])?;
    } else {
        end.flush(connection)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok((outcomes, words))
}

/// Where the bodies of a group go: many large enough ones into a file.
fn end_for<'a>(
    slot: &'a mut Option<file::Segment>,
    connection: &Connection,
    files: &Files,
    group: &[Job],
) -> Result<End<'a>, Error> {
    let bytes = group.iter().map(Job::bytes).sum();
    if group.len() < CROWD || !CROWD_BYTES.contains(&bytes) {
        return Ok(End::Chunks(Chunks::find(connection)?));
    }
    let claimed = slot
        .take()
        .filter(file::Segment::is_open)
        .or_else(|| file::Segment::claim(files, connection).ok());
    // Where no file can be had, there is still the database.
    let Some(claimed) = claimed else { return Ok(End::Chunks(Chunks::find(connection)?)) };
    let segment = slot.insert(claimed);
    segment.begin(bytes);
    Ok(End::File(segment))
}

fn run(tx: &mut Transaction<'_>, job: &Job) -> Result<Outcome, Error> {
    let key = job.rule.key();
    if let Some(key) = key
        && let Some(answer) = once::seen(tx.connection, key, job.write.now)?
    {
        return Ok(Outcome::Replayed(answer));
    }
    let found = tx.find_session(&job.write.target)?;
    let view = found
        .as_ref()
        .map(|found| rows::view(tx.connection, found, job.write.needs))
        .transpose()?;
    // A rule that panics is a bug; it must not take the writer, and so everybody else's writes, with it.
    let decided = catch_unwind(AssertUnwindSafe(|| job.rule.decide(view.as_ref())));
    let batch = decided.map_err(|_| Error::Internal("a rule failed".to_owned()))??;
    let told = apply(tx, found.as_ref(), &batch, &job.objects, job.write.now)?
        .ok_or_else(|| Error::Internal("a rule accepted a write on no session".to_owned()))?;
    let session = told
        .session
        .parse()
        .map_err(|e| Error::Damaged(format!("session id {:?}: {e}", told.session)))?;
    if let Some(key) = key {
        once::remember(tx.connection, key, &job.rule.answer(session), job.write.now)?;
    }
    Ok(Outcome::Applied(Applied { batch, session, seq: told.seq, feed_row: told.row }))
}
