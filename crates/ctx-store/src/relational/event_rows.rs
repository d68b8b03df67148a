//! Rows of `events`: the feed of one session and of all sessions.
//!
//! One row holds the events of one write as a JSON list. A turn that was stored with them is
//! recorded by its row number, a tenth of its hash. The rows of a session are linked newest to
//! oldest (`sessions.last_event`, `events.prev`), so that no index is written with each event.

use ctx_core::decide::Event;
use ctx_core::id::{SessionId, TurnId};
use serde_json::Value;

use crate::driver::{Db, Row, Tx, args, limit_arg};
use crate::{Error, FeedEvent, FeedQuery};

use super::{from_id, from_json, to_json, turn_rows};

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
    let mut at = db.int("SELECT last_event FROM sessions WHERE id = ?1", args![&id])?;
    let mut rows = Vec::new();
    while let Some(row) = at {
        let link: Option<(Option<i64>, u64)> =
            db.row("SELECT prev, seq FROM events WHERE id = ?1", args![row], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let (prev, seq) =
            link.ok_or_else(|| Error::Damaged(format!("event row {row} is missing")))?;
        if seq <= after {
            break;
        }
        rows.push(row);
        at = prev;
    }
    let mut events = Vec::new();
    for row in rows.into_iter().rev() {
        db.query(
            "SELECT id, ?2, seq, at, events FROM events WHERE id = ?1",
            args![row, &id],
            &mut |row| unfold(db, row, &mut events),
        )?;
        if events.len() >= limit {
            break;
        }
    }
    events.retain(|event| event.seq > after);
    Ok(events)
}

fn of_all(db: &dyn Db, after: i64, limit: usize) -> Result<Vec<FeedEvent>, Error> {
    let mut events = Vec::new();
    db.query(
        "SELECT e.id, COALESCE(s.id, d.id), e.seq, e.at, e.events FROM events e
         LEFT JOIN sessions s ON s.row = e.session LEFT JOIN deleted_sessions d ON d.row = e.session
         WHERE e.id > ?1 ORDER BY e.id LIMIT ?2",
        args![after, limit_arg(limit)],
        &mut |row| unfold(db, row, &mut events),
    )?;
    Ok(events)
}

/// The newest row: the cursor of a reader of all sessions that starts now.
pub(crate) fn newest(db: &dyn Db) -> Result<i64, Error> {
    Ok(db.int("SELECT MAX(id) FROM events", args![])?.unwrap_or(0))
}

fn unfold(db: &dyn Db, row: Row<'_>, events: &mut Vec<FeedEvent>) -> Result<(), Error> {
    let (id, seq): (i64, u64) = (row.get(0)?, row.get(2)?);
    let session = row
        .get::<Option<&str>>(1)?
        .ok_or_else(|| Error::Damaged(format!("event row {id} has no session")))?;
    let session = from_id("a session's id", session)?;
    let mut stored: Vec<Value> = from_json("an event", row.get(4)?)?;
    stored.iter_mut().try_for_each(|event| name_turn(db, event))?;
    let first = (seq + 1).saturating_sub(stored.len() as u64);
    let at = row.get(3)?;
    let event = |(n, event): (usize, Value)| FeedEvent {
        row: id,
        session,
        seq: first + n as u64,
        at,
        event: Event::from_json(event),
    };
    events.extend(stored.into_iter().enumerate().map(event));
    Ok(())
}

/// Replaces the row number of a turn by its id; null if the turn was deleted.
fn name_turn(db: &dyn Db, event: &mut Value) -> Result<(), Error> {
    if let Some(turn) = event.get_mut("turn")
        && let Some(row) = turn.as_i64()
    {
        let id = turn_rows::id_at(db, row)?;
        *turn = id.map_or(Value::Null, |id| Value::String(id.to_string()));
    }
    Ok(())
}

/// Inserts the events of one write and returns their row.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    session: i64,
    prev: Option<i64>,
    seq: u64,
    at: ctx_core::time::Timestamp,
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
