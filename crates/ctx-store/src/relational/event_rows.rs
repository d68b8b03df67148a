//! Rows of `events`: the feed of one session and of all sessions.
//!
//! One row holds the events of one write as a JSON list. A turn that was stored with them is
//! recorded by its row number, a tenth of its hash. The rows of a session are linked newest to
//! oldest (`sessions.last_event`, `events.prev`), so that no index is written with each event.

use std::collections::HashMap;

use ctx_core::decide::Event;
use ctx_core::id::{SessionId, TurnId};
use ctx_core::time::Timestamp;
use serde_json::Value;

use crate::driver::{Db, Row, Tx, args, limit_arg};
use crate::{Error, FeedEvent, FeedQuery};

use super::{from_id, from_json, to_json};

/// Rows of a session that are read at a time.
const READ_ROWS: usize = 256;

/// A page of events, oldest first. It ends with a whole row, so it can exceed the limit.
pub(crate) fn list(db: &dyn Db, query: FeedQuery, limit: usize) -> Result<Vec<FeedEvent>, Error> {
    match query {
        FeedQuery::Session { id, after } => of_session(db, id, after, limit),
        FeedQuery::All { after } => of_all(db, after, limit),
    }
}

fn of_session(
    db: &dyn Db,
    session: SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<FeedEvent>, Error> {
    let id = session.to_string();
    // Newest first, up to the first row that is not after.
    let chain = db.rows(
        "WITH RECURSIVE chain(id, prev, seq) AS (
           SELECT e.id, e.prev, e.seq FROM sessions s JOIN events e ON e.id = s.last_event
           WHERE s.id = ?1
           UNION ALL SELECT e.id, e.prev, e.seq FROM chain JOIN events e ON e.id = chain.prev
           WHERE chain.seq > ?2)
         SELECT id, prev, seq FROM chain",
        args![&id, after],
        |row| Ok((row.get::<i64>(0)?, row.get::<Option<i64>>(1)?, row.get::<u64>(2)?)),
    )?;
    let missing = match chain.last() {
        None => db.int("SELECT last_event FROM sessions WHERE id = ?1", args![&id])?,
        Some((_, prev, seq)) => prev.filter(|_| *seq > after),
    };
    if let Some(row) = missing {
        return Err(Error::Damaged(format!("event row {row} is missing")));
    }
    let wanted = chain.iter().rev().filter(|(_, _, seq)| *seq > after);
    let wanted: Vec<i64> = wanted.map(|(row, _, _)| *row).collect();
    let mut events = Vec::new();
    for rows in wanted.chunks(limit.clamp(1, READ_ROWS)) {
        let found = db.rows(
            "SELECT id, ?2, seq, at, events FROM events WHERE id IN LIST(?1) ORDER BY id",
            args![rows, &id],
            stored,
        )?;
        unfold(db, found, &mut events)?;
        if events.len() >= limit {
            break;
        }
    }
    events.retain(|event| event.seq > after);
    Ok(events)
}

fn of_all(db: &dyn Db, after: i64, limit: usize) -> Result<Vec<FeedEvent>, Error> {
    let found = db.rows(
        "SELECT e.id, COALESCE(s.id, d.id), e.seq, e.at, e.events FROM events e
         LEFT JOIN sessions s ON s.row = e.session LEFT JOIN deleted_sessions d ON d.row = e.session
         WHERE e.id > ?1 /*pg AND e.id <= SETTLED*/ ORDER BY e.id LIMIT ?2",
        args![after, limit_arg(limit)],
        stored,
    )?;
    let mut events = Vec::new();
    unfold(db, found, &mut events)?;
    Ok(events)
}

/// The newest row: the cursor of a reader of all sessions that starts now.
pub(crate) fn newest(db: &dyn Db) -> Result<i64, Error> {
    Ok(db.int("SELECT MAX(id) FROM events /*pg WHERE id <= SETTLED*/", args![])?.unwrap_or(0))
}

/// A row, with turns by their row numbers.
struct StoredRow {
    row: i64,
    session: SessionId,
    seq: u64,
    at: Timestamp,
    events: Vec<Value>,
}

fn stored(row: Row<'_>) -> Result<StoredRow, Error> {
    let id: i64 = row.get(0)?;
    let session = row
        .get::<Option<&str>>(1)?
        .ok_or_else(|| Error::Damaged(format!("event row {id} has no session")))?;
    Ok(StoredRow {
        row: id,
        session: from_id("a session's id", session)?,
        seq: row.get(2)?,
        at: row.get(3)?,
        events: from_json("an event", row.get(4)?)?,
    })
}

/// Adds the events of rows. The row number of a turn is replaced by its id; null if it was deleted.
fn unfold(db: &dyn Db, rows: Vec<StoredRow>, events: &mut Vec<FeedEvent>) -> Result<(), Error> {
    let turn_of = |event: &Value| event.get("turn").and_then(Value::as_i64);
    let turns: Vec<i64> = rows.iter().flat_map(|row| &row.events).filter_map(turn_of).collect();
    let mut ids = HashMap::new();
    if !turns.is_empty() {
        let sql = "SELECT id, hash FROM turns WHERE id IN LIST(?1)";
        let found = db.rows(sql, args![&turns], |row| Ok((row.get::<i64>(0)?, row.get(1)?)))?;
        ids.extend(found.into_iter().map(|(row, id)| (row, TurnId(id).to_string())));
    }
    for StoredRow { row, session, seq, at, events: stored } in rows {
        let first = (seq + 1).saturating_sub(stored.len() as u64);
        for (n, mut event) in stored.into_iter().enumerate() {
            if let Some(turn) = turn_of(&event) {
                event["turn"] = ids.get(&turn).map_or(Value::Null, |id| Value::String(id.clone()));
            }
            let event = Event::from_json(event);
            events.push(FeedEvent { row, session, seq: first + n as u64, at, event });
        }
    }
    Ok(())
}

/// Inserts the events of one write and returns their row.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    session: i64,
    prev: Option<i64>,
    seq: u64,
    at: Timestamp,
    events: &[Event],
    stored_turn: Option<(TurnId, i64)>,
) -> Result<i64, Error> {
    tx.insert(
        "INSERT INTO events(session, prev, seq, at, events) VALUES (?1, ?2, ?3, ?4, ?5)",
        args![session, prev, seq, at, &document(events, stored_turn)?],
    )
}

fn document(events: &[Event], stored_turn: Option<(TurnId, i64)>) -> Result<String, Error> {
    let mut text = "[".to_owned();
    for (n, event) in events.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        match (event, stored_turn) {
            (Event::TurnCommitted { turn }, Some((id, row))) if *turn == Some(id) => {
                text.push_str(&format!(r#"{comma}{{"turn":{row},"type":"turn.committed"}}"#));
            }
            _ => text.push_str(&format!("{comma}{}", to_json(event)?)),
        }
    }
    text.push(']');
    Ok(text)
}
