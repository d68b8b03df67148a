//! Rows of `history_keys`: the messages that end a history which a client sent.

use ctx_core::decide::HistoryKey;
use ctx_core::id::{MessageId, SessionId};
use ctx_core::time::Timestamp;

use crate::driver::{Db, Tx, args, limit_arg};
use crate::{Error, FoundHistory};

use super::from_id;

/// Stores a key of a session.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    session: i64,
    new: &HistoryKey,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO history_keys(scope, key, message_id, session, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        args![&new.scope, &new.key, &new.message.to_string(), session, now],
    )?;
    Ok(())
}

/// The messages with one of the keys, newest first.
pub(crate) fn find(
    db: &dyn Db,
    scope: &str,
    keys: &[String],
    limit: usize,
) -> Result<Vec<FoundHistory>, Error> {
    db.rows(
        "SELECT h.key, s.id, h.message_id FROM history_keys h JOIN sessions s ON s.row = h.session
         WHERE h.scope = ?1 AND h.key IN LIST(?2) ORDER BY h.message_id DESC LIMIT ?3",
        &[scope.into(), keys.into(), limit_arg(limit)],
        |row| {
            Ok(FoundHistory {
                key: row.get(0)?,
                session: from_id::<SessionId>("a session's id", row.get(1)?)?,
                message: from_id::<MessageId>("a message's id", row.get(2)?)?,
            })
        },
    )
}
