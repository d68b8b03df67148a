//! Rebuilds derived data: what sessions and tasks point to, counters, refs.
//!
//! Only what another record still proves is rebuilt. A lost record stays a finding of `verify`: the
//! pointer to it is the last evidence that it existed.

use std::collections::HashMap;

use crate::Error;
use crate::driver::{Db, Tx, args};

use super::verify::{TaskFromSteps, task_from_steps};
use super::{task_rows, to_json, usage_rows};

/// Repairs what it can, and returns a line for each repair.
pub(crate) fn repair(tx: &mut dyn Tx) -> Result<Vec<String>, Error> {
    let mut repaired = Vec::new();
    let db: &dyn Db = tx;
    for row in db.rows("SELECT row FROM tasks", args![], |row| row.get(0))? {
        repair_task(tx, row, &mut repaired)?;
    }
    for (what, sql) in SESSION_COLUMNS {
        match tx.execute_counted(sql, args![])? {
            0 => {}
            n => repaired.push(format!("{what} of {n} sessions")),
        }
    }
    repair_refs(tx, &mut repaired)?;
    repair_skips(tx, &mut repaired)?;
    // A header that cannot be read is a finding of `verify`; its usage is lost with it.
    let wrong = usage_rows::wrong_days(tx).unwrap_or_default();
    if !wrong.is_empty() {
        usage_rows::rebuild(tx)?;
        repaired.push(format!("the sums of usage of {} days", wrong.len()));
    }
    Ok(repaired)
}

/// Rebuilds the links of turns to ancestors. A link is proven by those of older turns, so one pass
/// may leave some for the next.
fn repair_skips(tx: &mut dyn Tx, repaired: &mut Vec<String>) -> Result<(), Error> {
    let mut links = 0;
    loop {
        let some = tx.execute_counted(
            "UPDATE turns SET skip = (
               SELECT CASE WHEN p.depth + COALESCE(ss.depth, 0) = 2 * COALESCE(s.depth, 0)
                           THEN s.skip ELSE p.id END
               FROM turns p LEFT JOIN turns s ON s.id = p.skip LEFT JOIN turns ss ON ss.id = s.skip
               WHERE p.id = turns.parent)
             WHERE skip IS DISTINCT FROM (
               SELECT CASE WHEN p.depth + COALESCE(ss.depth, 0) = 2 * COALESCE(s.depth, 0)
                           THEN s.skip ELSE p.id END
               FROM turns p LEFT JOIN turns s ON s.id = p.skip LEFT JOIN turns ss ON ss.id = s.skip
               WHERE p.id = turns.parent)",
            args![],
        )?;
        if some == 0 {
            break;
        }
        links += some;
    }
    if links > 0 {
        repaired.push(format!("links of {links} turns to their ancestors"));
    }
    Ok(())
}

/// Columns of `sessions` that other rows prove. Each builds on the one before.
const SESSION_COLUMNS: [(&str, &str); 5] = [
    (
        "the newest move of the head",
        "UPDATE sessions SET last_move = newest.id
         FROM (SELECT session, MAX(id) AS id FROM session_history GROUP BY session) AS newest
         WHERE newest.session = sessions.row AND last_move IS DISTINCT FROM newest.id",
    ),
    (
        "the head",
        "UPDATE sessions SET head = (SELECT turn FROM session_history WHERE id = last_move)
         WHERE head IS DISTINCT FROM (SELECT turn FROM session_history WHERE id = last_move)
           AND EXISTS (SELECT 1 FROM session_history JOIN turns ON turns.id = turn
                       WHERE session_history.id = last_move)",
    ),
    (
        "the number of turns",
        "UPDATE sessions SET turn_count = COALESCE((SELECT depth FROM turns WHERE id = head), 0)
         WHERE turn_count <> COALESCE((SELECT depth FROM turns WHERE id = head), 0)",
    ),
    (
        "the open task",
        "UPDATE sessions SET task =
           (SELECT MAX(row) FROM tasks WHERE session = sessions.row AND ended_at IS NULL)
         WHERE task IS DISTINCT FROM
           (SELECT MAX(row) FROM tasks WHERE session = sessions.row AND ended_at IS NULL)",
    ),
    (
        "the newest event",
        "UPDATE sessions SET seq = COALESCE((SELECT seq FROM events WHERE id = last_event), 0)
         WHERE seq <> COALESCE((SELECT seq FROM events WHERE id = last_event), 0)",
    ),
];

fn repair_task(tx: &mut dyn Tx, row: i64, repaired: &mut Vec<String>) -> Result<(), Error> {
    let db: &dyn Db = tx;
    let Ok(Some(proven)) = task_from_steps(db, row) else { return Ok(()) };
    let fits =
        task_rows::by_row(db, row).ok().flatten().is_some_and(|found| proven.fits(&found.task));
    // A task whose newest steps are gone has lost them; its row is the evidence.
    let lost_steps = db.is_true(
        "SELECT steps > ?2 AND NOT EXISTS (SELECT 1 FROM steps WHERE id = head)
         FROM tasks WHERE row = ?1",
        args![row, proven.steps],
    )?;
    if fits || lost_steps {
        return Ok(());
    }
    let TaskFromSteps { steps, state, progress, last_activity_at, description, .. } = proven;
    tx.execute(
        "UPDATE tasks SET head = (SELECT id FROM steps WHERE task = ?1 AND seq = ?2), steps = ?2,
             state = ?3, progress = ?4, last_activity_at = ?5,
             description = COALESCE(?6, description) WHERE row = ?1",
        args![
            row,
            steps,
            &to_json(&state)?,
            &to_json(&progress)?,
            last_activity_at,
            description.as_ref(),
        ],
    )?;
    repaired.push(format!("the row of task {row}"));
    Ok(())
}

/// HEAD and STAGE. Refs of a newer program are left alone.
fn repair_refs(tx: &mut dyn Tx, repaired: &mut Vec<String>) -> Result<(), Error> {
    let stored =
        refs(tx, "SELECT name, target FROM refs WHERE name LIKE 'HEAD:%' OR name LIKE 'STAGE:%'")?;
    let mut proven = derived_refs(
        tx,
        "SELECT 'STAGE:' || sessions.id, steps.hash FROM sessions
         JOIN tasks ON tasks.row = sessions.task JOIN steps ON steps.id = tasks.head",
    )?;
    proven.extend(derived_refs(
        tx,
        "SELECT 'HEAD:' || project, hash FROM commits
         WHERE id IN (SELECT MAX(id) FROM commits GROUP BY project)",
    )?);
    if stored == proven {
        return Ok(());
    }
    tx.execute("DELETE FROM refs WHERE name LIKE 'HEAD:%' OR name LIKE 'STAGE:%'", args![])?;
    for (name, target) in &proven {
        tx.execute(
            "INSERT INTO refs(name, target, moved_at) VALUES (?1, ?2, 0)",
            args![name, target],
        )?;
    }
    repaired.push("refs".to_owned());
    Ok(())
}

fn refs(db: &dyn Db, sql: &'static str) -> Result<HashMap<String, String>, Error> {
    Ok(db.rows(sql, args![], |row| Ok((row.get(0)?, row.get(1)?)))?.into_iter().collect())
}

fn derived_refs(db: &dyn Db, sql: &'static str) -> Result<HashMap<String, String>, Error> {
    let read = |row: crate::driver::Row<'_>| {
        Ok((row.get(0)?, row.get::<ctx_core::id::ObjectId>(1)?.to_string()))
    };
    Ok(db.rows(sql, args![], read)?.into_iter().collect())
}
