//! Rows of `schedules`: when a schedule was first seen, and its newest tick that is over.

use ctx_core::schedule::ScheduleState;
use ctx_core::time::Timestamp;

use crate::Error;
use crate::driver::{Db, Tx, args};

/// Stores when a schedule was first seen, unless it is known, and returns its state.
pub(crate) fn see(tx: &mut dyn Tx, name: &str, now: Timestamp) -> Result<ScheduleState, Error> {
    let db: &dyn Db = tx;
    let known =
        db.row("SELECT seen_at, last_tick FROM schedules WHERE name = ?1", args![name], |row| {
            Ok(ScheduleState { seen_at: row.get(0)?, last_tick: row.get(1)? })
        })?;
    if let Some(known) = known {
        return Ok(known);
    }
    tx.execute("INSERT INTO schedules(name, seen_at) VALUES (?1, ?2)", args![name, now])?;
    Ok(ScheduleState::new(now))
}

/// Every schedule that was seen, by name.
pub(crate) fn list(db: &dyn Db) -> Result<Vec<(String, ScheduleState)>, Error> {
    db.rows("SELECT name, seen_at, last_tick FROM schedules ORDER BY name", args![], |row| {
        Ok((row.get(0)?, ScheduleState { seen_at: row.get(1)?, last_tick: row.get(2)? }))
    })
}

/// Stores that a tick is over. An older tick changes nothing.
pub(crate) fn set_last_tick(tx: &mut dyn Tx, name: &str, tick: Timestamp) -> Result<(), Error> {
    tx.execute(
        "UPDATE schedules SET last_tick = ?2
         WHERE name = ?1 AND (last_tick IS NULL OR last_tick < ?2)",
        args![name, tick],
    )?;
    Ok(())
}
