//! Bytes in files that no row names any more, made zeros behind.
//!
//! A row that goes may still be seen by somebody whose look began before, so its body stays for a minute, and as long as
//! somebody looks at everything. In the database itself nothing of this is needed: there each look has its own moment.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use ctx_core::time::{Span, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::Error;

use super::open::{Files, check_min_writer, lock_file, locked};
use super::segment;

/// A look ends within a second.
const WAIT: Span = Span(60_000);
/// So many are erased in one transaction.
const ERASE_MAX: i64 = 1000;

/// Keeps what is in files as it is for who looks at everything, until it is dropped. Nothing where no lock can be had:
/// then nobody can erase anything either.
pub(crate) fn hold(files: &Files) -> Option<File> {
    let file = lock_file(&files.erase_lock()).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

/// Erases what has waited long enough; `true` if there may be more.
pub(crate) fn erase_due(
    connection: &mut Connection,
    files: &Files,
    now: Timestamp,
) -> Result<bool, Error> {
    let due = due(connection, now)?;
    if due.is_empty() {
        return Ok(false);
    }
    let looking = lock_file(&files.erase_lock())?;
    if looking.try_lock().is_err() {
        return Ok(false);
    }
    for (_, seg, off, len) in &due {
        match erase(files, *seg, *off, *len) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
            _ => {}
        }
    }
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    for (id, ..) in &due {
        tx.prepare_cached("DELETE FROM erasures WHERE id = ?1")?.execute([id])?;
    }
    tx.commit()?;
    Ok(due.len() as i64 == ERASE_MAX)
}

/// Erases all that is due or will be, where every segment lies in the database and nobody looks.
pub(crate) fn erase_in_copy(copy: &mut Connection) -> Result<(), Error> {
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

fn due(connection: &Connection, now: Timestamp) -> Result<Vec<(i64, i64, u64, u64)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, seg, off, len FROM erasures WHERE erased_at < ?1 ORDER BY id LIMIT ?2",
    )?;
    let before = now.0.saturating_sub_unsigned(WAIT.0);
    let due = statement.query_map(params![before, ERASE_MAX], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    Ok(due.collect::<Result<_, _>>()?)
}

/// Makes a hole; where the file system has none, zeros.
fn erase(files: &Files, seg: i64, off: u64, len: u64) -> io::Result<()> {
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
