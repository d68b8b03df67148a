//! The relational layer: every SQL statement that both databases share, above [`crate::driver`].
//!
//! | file | owns |
//! |---|---|
//! | `load` | everything a rule may see, read before it runs, with the row numbers that `apply` needs |
//! | `apply` | a decision's changes as inserts and updates; it reads nothing and cannot refuse |
//! | `session_rows` | sessions, their lists and head moves |
//! | `conversation_rows` | inbox, runs, drafts, suspensions, agent sessions |
//! | `task_rows` | tasks, steps, commits, refs |
//! | `turn_rows` | turns, their ancestors and trees |
//! | `compaction_rows` | compactions, pins, and the turns that a request is made of |
//! | `event_rows` | the feed |
//! | `exchange_rows` | what another store asks before an exchange of sessions |
//! | `usage_rows`, `tool_rows` | sums of tokens, cost, messages and time; calls of tools |
//! | `identity_rows` | entities, identities and aliases; the session of a message from a channel |
//! | `outbox_rows` | deliveries to channels |
//! | `history_rows` | keys of the histories that clients send |
//! | `idempotency_rows`, `token_rows` | idempotency keys; API tokens |
//! | `schedule_rows` | schedules: when they were first seen, their newest ticks |
//! | `id_rows` | records by the beginning of their id; short ids |
//! | `purge`, `gc` | turns of deleted sessions; unreferenced blobs |
//! | `verify`, `repair` | checks of every row and pointer; derived data rebuilt |
//! | `search`, `search_documents` | what a search finds; the documents of the index |
//! | `search_scope`, `search_cursor` | the sessions of a search; the place of the next page |
//! | `row_counts` | numbers of rows |
//! | `copied_tables`, `copy_rows`, `copy_writer` | the tables of a copy; reading; writing |

pub(crate) mod apply;
pub(crate) mod compaction_rows;
pub(crate) mod conversation_rows;
pub(crate) mod copied_tables;
pub(crate) mod copy_rows;
pub(crate) mod copy_writer;
pub(crate) mod event_rows;
pub(crate) mod exchange_rows;
pub(crate) mod gc;
pub(crate) mod history_rows;
pub(crate) mod id_rows;
pub(crate) mod idempotency_rows;
pub(crate) mod identity_rows;
pub(crate) mod load;
pub(crate) mod outbox_rows;
pub(crate) mod purge;
pub(crate) mod repair;
pub(crate) mod row_counts;
pub(crate) mod schedule_rows;
pub(crate) mod search;
mod search_cursor;
pub(crate) mod search_documents;
mod search_scope;
pub(crate) mod session_rows;
pub(crate) mod task_rows;
pub(crate) mod token_rows;
pub(crate) mod tool_rows;
pub(crate) mod turn_path;
pub(crate) mod turn_rows;
pub(crate) mod usage_rows;
pub(crate) mod verify;
pub(crate) mod worker_rows;

use ctx_core::id::ObjectId;
use ctx_core::object::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Decodes a JSON document that the store wrote.
pub(crate) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|e| Error::Damaged(format!("{what}: {e}")))
}

/// Decodes a unit variant that the store wrote as plain text.
pub(crate) fn from_name<T: DeserializeOwned>(what: &str, name: &str) -> Result<T, Error> {
    T::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name))
        .map_err(|e| Error::Damaged(format!("{what}: {e}")))
}

/// Parses an id that the store wrote as text.
pub(crate) fn from_id<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Error>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e| Error::Damaged(format!("{what}: {e}")))
}

pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::Internal(e.to_string()))
}

/// The text of a unit variant, as `from_name` reads it.
pub(crate) fn to_name<T: Serialize>(value: &T) -> Result<String, Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(Error::Internal(format!("not a name: {other:?}"))),
    }
}

/// Checks an object against its id.
pub(crate) fn checked(id: ObjectId, object: Object) -> Result<Object, Error> {
    object.check(id).map_err(|fault| Error::DamagedObject { id, why: fault.to_string() })?;
    Ok(object)
}

/// Decodes the content of an object whose hash was checked.
pub(crate) fn decoded<T: DeserializeOwned>(id: ObjectId, object: &Object) -> Result<T, Error> {
    object.decode().map_err(|fault| Error::DamagedObject { id, why: fault.to_string() })
}

pub(crate) fn not_found(what: &'static str, name: impl ToString) -> Error {
    Error::NotFound { what, name: name.to_string() }
}
