//! Deletes the turns of deleted sessions, from the newest back to the first that is still needed.

use ctx_core::time::Timestamp;

use crate::Error;
use crate::driver::{Db, Place, Tx, args};

use super::usage_rows;

/// Turns that one transaction deletes at most.
const DELETE_MAX: usize = 1000;

/// Whether there is anything for [`purge`] to do.
pub(crate) fn is_due(db: &dyn Db) -> Result<bool, Error> {
    db.is_true("SELECT EXISTS (SELECT 1 FROM purging)", args![])
}

/// Deletes some turns; `true` if there may be more.
pub(crate) fn purge(tx: &mut dyn Tx, now: Timestamp) -> Result<bool, Error> {
    for _ in 0..DELETE_MAX {
        let db: &dyn Db = tx;
        let Some(turn) = db.int("SELECT turn FROM purging LIMIT 1", args![])? else {
            return Ok(false);
        };
        tx.execute("DELETE FROM purging WHERE turn = ?1", args![turn])?;
        let db: &dyn Db = tx;
        if is_needed(db, turn)? {
            continue;
        }
        let found: Option<(Option<i64>, Option<Place>, i64, String)> = db.row(
            "SELECT parent, seg, off, len, packing, size, session, header FROM turns WHERE id = ?1",
            args![turn],
            |row| Ok((row.get(0)?, row.place(1)?, row.get(6)?, row.get(7)?)),
        )?;
        let Some((parent, place, session, header)) = found else { continue };
        usage_rows::count(tx, session, &header, usage_rows::Turn::Deleted)?;
        tx.execute("DELETE FROM pins WHERE turn = ?1", args![turn])?;
        tx.execute("DELETE FROM compactions WHERE turn_id = ?1", args![turn])?;
        tx.execute("DELETE FROM turns WHERE id = ?1", args![turn])?;
        if let Some(place) = place {
            tx.erase(&place, now)?;
        }
        if let Some(parent) = parent {
            tx.execute(
                "INSERT INTO purging(turn) VALUES (?1) ON CONFLICT DO NOTHING",
                args![parent],
            )?;
        }
    }
    Ok(true)
}

/// Whether a turn has a child, or is or was the head of a session. A session has made every turn of
/// its history that has no child, unless it was forked or imported at that turn.
fn is_needed(db: &dyn Db, turn: i64) -> Result<bool, Error> {
    db.is_true(
        "SELECT EXISTS (SELECT 1 FROM turns WHERE parent = ?1)
             OR EXISTS (SELECT 1 FROM sessions WHERE base = ?1)
             OR EXISTS (SELECT 1 FROM turns JOIN sessions ON sessions.row = turns.session
                        WHERE turns.id = ?1)",
        args![turn],
    )
}
