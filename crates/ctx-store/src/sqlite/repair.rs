//! Put right what is derived: the indexes, what sessions and tasks point at, the counters, the refs.
//!
//! Only what another record still proves is derived again. A record that is itself lost stays a finding:
//! the pointer to it is the last evidence that it existed.

use std::collections::HashMap;

use ctx_core::task::Task;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::Error;

use super::Reader;
use super::behind::Side;
use super::open::{Files, check_min_writer, write_lock};
use super::rows;
use super::verify::newest_step;

pub(super) fn repair(reader: &mut Reader, files: &Files) -> Result<Vec<String>, Error> {
    let lock = write_lock(files)?;
    lock.lock()?;
    check_min_writer(&reader.main)?;
    Side::current(&mut reader.side, files, &reader.main)?.empty(&reader.main)?;
    let mut repaired = vec!["the indexes are filled anew".to_owned()];
    let tx = reader.main.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
    let Ok(Some((head, steps, step))) = newest_step(tx, row) else { return Ok(()) };
    let task: Option<Task> = rows::task_by_row(tx, row).ok().flatten();
    let fits = |task: &Task| task.head == head && task.steps == steps && task.state == step.state;
    // A task whose newest step is gone cannot be read; what its row says is the evidence.
    if task.is_none_or(|task| fits(&task)) {
        return Ok(());
    }
    let state = serde_json::to_string(&step.state).map_err(|e| Error::Internal(e.to_string()))?;
    tx.execute(
        "UPDATE tasks SET head = (SELECT id FROM steps WHERE task = ?1 AND seq = ?2), steps = ?2, state = ?3 WHERE row = ?1",
        params![row, steps, state],
    )?;
    repaired.push(format!("newest step, count and state of task {row}"));
    Ok(())
}

/// HEAD and STAGE; refs that a newer program knows are left alone.
fn put_refs_right(tx: &Connection, repaired: &mut Vec<String>) -> Result<(), Error> {
    let now = refs_in(tx, "SELECT name, target FROM refs WHERE name GLOB 'HEAD:*' OR name GLOB 'STAGE:*'")?;
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
