//! Rows of `idempotency`: keys of requests that were done, with their answers.

use ctx_core::refusal::Refusal;
use ctx_core::time::{Span, Timestamp};
use serde_json::Value;

use crate::driver::{Db, Tx, args};
use crate::{Error, OnceKey};

use super::{from_json, to_json};

/// How long a key and its answer are kept.
pub(crate) const RETENTION: Span = Span::days(7);

/// Finds a key. A driver may send it ahead.
pub(crate) static FIND: &str =
    "SELECT request_hash, answer, created_at FROM idempotency WHERE scope = ?1 AND key = ?2";

/// The stored answer of a key, or `None` for a new key.
///
/// # Errors
/// If the key was used for another request.
pub(crate) fn find(db: &dyn Db, key: &OnceKey, now: Timestamp) -> Result<Option<Value>, Error> {
    let max_age = key.max_age.unwrap_or(RETENTION);
    let since = now.0.saturating_sub_unsigned(max_age.0);
    let found = db.row(FIND, args![&key.scope, &key.key], |row| {
        let is_kept = row.get::<i64>(2)? > since;
        let answer = is_kept.then(|| from_json("an idempotent answer", row.get(1)?)).transpose()?;
        Ok(answer.map(|answer| (row.get(0), answer)))
    })?;
    match found.flatten().map(|(request, answer)| Ok::<_, Error>((request?, answer))).transpose()? {
        Some((request, _)) if key.request != request => {
            Err(Error::Refused(Refusal::IdempotencyMismatch))
        }
        found => Ok(found.map(|(_, answer)| answer)),
    }
}

/// Stores the answer of a key, in the transaction that made the changes.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    key: &OnceKey,
    answer: &Value,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO idempotency(scope, key, request_hash, answer, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT(scope, key) DO UPDATE
         SET request_hash = ?3, answer = ?4, created_at = ?5",
        args![&key.scope, &key.key, &key.request, &to_json(answer)?, now],
    )?;
    Ok(())
}

/// Whether there is anything for [`delete_expired`] to delete.
pub(crate) fn has_expired(db: &dyn Db, now: Timestamp) -> Result<bool, Error> {
    db.is_true(
        "SELECT EXISTS (SELECT 1 FROM idempotency WHERE created_at <= ?1)
             OR EXISTS (SELECT 1 FROM inbox WHERE state = 'dropped' AND enqueued_at <= ?1)",
        args![now.0.saturating_sub_unsigned(RETENTION.0)],
    )
}

/// Deletes expired keys, and messages that the inbox cap dropped as long ago.
pub(crate) fn delete_expired(tx: &mut dyn Tx, now: Timestamp) -> Result<(), Error> {
    let before = now.0.saturating_sub_unsigned(RETENTION.0);
    tx.execute("DELETE FROM idempotency WHERE created_at <= ?1", args![before])?;
    tx.execute("DELETE FROM inbox WHERE state = 'dropped' AND enqueued_at <= ?1", args![before])?;
    Ok(())
}
