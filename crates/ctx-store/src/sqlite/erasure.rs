//! Erases bytes of segment files that no row refers to any more.
//!
//! A reader whose snapshot is older than the deletion may still need the bytes. They are therefore
//! kept for [`ERASE_DELAY`], and for as long as any long read is running. Segments in the database
//! do not need this: SQLite gives each reader its own snapshot.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use ctx_core::time::{Span, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::Error;

use super::open::{Files, acquire_write_lock, check_min_writer, lock_file};
use super::segment;

/// In milliseconds. A short read ends within a second.
const ERASE_DELAY: Span = Span(60_000);
/// Most ranges that are erased in one transaction.
const BATCH_MAX: i64 = 1000;

/// Prevents erasure during a long read, until the returned file is dropped. `None` if the lock
/// cannot be acquired; then no process can erase anything either.
pub(crate) fn prevent_erasure(files: &Files) -> Option<File> {
    let file = lock_file(&files.erase_lock()).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

/// Erases the ranges whose delay has passed; `true` if there may be more.
pub(crate) fn erase_due(
    connection: &mut Connection,
    files: &Files,
    now: Timestamp,
) -> Result<bool, Error> {
    let due = due_erasures(connection, now)?;
    if due.is_empty() {
        return Ok(false);
    }
    let erase_lock = lock_file(&files.erase_lock())?;
    if erase_lock.try_lock().is_err() {
        return Ok(false);
    }
    for (_, seg, off, len) in &due {
        match zero_range(files, *seg, *off, *len) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
            _ => {}
        }
    }
    let _lock = acquire_write_lock(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    for (id, ..) in &due {
        tx.prepare_cached("DELETE FROM erasures WHERE id = ?1")?.execute([id])?;
    }
    tx.commit()?;
    Ok(due.len() as i64 == BATCH_MAX)
}

/// Erases all ranges immediately, in a copy that has every segment in the database and no readers.
pub(crate) fn erase_all_in_copy(copy: &mut Connection) -> Result<(), Error> {
    let tx = copy.transaction()?;
    {
        let mut statement = tx.prepare("SELECT seg, off, len FROM erasures")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            segment::zero_chunks(&tx, row.get(0)?, row.get(1)?, row.get(2)?)?;
        }
    }
    tx.execute("DELETE FROM erasures", [])?;
    tx.commit()?;
    Ok(())
}

fn due_erasures(
    connection: &Connection,
    now: Timestamp,
) -> Result<Vec<(i64, i64, u64, u64)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, seg, off, len FROM erasures WHERE erased_at < ?1 ORDER BY id LIMIT ?2",
    )?;
    let before = now.0.saturating_sub_unsigned(ERASE_DELAY.0);
    let due = statement.query_map(params![before, BATCH_MAX], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    Ok(due.collect::<Result<_, _>>()?)
}

/// Punches a hole, or writes zeros if the file system does not support holes.
fn zero_range(files: &Files, seg: i64, off: u64, len: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(files.segment(seg))?;
    let end = file.metadata()?.len().min(off.saturating_add(len));
    if end <= off {
        return Ok(());
    }
    match fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, off, end - off) {
        Err(Errno::OPNOTSUPP) => file.write_all_at(&vec![0; (end - off) as usize], off)?,
        done => done?,
    }
    file.sync_data()
}
