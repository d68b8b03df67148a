//! Lists of sessions, their tasks, their moves, their trees: bounded pages by index.

use ctx_core::id::{NodeId, SessionId, TaskId, TurnId};
use ctx_core::session::Session;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Error, HeadMove, Hidden, PAGE_MAX, SessionQuery, TreeTurn};

use super::rows::{self, SessionRow};

pub(crate) fn sessions(
    connection: &Connection,
    query: &SessionQuery,
) -> Result<Vec<Session>, Error> {
    Ok(session_rows(connection, query)?.into_iter().map(|found| found.session).collect())
}

pub(crate) fn session_rows(
    connection: &Connection,
    query: &SessionQuery,
) -> Result<Vec<SessionRow>, Error> {
    let statuses =
        serde_json::to_string(&query.statuses).map_err(|e| Error::Internal(e.to_string()))?;
    let (at, after) = match &query.after {
        Some((at, id)) => (at.0, row_of(connection, *id)?.unwrap_or(i64::MAX)),
        None => (i64::MAX, i64::MAX),
    };
    let words = query.words.as_ref().map(|words| format!("%{}%", escaped(words)));
    let sql = format!(
        "SELECT {} WHERE (s.last_activity_at, s.row) < (?1, ?2)
           AND (?3 = '[]' OR s.status IN (SELECT value FROM json_each(?3)))
           AND (?4 IS NULL OR s.project = ?4) AND (?5 IS NULL OR s.parent_session_label = ?5)
           AND (?6 IS NULL OR s.label LIKE ?6 ESCAPE '\\' OR s.title LIKE ?6 ESCAPE '\\' OR s.project LIKE ?6 ESCAPE '\\')
           AND (NOT ?7 OR s.state = 'suspended' OR s.pending_prompt IS NOT NULL
                OR (SELECT t.state ->> 'name' FROM tasks t WHERE t.row = s.task) IN ('awaiting_user', 'pending_complete'))
         ORDER BY s.last_activity_at DESC, s.row DESC LIMIT ?8",
        rows::SESSION_COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let limit = query.limit.min(PAGE_MAX + 1) as i64;
    let mut found = statement.query(params![
        at,
        after,
        statuses,
        query.project,
        query.parent,
        words,
        query.waiting,
        limit
    ])?;
    let mut sessions = Vec::new();
    while let Some(row) = found.next()? {
        sessions.push(rows::session(row)?);
    }
    Ok(sessions)
}

fn escaped(words: &str) -> String {
    words.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn row_of(connection: &Connection, session: SessionId) -> Result<Option<i64>, Error> {
    let mut statement = connection.prepare_cached("SELECT row FROM sessions WHERE id = ?1")?;
    Ok(statement.query_row([session.to_string()], |row| row.get(0)).optional()?)
}

pub(crate) fn known_row(connection: &Connection, session: SessionId) -> Result<i64, Error> {
    row_of(connection, session)?
        .ok_or_else(|| Error::NotFound { what: "session", name: session.to_string() })
}

pub(crate) fn hidden(connection: &Connection) -> Result<Hidden, Error> {
    let sql = "SELECT COALESCE(SUM(status = 'archived'), 0), COALESCE(SUM(status = 'error'), 0) FROM sessions";
    Ok(connection
        .prepare_cached(sql)?
        .query_row([], |row| Ok(Hidden { archived: row.get(0)?, error: row.get(1)? }))?)
}

fn ids(
    connection: &Connection,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<SessionId>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let ids = statement.query_map(values, |row| row.get::<_, String>(0))?;
    ids.map(|id| id?.parse().map_err(|e| Error::Damaged(format!("a session's id: {e}")))).collect()
}

/// Sessions with something to deliver or to tell, and those whose owner is dead.
pub(crate) fn unattended(
    connection: &Connection,
    dead: &[NodeId],
    limit: usize,
) -> Result<Vec<SessionId>, Error> {
    let dead = serde_json::to_string(dead).map_err(|e| Error::Internal(e.to_string()))?;
    let sql = "SELECT id FROM sessions WHERE owner IN (SELECT value FROM json_each(?1))
               UNION
               SELECT s.id FROM inbox i JOIN sessions s ON s.row = i.session
               WHERE i.state IN ('waiting', 'held') AND s.state = 'idle' AND s.delivery = 'open' AND s.pending_prompt IS NULL
                 AND s.status IN ('active', 'suspended')
               UNION
               SELECT id FROM sessions WHERE untold <> 0 AND state = 'idle'
               LIMIT ?2";
    ids(connection, sql, &[&dead, &(limit.min(PAGE_MAX) as i64)])
}

pub(crate) fn idle_sessions(
    connection: &Connection,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<SessionId>, Error> {
    let sql = "SELECT s.id FROM sessions s WHERE s.last_activity_at < ?1 AND s.status IN ('active', 'suspended') AND s.state = 'idle'
               AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session = s.row AND i.state IN ('waiting', 'held')) LIMIT ?2";
    ids(connection, sql, &[&since.0, &(limit.min(PAGE_MAX) as i64)])
}

pub(crate) fn tasks(
    connection: &Connection,
    session: SessionId,
    before: Option<TaskId>,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let row = known_row(connection, session)?;
    let before = match before {
        None => i64::MAX,
        Some(task) => {
            let mut statement = connection
                .prepare_cached("SELECT row FROM tasks WHERE id = ?1 AND session = ?2")?;
            let found =
                statement.query_row(params![task.to_string(), row], |row| row.get(0)).optional()?;
            found.ok_or_else(|| Error::NotFound { what: "task", name: task.to_string() })?
        }
    };
    let mut statement = connection.prepare_cached(
        "SELECT row FROM tasks WHERE session = ?1 AND row < ?2 ORDER BY row DESC LIMIT ?3",
    )?;
    let found = statement
        .query_map(params![row, before, limit.min(PAGE_MAX + 1) as i64], |row| {
            row.get::<_, i64>(0)
        })?;
    let rows = found.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter().filter_map(|row| rows::task_by_row(connection, row).transpose()).collect()
}

pub(crate) fn head_moves(
    connection: &Connection,
    session: SessionId,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<HeadMove>, Error> {
    let row = known_row(connection, session)?;
    let mut statement = connection.prepare_cached(
        "SELECT h.id, t.hash, h.changed_at FROM session_history h LEFT JOIN turns t ON t.id = h.turn WHERE h.session = ?1 AND h.id < ?2
         ORDER BY h.id DESC LIMIT ?3",
    )?;
    let mut found = statement.query(params![
        row,
        before.unwrap_or(i64::MAX),
        limit.min(PAGE_MAX + 1) as i64
    ])?;
    let mut moves = Vec::new();
    while let Some(row) = found.next()? {
        let turn: Option<Vec<u8>> = row.get(1)?;
        moves.push(HeadMove {
            row: row.get(0)?,
            turn: turn.map(rows::hash).transpose()?.map(TurnId),
            at: Timestamp(row.get(2)?),
        });
    }
    Ok(moves)
}

/// Every turn under the root that a session's head, or a head it once had, descends from.
pub(crate) fn tree(
    connection: &Connection,
    session: SessionId,
    limit: usize,
) -> Result<Vec<TreeTurn>, Error> {
    let row = known_row(connection, session)?;
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE
           up(id, parent) AS (
             SELECT t.id, t.parent FROM turns t WHERE t.id IN (SELECT turn FROM session_history WHERE session = ?1)
             UNION SELECT t.id, t.parent FROM turns t JOIN up ON t.id = up.parent),
           down(id) AS (
             SELECT id FROM up WHERE parent IS NULL
             UNION SELECT t.id FROM turns t JOIN down ON t.parent = down.id)
         SELECT t.hash, p.hash, t.depth,
                (SELECT json_group_array(s.label) FROM sessions s WHERE s.head = t.id)
         FROM down JOIN turns t ON t.id = down.id LEFT JOIN turns p ON p.id = t.parent ORDER BY t.id LIMIT ?2",
    )?;
    let mut found = statement.query(params![row, limit.min(PAGE_MAX * 10) as i64])?;
    let mut turns = Vec::new();
    while let Some(row) = found.next()? {
        let parent: Option<Vec<u8>> = row.get(1)?;
        turns.push(TreeTurn {
            id: TurnId(rows::hash(row.get(0)?)?),
            parent: parent.map(rows::hash).transpose()?.map(TurnId),
            depth: row.get(2)?,
            heads: rows::json("the labels of heads", &row.get::<_, String>(3)?)?,
        });
    }
    Ok(turns)
}
