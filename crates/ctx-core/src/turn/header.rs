//! The header of a turn and its encoding. Its hash is the turn id.
//!
//! Default values are omitted, because every turn has a header: `ended_at` if it equals
//! `started_at`, the status `completed`, the kind `normal`, and an empty list of tool calls. A
//! message is encoded as `[id,role,source]`, a tool call as `[id,message,name,status,worker]` with
//! the index of its message and the label of the worker that it started. Trailing `null` and
//! `completed` are omitted. The database views `messages` and `tool_calls` read these lists.

use serde::Deserialize;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Kind, Status, Usage};
use crate::id::{MessageId, ObjectId, TurnId};
use crate::message::{Role, Source, ToolStatus};
use crate::time::Timestamp;

/// A message of a turn without its content.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredMessage")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct MessageHead {
    pub id: MessageId,
    pub role: Role,
    pub source: Option<Source>,
}

#[derive(Deserialize)]
struct StoredMessage(MessageId, Role, #[serde(default)] Option<Source>);

impl From<StoredMessage> for MessageHead {
    fn from(StoredMessage(id, role, source): StoredMessage) -> Self {
        Self { id, role, source }
    }
}

impl Serialize for MessageHead {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.source {
            None => (self.id, self.role).serialize(to),
            Some(source) => (self.id, self.role, source).serialize(to),
        }
    }
}

/// A tool call of a turn, without its parameters and result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredCall")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct ToolCallHead {
    /// Unique within the run.
    pub id: String,
    /// Index of the message that contains the call.
    pub message: usize,
    pub name: String,
    pub status: ToolStatus,
    /// Label of the worker that the call started.
    pub spawned_session_label: Option<String>,
}

#[derive(Deserialize)]
struct StoredCall(
    String,
    usize,
    String,
    #[serde(default = "completed")] ToolStatus,
    #[serde(default)] Option<String>,
);

const fn completed() -> ToolStatus {
    ToolStatus::Completed
}

impl From<StoredCall> for ToolCallHead {
    fn from(StoredCall(id, message, name, status, spawned_session_label): StoredCall) -> Self {
        Self { id, message, name, status, spawned_session_label }
    }
}

impl Serialize for ToolCallHead {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (self.status, &self.spawned_session_label) {
            (ToolStatus::Completed, None) => (&self.id, self.message, &self.name).serialize(to),
            (status, None) => (&self.id, self.message, &self.name, status).serialize(to),
            (status, Some(label)) => {
                (&self.id, self.message, &self.name, status, label).serialize(to)
            }
        }
    }
}

/// The header of a turn. Its canonical encoding is hashed to give the turn id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Stored")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Header {
    /// `None` for a root turn.
    pub parent: Option<TurnId>,
    pub kind: Kind,
    pub status: Status,
    /// The provider that answered.
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub messages: Vec<MessageHead>,
    /// All tool calls of the turn, in the order of the messages.
    pub tool_calls: Vec<ToolCallHead>,
    /// Id of the body.
    pub body: ObjectId,
}

#[derive(Deserialize)]
struct Stored {
    parent: Option<TurnId>,
    #[serde(default, rename = "type")]
    kind: Kind,
    #[serde(default)]
    status: Status,
    provider_id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    messages: Vec<MessageHead>,
    #[serde(default)]
    tool_calls: Vec<ToolCallHead>,
    body: ObjectId,
}

impl From<Stored> for Header {
    fn from(stored: Stored) -> Self {
        Self {
            parent: stored.parent,
            kind: stored.kind,
            status: stored.status,
            provider_id: stored.provider_id,
            model: stored.model,
            usage: stored.usage,
            started_at: stored.started_at,
            ended_at: stored.ended_at.unwrap_or(stored.started_at),
            messages: stored.messages,
            tool_calls: stored.tool_calls,
            body: stored.body,
        }
    }
}

impl Serialize for Header {
    /// Writes the keys in sorted order, so that the canonical writer does not sort them.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Header", 11)?;
        fields.serialize_field("body", &self.body)?;
        if self.ended_at != self.started_at {
            fields.serialize_field("ended_at", &self.ended_at)?;
        }
        fields.serialize_field("messages", &self.messages)?;
        if let Some(model) = &self.model {
            fields.serialize_field("model", model)?;
        }
        fields.serialize_field("parent", &self.parent)?;
        if let Some(provider_id) = &self.provider_id {
            fields.serialize_field("provider_id", provider_id)?;
        }
        fields.serialize_field("started_at", &self.started_at)?;
        if self.status != Status::default() {
            fields.serialize_field("status", &self.status)?;
        }
        if !self.tool_calls.is_empty() {
            fields.serialize_field("tool_calls", &self.tool_calls)?;
        }
        if self.kind != Kind::default() {
            fields.serialize_field("type", &self.kind)?;
        }
        if let Some(usage) = &self.usage {
            fields.serialize_field("usage", usage)?;
        }
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Kind as ObjectKind, Object};
    use serde_json::{Value, json};
    use ulid::Ulid;

    fn default_header() -> Header {
        Header {
            parent: None,
            kind: Kind::Normal,
            status: Status::Completed,
            provider_id: None,
            model: None,
            usage: None,
            started_at: Timestamp(7),
            ended_at: Timestamp(7),
            messages: vec![MessageHead { id: MessageId(Ulid(1)), role: Role::Tool, source: None }],
            tool_calls: Vec::new(),
            body: ObjectId::of(&[b"words"]),
        }
    }

    /// Encodes the header, checks that it decodes to the same value, and returns the JSON.
    fn stored(header: &Header) -> Value {
        let object = Object::encode(ObjectKind::Turn, header);
        assert_eq!(object.decode::<Header>().as_ref(), Ok(header));
        object.decode().expect("JSON")
    }

    #[test]
    fn default_values_are_omitted() {
        let header = default_header();
        let messages = json!([["00000000000000000000000001", "tool"]]);
        assert_eq!(
            stored(&header),
            json!({"body": header.body, "messages": messages, "parent": null, "started_at": 7})
        );
    }

    #[test]
    fn other_values_are_encoded() {
        let call = |status, label: Option<&str>| ToolCallHead {
            id: "c".to_owned(),
            message: 0,
            name: "t".to_owned(),
            status,
            spawned_session_label: label.map(str::to_owned),
        };
        let header = Header {
            kind: Kind::Compaction,
            status: Status::Failed,
            ended_at: Timestamp(6),
            messages: vec![MessageHead {
                id: MessageId(Ulid(1)),
                role: Role::User,
                source: Some(Source::Human),
            }],
            tool_calls: vec![
                call(ToolStatus::Completed, None),
                call(ToolStatus::Failed, None),
                call(ToolStatus::Completed, Some("worker:1")),
                call(ToolStatus::Unknown, Some("worker:2")),
            ],
            ..default_header()
        };
        let found = stored(&header);
        assert_eq!(
            (&found["type"], &found["status"], &found["ended_at"]),
            (&json!("compaction"), &json!("failed"), &json!(6))
        );
        assert_eq!(found["messages"][0][2], "human");
        let calls = json!([
            ["c", 0, "t"],
            ["c", 0, "t", "failed"],
            ["c", 0, "t", "completed", "worker:1"],
            ["c", 0, "t", "unknown", "worker:2"]
        ]);
        assert_eq!(found["tool_calls"], calls);
    }

    #[test]
    fn invalid_headers_are_rejected() {
        let with = |key: &str, value: Value| {
            let mut json = stored(&default_header());
            json[key] = value;
            Object::encode(ObjectKind::Turn, &json).decode::<Header>()
        };
        assert_eq!(
            with("status", json!("completed")),
            Ok(default_header()),
            "a default value may be present"
        );
        let id = "00000000000000000000000001";
        for messages in
            [json!([[id]]), json!([[id, "tool", null, null]]), json!([[id, "nobody"]]), json!(null)]
        {
            assert!(with("messages", messages.clone()).is_err(), "{messages}");
        }
        for calls in [
            json!([["c", 0]]),
            json!([["c", -1, "t"]]),
            json!([["c", 0, "t", "completed", null, 1]]),
            json!([["c", 0, "t", null]]),
        ] {
            assert!(with("tool_calls", calls.clone()).is_err(), "{calls}");
        }
        assert!(with("started_at", json!(null)).is_err());
    }
}
