//! Requests that must be done once, however often they come: their keys and what was answered.

use ctx_core::refusal::Refusal;
use ctx_core::time::{Span, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use crate::{Error, OnceKey};

use super::apply::to_json;
use super::open::{Files, locked};
use super::rows::json;

/// How long a key is remembered.
pub(crate) const KEPT: Span = Span::days(7);

/// What was answered when the key came first.
pub(crate) fn seen(
    connection: &Connection,
    once: &OnceKey,
    now: Timestamp,
) -> Result<Option<Value>, Error> {
    let since = now.0.saturating_sub_unsigned(KEPT.0);
    let mut statement =
        connection.prepare_cached("SELECT request_hash, answer FROM idempotency WHERE scope = ?1 AND key = ?2 AND created_at > ?3")?;
    let found: Option<(Vec<u8>, String)> = statement
        .query_row(params![once.scope, once.key, since], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((hash, answer)) = found else { return Ok(None) };
    if hash != once.request.as_bytes() {
        return Err(Error::Refused(Refusal::IdempotencyMismatch));
    }
    json("an answer", &answer).map(Some)
}

/// Keeps the answer, in the transaction that did what it says.
pub(crate) fn remember(
    connection: &Connection,
    once: &OnceKey,
    answer: &Value,
    now: Timestamp,
) -> Result<(), Error> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO idempotency(scope, key, request_hash, answer, created_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![once.scope, once.key, once.request.as_bytes(), to_json(answer)?, now.0])?;
    Ok(())
}

/// Forgets keys that are too old to come again, and messages that a cap dropped as long ago.
pub(crate) fn forget(connection: &Connection, files: &Files, now: Timestamp) -> Result<(), Error> {
    let before = now.0.saturating_sub_unsigned(KEPT.0);
    for (table, old) in
        [("idempotency", "created_at <= ?1"), ("inbox", "state = 'dropped' AND enqueued_at <= ?1")]
    {
        let any: bool = connection.query_row(
            &format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {old})"),
            [before],
            |row| row.get(0),
        )?;
        if any {
            let _lock = locked(files)?;
            connection.execute(&format!("DELETE FROM {table} WHERE {old}"), [before])?;
        }
    }
    Ok(())
}
