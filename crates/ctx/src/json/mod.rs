//! JSON documents of the API. The command line (`--json`) and HTTP return the same documents. The
//! OpenAPI document is generated from these types. Times are RFC 3339 in UTC.
//!
//! | file | documents |
//! |---|---|
//! | `session_json` | session, with its run, suspensions and pending prompt |
//! | `message_json` | message, its content parts, and the response to a sent message |
//! | `turn_json` | turn, tree of turns, moves of the head |
//! | `task_json` | task, its state, its prompt, its bundle |
//! | `commit_json` | commit |
//! | `object_json` | stored object, search hit, narrative note |
//! | `inbox_json` | message in the inbox |
//! | `run_json` | run |
//! | `compaction_json` | compaction |
//! | `diff_json` | comparison of two branches |
//! | `entity_json` | entity, identity, alias, sender of a message |
//! | `import_json` | result of an import |
//! | `outbox_json` | delivery to a channel |
//! | `provider_json` | provider |
//! | `schedule_json` | schedule with its ticks |
//! | `usage_json` | tokens, cost, messages, tool calls and time |

pub(crate) mod commit_json;
pub(crate) mod compaction_json;
pub(crate) mod diff_json;
pub(crate) mod entity_json;
pub(crate) mod import_json;
pub(crate) mod inbox_json;
pub(crate) mod message_json;
pub(crate) mod object_json;
pub(crate) mod outbox_json;
pub(crate) mod provider_json;
pub(crate) mod run_json;
pub(crate) mod schedule_json;
pub(crate) mod session_json;
pub(crate) mod task_json;
pub(crate) mod turn_json;
pub(crate) mod usage_json;

use ctx_engine::core::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) fn time(at: Timestamp) -> Value {
    json!(at.to_string())
}

/// The serialized name of an enum variant without fields, such as `awaiting_user`.
pub(crate) fn variant_name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        other => format!("{other:?}"),
    }
}

fn optional_string<T: ToString>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}
