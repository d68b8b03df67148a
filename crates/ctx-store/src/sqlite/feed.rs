//! The feed: durable events, read back per session and for all sessions together.

use ctx_core::decide::Event;
use ctx_core::id::{ObjectId, SessionId, TurnId};
use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::{Error, FeedEvent};

use super::apply::to_json;
use super::hashes::{Table, hash_at};
use super::rows::json;

/// The events of a session after `after`, oldest first, at least one whole commit if there is any.
///
/// A session's rows are linked newest to oldest, so that no index is written with each commit; a reader that is far
/// behind walks the links once for each page.
pub(crate) fn of_session(
    connection: &Connection,
    session: SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<FeedEvent>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT last_event FROM sessions WHERE id = ?1")?;
    let mut at: Option<i64> =
        statement.query_row([session.to_string()], |row| row.get(0)).optional()?.flatten();
    let mut link = connection.prepare_cached("SELECT prev, seq FROM events WHERE id = ?1")?;
    let mut rows = Vec::new();
    while let Some(row) = at {
        let (prev, seq): (Option<i64>, u64) =
            link.query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if seq <= after {
            break;
        }
        rows.push(row);
        at = prev;
    }
    let mut events = Vec::new();
    let mut read = connection
        .prepare_cached("SELECT e.id, ?2, e.seq, e.at, e.events FROM events e WHERE e.id = ?1")?;
    for row in rows.into_iter().rev() {
        let mut found = read.query(params![row, session.to_string()])?;
        if let Some(row) = found.next()? {
            unfold(connection, row, &mut events)?;
        }
        if events.len() >= limit {
            break;
        }
    }
    events.retain(|event| event.seq > after);
    Ok(events)
}

/// The events of all sessions in rows after `after`, in the order of their commits.
pub(crate) fn of_all(
    connection: &Connection,
    after: i64,
    limit: usize,
) -> Result<Vec<FeedEvent>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT e.id, COALESCE(s.id, d.id), e.seq, e.at, e.events FROM events e LEFT JOIN sessions s ON s.row = e.session
         LEFT JOIN deleted_sessions d ON d.row = e.session WHERE e.id > ?1 ORDER BY e.id LIMIT ?2",
    )?;
    let mut rows = statement.query(params![after, limit as i64])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        unfold(connection, row, &mut events)?;
    }
    Ok(events)
}

/// The newest row.
pub(crate) fn mark(connection: &Connection) -> Result<i64, Error> {
    Ok(connection
        .prepare_cached("SELECT COALESCE(MAX(id), 0) FROM events")?
        .query_row([], |row| row.get(0))?)
}

fn unfold(
    connection: &Connection,
    row: &Row<'_>,
    events: &mut Vec<FeedEvent>,
) -> Result<(), Error> {
    let (id, session, seq): (i64, Option<String>, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let at = Timestamp(row.get(3)?);
    let session =
        session.ok_or_else(|| Error::Damaged(format!("event row {id} has lost its session")))?;
    let session = session.parse().map_err(|e| Error::Damaged(format!("a session's id: {e}")))?;
    let mut told: Vec<Value> = json("an event", &row.get::<_, String>(4)?)?;
    told.iter_mut().try_for_each(|event| name_turn(connection, event))?;
    let first = (seq + 1).saturating_sub(told.len() as u64);
    let event = |(n, event): (usize, Value)| FeedEvent {
        row: id,
        session,
        seq: first + n as u64,
        at,
        event: Event::from_json(event),
    };
    events.extend(told.into_iter().enumerate().map(event));
    Ok(())
}

/// Events are stored as one document; a turn that was committed with them stands in it by its row, which is a tenth of its name.
pub(crate) fn document(
    events: &[Event],
    committed: Option<(TurnId, i64)>,
) -> Result<String, Error> {
    let mut text = "[".to_owned();
    for (n, event) in events.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        match (event, committed) {
            (Event::TurnCommitted { turn }, Some((id, row))) if *turn == Some(id) => {
                text.push_str(&format!(r#"{comma}{{"turn":{row},"type":"turn.committed"}}"#));
            }
            _ => text.push_str(&format!("{comma}{}", to_json(event)?)),
        }
    }
    text.push(']');
    Ok(text)
}

/// Puts the name of a turn where its row stands; nothing where the turn is gone.
fn name_turn(connection: &Connection, event: &mut Value) -> Result<(), Error> {
    if let Some(turn) = event.get_mut("turn")
        && let Some(row) = turn.as_i64()
    {
        let name = hash_at(connection, Table::Turns, row)?
            .map(|hash| ObjectId::from_bytes(hash).to_string());
        *turn = name.map_or(Value::Null, Value::String);
    }
    Ok(())
}
