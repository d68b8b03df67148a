//! Turns of deleted sessions, removed from the newest back to the first that something else still needs.

use std::collections::HashSet;

use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::Error;

use super::erasing::erase_due;
use super::open::{Files, check_min_writer, locked};
use super::segment::erase;

/// The most turns one transaction removes.
const REMOVE_MAX: usize = 1000;

/// Removes some; `true` if there may be more.
pub(crate) fn purge(
    connection: &mut Connection,
    files: &Files,
    now: Timestamp,
) -> Result<bool, Error> {
    let waiting: bool =
        connection.query_row("SELECT EXISTS (SELECT 1 FROM purging)", [], |row| row.get(0))?;
    if !waiting {
        return erase_due(connection, files, now);
    }
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    let needed = still_named(&tx)?;
    let mut removed = 0;
    while removed < REMOVE_MAX {
        let next: Option<i64> = tx
            .prepare_cached("SELECT turn FROM purging LIMIT 1")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let Some(turn) = next else { break };
        tx.prepare_cached("DELETE FROM purging WHERE turn = ?1")?.execute([turn])?;
        removed += 1;
        let has_child: bool = tx
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM turns WHERE parent = ?1)")?
            .query_row([turn], |row| row.get(0))?;
        if has_child || needed.contains(&turn) {
            continue;
        }
        let found: Option<(Option<i64>, Option<i64>, i64, i64)> = tx
            .prepare_cached(
                "SELECT parent, seg, COALESCE(off, 0), COALESCE(len, 0) FROM turns WHERE id = ?1",
            )?
            .query_row([turn], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let Some((parent, seg, off, len)) = found else { continue };
        tx.prepare_cached("DELETE FROM pins WHERE turn = ?1")?.execute([turn])?;
        tx.prepare_cached("DELETE FROM compactions WHERE turn_id = ?1")?.execute([turn])?;
        tx.prepare_cached("DELETE FROM turns WHERE id = ?1")?.execute([turn])?;
        if let Some(seg) = seg {
            erase(&tx, seg, off, len, now)?;
        }
        if let Some(parent) = parent {
            tx.prepare_cached("INSERT OR IGNORE INTO purging(turn) VALUES (?1)")?
                .execute(params![parent])?;
        }
    }
    tx.commit()?;
    Ok(removed == REMOVE_MAX)
}

/// Turns that sessions have or had as their head.
fn still_named(tx: &Connection) -> Result<HashSet<i64>, Error> {
    let mut statement =
        tx.prepare("SELECT turn FROM session_history WHERE turn IS NOT NULL UNION SELECT head FROM sessions WHERE head IS NOT NULL")?;
    let turns = statement.query_map([], |row| row.get(0))?;
    Ok(turns.collect::<Result<_, _>>()?)
}
