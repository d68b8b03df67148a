//! Put right what is derived: the indexes, what sessions and tasks point at, the counters, the refs.
//!
//! Only what another record still proves is derived again. A record that is itself lost stays a finding:
//! the pointer to it is the last evidence that it existed.

use std::collections::HashMap;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::Error;

use super::Reader;
use super::behind::Side;
use super::open::{Files, check_min_writer, locked};
use super::rows;
use super::verify::told_by_steps;

pub(super) fn repair(reader: &mut Reader, files: &Files) -> Result<Vec<String>, Error> {
    let _lock = locked(files)?;
    let mut repaired = vec!["the indexes are filled anew".to_owned()];
    Side::renew(&mut reader.side, files, &reader.main)?;
    let tx = reader.main.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    for row in rows_of_tasks(&tx)? {
        put_task_right(&tx, row, &mut repaired)?;
    }
    for (what, sql) in SESSIONS {
        match tx.execute(sql, [])? {
            0 => {}
            n => repaired.push(format!("{what} of {n} sessions")),
        }
    }
    put_refs_right(&tx, &mut repaired)?;
    tx.commit()?;
    Ok(repaired)
}

/// What a session's row says, from what else is stored. In this order: each builds on the one before.
const SESSIONS: [(&str, &str); 4] = [
    (
        "the head",
        "UPDATE sessions SET head = (SELECT turn FROM session_history WHERE session = sessions.row ORDER BY id DESC LIMIT 1)
         WHERE head IS NOT (SELECT turn FROM session_history WHERE session = sessions.row ORDER BY id DESC LIMIT 1)
           AND EXISTS (SELECT 1 FROM session_history JOIN turns ON turns.id = turn WHERE session_history.session = sessions.row
                       AND session_history.id = (SELECT MAX(id) FROM session_history WHERE session = sessions.row))",
    ),
    (
        "the number of turns",
        "UPDATE sessions SET turn_count = COALESCE((SELECT depth FROM turns WHERE id = head), 0)
         WHERE turn_count <> COALESCE((SELECT depth FROM turns WHERE id = head), 0)",
    ),
    (
        "the open task",
        "UPDATE sessions SET task = (SELECT MAX(row) FROM tasks WHERE session = sessions.row AND ended_at IS NULL)
         WHERE task IS NOT (SELECT MAX(row) FROM tasks WHERE session = sessions.row AND ended_at IS NULL)",
    ),
    (
        "the newest event",
        "UPDATE sessions SET seq = COALESCE((SELECT seq FROM events WHERE id = last_event), 0)
         WHERE seq <> COALESCE((SELECT seq FROM events WHERE id = last_event), 0)",
    ),
];

fn rows_of_tasks(tx: &Connection) -> Result<Vec<i64>, Error> {
    let mut statement = tx.prepare("SELECT row FROM tasks")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn put_task_right(tx: &Connection, row: i64, repaired: &mut Vec<String>) -> Result<(), Error> {
    let Ok(Some(told)) = told_by_steps(tx, row) else { return Ok(()) };
    // A task that counts steps whose newest is gone has lost them; what its row says is the evidence.
    let lost = "SELECT steps > ?2 AND NOT EXISTS (SELECT 1 FROM steps WHERE id = head) FROM tasks WHERE row = ?1";
    let fits = rows::task_by_row(tx, row).ok().flatten().is_some_and(|task| told.fits(&task));
    if fits || tx.query_row(lost, params![row, told.steps], |row| row.get(0))? {
        return Ok(());
    }
    let json = |e: serde_json::Error| Error::Internal(e.to_string());
    let state = serde_json::to_string(&told.state).map_err(json)?;
    let progress = serde_json::to_string(&told.progress).map_err(json)?;
    tx.execute(
        "UPDATE tasks SET head = (SELECT id FROM steps WHERE task = ?1 AND seq = ?2), steps = ?2, state = ?3, progress = ?4,
             last_activity_at = ?5, description = COALESCE(?6, description) WHERE row = ?1",
        params![row, told.steps, state, progress, told.last_activity_at.0, told.description],
    )?;
    repaired.push(format!("what task {row} says of its steps"));
    Ok(())
}

/// HEAD and STAGE; refs that a newer program knows are left alone.
fn put_refs_right(tx: &Connection, repaired: &mut Vec<String>) -> Result<(), Error> {
    let now = refs_in(
        tx,
        "SELECT name, target FROM refs WHERE name GLOB 'HEAD:*' OR name GLOB 'STAGE:*'",
    )?;
    let mut derived = refs_in(
        tx,
        "SELECT 'STAGE:' || sessions.id, lower(hex(steps.hash)) FROM sessions JOIN tasks ON tasks.row = sessions.task
         JOIN steps ON steps.id = tasks.head",
    )?;
    derived.extend(refs_in(
        tx,
        "SELECT 'HEAD:' || project, lower(hex(hash)) FROM commits WHERE id IN (SELECT MAX(id) FROM commits GROUP BY project)",
    )?);
    if now == derived {
        return Ok(());
    }
    tx.execute("DELETE FROM refs WHERE name GLOB 'HEAD:*' OR name GLOB 'STAGE:*'", [])?;
    for (name, target) in &derived {
        tx.execute("INSERT INTO refs(name, target, moved_at) VALUES (?1, ?2, 0)", [name, target])?;
    }
    repaired.push("refs".to_owned());
    Ok(())
}

fn refs_in(tx: &Connection, sql: &str) -> Result<HashMap<String, String>, Error> {
    let mut statement = tx.prepare(sql)?;
    let refs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(refs.collect::<Result<_, _>>()?)
}
