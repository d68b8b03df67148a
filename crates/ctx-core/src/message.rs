//! What was said: messages made of parts, whoever said them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::Content;
use crate::id::{BlobId, MessageId};
use crate::time::Timestamp;

#[cfg(test)]
pub(crate) mod samples;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, or whoever stands in for one.
    User,
    /// The agent or model.
    Assistant,
    /// ctx itself.
    System,
    /// A tool's answer.
    Tool,
}

/// Where an incoming message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the glossary's")]
pub enum Source {
    #[default]
    Human,
    Agent,
    Trigger,
    Webhook,
    Timer,
    Event,
}

/// How a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the glossary's")]
pub enum ToolStatus {
    Pending,
    Running,
    Completed,
    Failed,
    /// A crash cut it off; nobody knows whether it happened.
    Unknown,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain words.
    Text {
        /// The words.
        text: String,
    },
    /// The model's reasoning, with what its provider needs to take it back.
    Thought {
        /// The words, where they are shown.
        text: String,
        /// The provider's own item, replayed to that provider only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// A call of a tool.
    ToolCall {
        /// Unique within the run.
        id: String,
        /// Which tool.
        name: String,
        /// With what.
        params: Value,
        /// How it stands.
        status: ToolStatus,
    },
    /// What a tool answered.
    ToolResult {
        /// The call it answers.
        tool_call_id: String,
        /// The answer.
        content: Content,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
    },
    /// A provider's failure: history, not a state.
    Error {
        /// A stable code.
        code: String,
        /// What happened.
        message: String,
        /// Whose failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_id: Option<String>,
    },
    /// The agent's plan.
    Plan {
        /// Its entries, as the agent gave them.
        entries: Value,
    },
    /// A picture.
    Image {
        /// Its media type.
        media_type: String,
        /// Its bytes.
        blob: BlobId,
        /// How many they are, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// What stands for earlier turns.
    Summary {
        /// The words.
        text: String,
    },
}

impl Part {
    /// The blob this part needs, if it has one.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Part::ToolResult { content, .. } => content.blob(),
            Part::Image { blob, .. } => Some(*blob),
            _ => None,
        }
    }

    /// Words that a person may search for.
    pub fn words(&self) -> Option<&str> {
        match self {
            Part::Text { text } | Part::Summary { text } => Some(text),
            Part::Error { message, .. } => Some(message),
            _ => None,
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id for ever.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// Where an incoming one came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What was said.
    pub content: Vec<Part>,
    /// When.
    pub created_at: Timestamp,
}
