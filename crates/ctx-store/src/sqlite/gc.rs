//! Remove blobs that nothing refers to. Everything else that is stored stays.
//!
//! It is decided and done inside one write transaction, where nobody can begin to refer to a blob that is going; the
//! grace covers writers that looked before.

use ctx_core::time::{Span, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::{Error, GcReport};

use super::erasing::erase_due;
use super::open::{Files, check_min_writer, locked};
use super::segment::erase;

/// The most blobs one transaction removes.
const REMOVE_MAX: i64 = 10_000;

/// A blob that goes.
struct Dead {
    id: i64,
    seg: i64,
    off: i64,
    len: i64,
}

/// Removes all there is to remove, in transactions that do not keep other writers waiting for long.
pub(crate) fn gc(
    connection: &mut Connection,
    files: &Files,
    now: Timestamp,
    grace: Span,
) -> Result<GcReport, Error> {
    while erase_due(connection, files, now)? {}
    let mut all = GcReport::default();
    loop {
        let some = remove_some(connection, files, now, grace)?;
        all.blobs_removed += some.blobs_removed;
        all.bytes_removed += some.bytes_removed;
        all.blobs_kept = some.blobs_kept;
        if some.blobs_removed < REMOVE_MAX.unsigned_abs() {
            return Ok(all);
        }
    }
}

fn remove_some(
    connection: &mut Connection,
    files: &Files,
    now: Timestamp,
    grace: Span,
) -> Result<GcReport, Error> {
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    let dead = unreferenced(&tx, now.0.saturating_sub_unsigned(grace.0))?;
    let mut report = GcReport { blobs_removed: dead.len() as u64, ..GcReport::default() };
    for blob in dead {
        report.bytes_removed += blob.len.unsigned_abs();
        tx.prepare_cached("DELETE FROM blobs WHERE id = ?1")?.execute([blob.id])?;
        erase(&tx, blob.seg, blob.off, blob.len, now)?;
    }
    report.blobs_kept = tx.query_row("SELECT COUNT(*) FROM blobs", [], |row| row.get(0))?;
    tx.commit()?;
    Ok(report)
}

fn unreferenced(tx: &Connection, older_than: i64) -> Result<Vec<Dead>, Error> {
    let mut statement = tx.prepare(
        "WITH used(id) AS (
             SELECT value FROM turns, json_each(turns.blobs) UNION SELECT value FROM steps, json_each(steps.blobs)
             UNION SELECT b.id FROM inbox, json_each(inbox.content) AS part, blobs AS b
                   WHERE part.value ->> '$.blob' IS NOT NULL AND b.hash = unhex(part.value ->> '$.blob'))
         SELECT id, seg, off, len FROM blobs WHERE created_at < ?1 AND seg IS NOT NULL AND id NOT IN (SELECT id FROM used) LIMIT ?2",
    )?;
    let dead = statement.query_map(params![older_than, REMOVE_MAX], |row| {
        Ok(Dead { id: row.get(0)?, seg: row.get(1)?, off: row.get(2)?, len: row.get(3)? })
    })?;
    Ok(dead.collect::<Result<_, _>>()?)
}
