//! Messages and their parts, of users, agents, tools and ctx itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{BlobId, MessageId};
use crate::stored_content::Content;
use crate::time::Timestamp;

#[cfg(test)]
pub(crate) mod samples;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or a program that sends messages in place of one.
    User,
    /// An agent or a model.
    Assistant,
    /// ctx itself: notices to the user and summaries.
    System,
    /// Results of tools.
    Tool,
}

/// The origin of an incoming message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Source {
    #[default]
    Human,
    Agent,
    Trigger,
    Webhook,
    Timer,
    Event,
}

/// The status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ToolStatus {
    Pending,
    Running,
    Completed,
    Failed,
    /// The run was interrupted, so it is not known whether the call took effect.
    Unknown,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum Part {
    /// Plain text, usually Markdown.
    Text { text: String },
    /// Reasoning of the model.
    Thought {
        /// The readable text. Empty if the provider does not show it.
        text: String,
        /// The item in the format of the provider. It is replayed only to that provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// A tool call.
    ToolCall {
        /// Unique within the run.
        id: String,
        /// The name of the tool.
        name: String,
        /// The parameters, usually a JSON object.
        params: Value,
        /// The status when the turn was stored.
        status: ToolStatus,
    },
    /// The result of a tool call.
    ToolResult {
        tool_call_id: String,
        content: Content,
        #[serde(default)]
        is_error: bool,
    },
    /// A failure of the provider. It is part of the history; the session stays usable.
    Error {
        /// A stable error code.
        code: String,
        /// The message for the user.
        message: String,
        /// The provider that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_id: Option<String>,
    },
    /// The plan of the agent.
    Plan {
        /// The entries in the format of the agent.
        entries: Value,
    },
    /// An image.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// The blob with the image data.
        blob: BlobId,
        /// Size of the image data in bytes, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// The summary of earlier turns, in a turn of a compaction.
    Summary { text: String },
    /// A record of another tool that has no counterpart here, verbatim. It is not sent to
    /// providers.
    Record {
        /// The tool and the type of the record, for example `claude-code:attachment`.
        kind: String,
        /// The record as the tool wrote it.
        content: Content,
    },
}

impl Part {
    /// The blob that this part refers to.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Part::ToolResult { content, .. } | Part::Record { content, .. } => content.blob(),
            Part::Image { blob, .. } => Some(*blob),
            _ => None,
        }
    }

    /// Text that a user may search for.
    pub fn searchable_text(&self) -> Option<&str> {
        match self {
            Part::Text { text } | Part::Summary { text } => Some(text),
            Part::Error { message, .. } => Some(message),
            _ => None,
        }
    }
}

/// One message. Its id never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Message {
    pub id: MessageId,
    pub role: Role,
    /// The origin, for incoming messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    pub content: Vec<Part>,
    pub created_at: Timestamp,
}

impl Message {
    /// When a message of the user was delivered, if it had waited: a message that starts a turn is
    /// delivered when the turn starts.
    pub fn delivered_after_waiting(&self, turn_started_at: Timestamp) -> Option<Timestamp> {
        let waited = self.role == Role::User && self.created_at < turn_started_at;
        waited.then_some(turn_started_at)
    }
}
