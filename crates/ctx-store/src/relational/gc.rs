//! Deletes blobs that nothing refers to.
//!
//! References are read and blobs deleted in one write transaction, in which no new reference can
//! appear. The grace period covers writers that looked a blob up before it.

use std::collections::HashSet;

use ctx_core::id::BlobId;
use ctx_core::message::Part;
use ctx_core::time::{Span, Timestamp};

use crate::driver::{Db, Place, Table, Tx, args, limit_arg};
use crate::{Error, GcReport};

use super::from_json;

/// Blobs that one transaction deletes at most.
pub(crate) const DELETE_MAX: usize = 10_000;

/// Deletes at most [`DELETE_MAX`] blobs older than `grace`.
pub(crate) fn collect(tx: &mut dyn Tx, now: Timestamp, grace: Span) -> Result<GcReport, Error> {
    let unused = unreferenced(tx, now.0.saturating_sub_unsigned(grace.0))?;
    let mut report = GcReport { blobs_removed: unused.len() as u64, ..GcReport::default() };
    for (blob, place) in unused {
        report.bytes_removed += place.len.unsigned_abs();
        tx.execute("DELETE FROM blobs WHERE id = ?1", args![blob])?;
        tx.erase(&place, now)?;
    }
    let db: &dyn Db = tx;
    report.blobs_kept = db.int("SELECT COUNT(*) FROM blobs", args![])?.unwrap_or(0).unsigned_abs();
    Ok(report)
}

fn unreferenced(db: &dyn Db, older_than: i64) -> Result<Vec<(i64, Place)>, Error> {
    let used = referenced(db)?;
    let mut unused = Vec::new();
    let mut after = 0;
    loop {
        let page = db.rows(
            "SELECT id, seg, off, len, packing, size FROM blobs
             WHERE id > ?1 AND created_at < ?2 AND seg IS NOT NULL ORDER BY id LIMIT ?3",
            args![after, older_than, limit_arg(DELETE_MAX)],
            |row| Ok((row.get::<i64>(0)?, row.place(1)?)),
        )?;
        let Some((last, _)) = page.last() else { return Ok(unused) };
        after = *last;
        for (blob, place) in page {
            if let Some(place) = place.filter(|_| !used.contains(&blob)) {
                unused.push((blob, place));
            }
            if unused.len() == DELETE_MAX {
                return Ok(unused);
            }
        }
    }
}

/// Rows of the blobs that turns, steps and queued messages refer to.
fn referenced(db: &dyn Db) -> Result<HashSet<i64>, Error> {
    let mut used = HashSet::new();
    for sql in [
        "SELECT blobs FROM turns WHERE blobs IS NOT NULL",
        "SELECT blobs FROM steps WHERE blobs IS NOT NULL",
    ] {
        db.query(sql, args![], &mut |row| {
            used.extend(from_json::<Vec<i64>>("a list of blobs", row.get(0)?)?);
            Ok(())
        })?;
    }
    let mut queued: Vec<BlobId> = Vec::new();
    db.query("SELECT content FROM inbox", args![], &mut |row| {
        let content: Vec<Part> = from_json("a queued message", row.get(0)?)?;
        queued.extend(content.iter().filter_map(Part::blob));
        Ok(())
    })?;
    for blob in queued {
        used.extend(db.locate_one(Table::Blobs, blob.0)?);
    }
    Ok(used)
}
