//! Copies a store into another one, whatever databases the two use.
//!
//! The source is read in one snapshot, beside running writers. The target is written in one
//! transaction: after a failure or a crash it has either all or nothing of the copy. Two threads
//! work at the same time: one reads batches of rows, the other writes them.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::driver::{Db, Lock, Snapshot, Tx};
use crate::relational::copy_rows::{self, Batch};
use crate::relational::copy_writer::Copy;
use crate::{CopyReport, Error, Progress, Store, schema};

/// Batches that are read ahead of the writer.
const BATCHES_AHEAD: usize = 4;
/// How long the writer waits for a batch before it sends a statement, so that a server does not end
/// the transaction as idle.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// What the reader sends.
enum Part {
    /// Number of rows of each table, before everything else.
    Counts(Vec<u64>),
    Rows(Batch),
    /// Everything was sent.
    End,
}

/// Copies everything of a store into another one: ids, numbers of events, and objects with their
/// hashes stay the same. Leases, search indexes and the conversations of agents are not copied. A
/// run that is open in the source is ended in the target like that of a process that has died.
///
/// The target must be empty, unless `merge` is set. Then what it has stays as it is, and what it
/// lacks is added: whole sessions by their ids, everything else by its key. A session whose label
/// is in use gets another one.
///
/// # Errors
/// If one of the stores fails, or the target is not empty. The target is unchanged then.
pub async fn copy(
    from: &Store,
    to: &Store,
    merge: bool,
    progress: Progress<'_>,
) -> Result<CopyReport, Error> {
    let (parts, received) = sync_channel(BATCHES_AHEAD);
    let (known, known_received) = sync_channel(1);
    let (reports, mut reported) = mpsc::unbounded_channel();
    // Neither can be repeated alone: the other one would not begin again with it.
    let (reader, writer) = (Once::new((parts, known_received)), Once::new((received, known)));
    let read = from.read_snapshot(Snapshot::Long, move |db| {
        let (parts, known) = reader.take()?;
        read(db, &parts, &known)
    });
    let write = to.transact(Lock::Purge, move |tx| {
        let (parts, known) = writer.take()?;
        let report = |done, total| {
            let _ = reports.send((done, total));
        };
        write(tx, merge, &parts, &known, &report)
    });
    let both = async { tokio::join!(read, write) };
    tokio::pin!(both);
    let (read, written) = loop {
        tokio::select! {
            Some((done, total)) = reported.recv() => progress(done, total),
            done = &mut both => break done,
        }
    };
    match (read, written) {
        (Err(error), Err(_)) if !is_stopped(&error) => Err(error),
        (_, written) => written,
    }
}

/// The reader's error after the writer has stopped.
const STOPPED: &str = "the writer of the copy has stopped";

fn is_stopped(error: &Error) -> bool {
    matches!(error, Error::Internal(why) if why == STOPPED)
}

/// A value that is taken once.
struct Once<T>(Mutex<Option<T>>);

impl<T> Once<T> {
    const fn new(value: T) -> Self {
        Self(Mutex::new(Some(value)))
    }

    fn take(&self) -> Result<T, Error> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| {
            let why = "the connection was lost, or another process was in the way";
            Error::Unavailable(format!("{why}; nothing was copied"))
        })
    }
}

fn read(
    db: &dyn Db,
    parts: &SyncSender<Part>,
    known: &Receiver<HashSet<String>>,
) -> Result<(), Error> {
    let stopped = || Error::Internal(STOPPED.to_owned());
    let send = |part| parts.send(part).map_err(|_| stopped());
    send(Part::Counts(copy_rows::counts(db)?))?;
    let known = known.recv().map_err(|_| stopped())?;
    copy_rows::read(db, &known, &mut |batch| send(Part::Rows(batch)))?;
    send(Part::End)
}

fn write(
    tx: &mut dyn Tx,
    merge: bool,
    parts: &Receiver<Part>,
    known: &SyncSender<HashSet<String>>,
    report: &dyn Fn(u64, u64),
) -> Result<CopyReport, Error> {
    let mut copy = Copy::begin(tx, merge)?;
    let _ = known.send(copy.known_sessions());
    let (mut counts, mut done) = (Vec::new(), 0);
    loop {
        match parts.recv_timeout(IDLE_MAX) {
            Ok(Part::Counts(all)) => counts = all,
            Ok(Part::Rows(batch)) => {
                done += copy.write(tx, batch)?;
                report(done, counts.iter().sum());
            }
            Ok(Part::End) => break,
            Err(RecvTimeoutError::Timeout) => drop(schema::stored(tx)?),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Unavailable(
                    "the source could not be read; nothing was copied".to_owned(),
                ));
            }
        }
    }
    let finished = copy.finish(tx, &counts)?;
    report(counts.iter().sum(), counts.iter().sum());
    Ok(finished)
}
