//! Rows of `sessions` that belong to workers: who started them, and what they have reported.

use ctx_core::id::{SessionId, TurnId};
use ctx_core::worker::WorkerState;

use crate::Error;
use crate::driver::{Db, Tx, args};

use super::{from_id, from_name};

/// Records in which turn a worker was started, once there is that turn.
pub(crate) fn link_worker(
    tx: &mut dyn Tx,
    worker: &str,
    manager: &str,
    turn: TurnId,
) -> Result<(), Error> {
    tx.execute(
        "UPDATE sessions SET parent_turn_id = ?3
         WHERE label = ?1 AND parent_session_label = ?2 AND parent_turn_id IS NULL",
        args![worker, manager, &turn.to_string()],
    )?;
    Ok(())
}

/// Records that the manager of a worker has received the report about this head.
pub(crate) fn mark_reported(tx: &mut dyn Tx, worker: SessionId, head: i64) -> Result<(), Error> {
    tx.execute(
        "UPDATE sessions SET unreported = 0 WHERE id = ?1 AND head = ?2",
        args![&worker.to_string(), head],
    )?;
    Ok(())
}

/// The workers of the session with this label that run, will run, have not been reported or wait
/// for an answer, oldest first. A damaged or archived worker does not continue by itself.
pub(crate) fn unfinished_workers(db: &dyn Db, manager: &str) -> Result<Vec<WorkerState>, Error> {
    let workers = db.rows(
        "SELECT s.id, s.label, s.state, h.hash, s.unreported,
                COALESCE(t.state ->> 'name' = 'awaiting_user', FALSE),
                s.status <> 'archived' AND s.delivery = 'open' AND s.pending_prompt IS NULL
                  AND EXISTS (SELECT 1 FROM inbox i WHERE i.session = s.row AND i.state = 'waiting')
         FROM sessions s LEFT JOIN turns h ON h.id = s.head LEFT JOIN tasks t ON t.row = s.task
         WHERE (s.parent_session_label = ?1 OR s.parent_session_label IN
                  (SELECT alias FROM session_aliases WHERE session_label = ?1))
           AND s.origin = 'subagent' AND s.status <> 'error'
           AND (s.status <> 'archived' OR s.unreported <> 0)
           AND (s.state <> 'idle' OR s.unreported <> 0 OR s.task IS NOT NULL
                OR EXISTS (SELECT 1 FROM inbox i WHERE i.session = s.row))
         ORDER BY s.row",
        args![manager],
        |row| {
            Ok(WorkerState {
                id: from_id("a session's id", row.get(0)?)?,
                label: row.get(1)?,
                state: from_name("a session's state", row.get(2)?)?,
                head: row.get::<Option<_>>(3)?.map(TurnId),
                unreported: row.get(4)?,
                awaits_answer: row.get(5)?,
                has_messages: row.get(6)?,
            })
        },
    )?;
    Ok(workers.into_iter().filter(|worker| worker.is_working() || worker.is_asking()).collect())
}
