//! Remove blobs that nothing refers to. Everything else that is stored stays.
//!
//! A blob shares its segment with what was stored beside it, so removing one closes the gap and moves its
//! neighbours. All of it is decided and done inside one write transaction, where nobody can begin to
//! refer to a blob that is going; the grace covers writers that looked before.

use std::collections::BTreeMap;

use ctx_core::time::{Span, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::{Error, GcReport};

use super::hashes::Table;
use super::open::{Files, check_min_writer, locked};

/// The most blobs one transaction removes.
const REMOVE_MAX: i64 = 10_000;

/// Something whose body goes.
pub(crate) struct Dead {
    pub(crate) id: i64,
    pub(crate) seg: i64,
    pub(crate) off: i64,
    pub(crate) len: i64,
}

/// Removes all there is to remove, in transactions that do not keep other writers waiting for long.
pub(crate) fn gc(connection: &mut Connection, files: &Files, now: Timestamp, grace: Span) -> Result<GcReport, Error> {
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

fn remove_some(connection: &mut Connection, files: &Files, now: Timestamp, grace: Span) -> Result<GcReport, Error> {
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    let dead = unreferenced(&tx, now.0.saturating_sub_unsigned(grace.0))?;
    let mut report = GcReport { blobs_removed: dead.len() as u64, ..GcReport::default() };
    let mut by_segment: BTreeMap<i64, Vec<Dead>> = BTreeMap::new();
    for blob in dead {
        report.bytes_removed += blob.len.unsigned_abs();
        tx.prepare_cached("DELETE FROM blobs WHERE id = ?1")?.execute([blob.id])?;
        by_segment.entry(blob.seg).or_default().push(blob);
    }
    close_gaps(&tx, by_segment)?;
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

/// Closes the gaps that removed bodies leave in their segments, and moves their neighbours.
pub(crate) fn close_gaps(tx: &Connection, by_segment: BTreeMap<i64, Vec<Dead>>) -> Result<(), Error> {
    if by_segment.is_empty() {
        return Ok(());
    }
    tx.execute_batch("CREATE TEMP TABLE gaps (seg INTEGER, off INTEGER, len INTEGER)")?;
    for (seg, mut gaps) in by_segment {
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.off));
        let mut data: Vec<u8> = tx.prepare_cached("SELECT data FROM bodies WHERE id = ?1")?.query_row([seg], |row| row.get(0))?;
        for gap in &gaps {
            let range = usize::try_from(gap.off).ok().zip(usize::try_from(gap.off + gap.len).ok()).filter(|(_, end)| *end <= data.len());
            let (start, end) = range.ok_or_else(|| Error::Damaged(format!("segment {seg} is shorter than what lies in it")))?;
            data.drain(start..end);
            tx.prepare_cached("INSERT INTO temp.gaps VALUES (?1, ?2, ?3)")?.execute(params![seg, gap.off, gap.len])?;
        }
        if data.is_empty() {
            tx.prepare_cached("DELETE FROM bodies WHERE id = ?1")?.execute([seg])?;
        } else {
            tx.prepare_cached("UPDATE bodies SET data = ?2 WHERE id = ?1")?.execute(params![seg, data])?;
        }
    }
    for table in Table::ALL {
        tx.execute(
            &format!(
                "UPDATE {0} SET off = off - (SELECT COALESCE(SUM(g.len), 0) FROM temp.gaps g WHERE g.seg = {0}.seg AND g.off < {0}.off)
                 WHERE seg IN (SELECT seg FROM temp.gaps)",
                table.name()
            ),
            [],
        )?;
    }
    tx.execute_batch("DROP TABLE temp.gaps")?;
    Ok(())
}
