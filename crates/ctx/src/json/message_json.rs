//! A message, its content parts, and the response to a sent message.

use ctx_engine::core::message::{Message as CoreMessage, Part as CorePart};
use ctx_engine::core::session::Activity;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{ListedMessage, Submitted};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::session_json::Prompt;
use super::{optional_string, variant_name};

/// One part of a message; `type` determines the other fields
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part {
    Text {
        text: String,
    },
    Thought {
        text: String,
    },
    ToolCall {
        id: String,
        name: String,
        params: Value,
        status: String,
    },
    /// A large result has empty `content`; its bytes are at `/api/blobs/{blob}`
    ToolResult {
        tool_call_id: String,
        content: String,
        is_error: bool,
        blob: Option<String>,
        bytes: Option<u64>,
    },
    Error {
        code: String,
        message: String,
        provider_id: Option<String>,
    },
    Plan {
        entries: Value,
    },
    /// The bytes are at `/api/blobs/{blob}`
    Image {
        media_type: String,
        blob: String,
        size: Option<u64>,
    },
    Summary {
        text: String,
    },
    /// A record of another tool, verbatim; a large one has empty `content`, its bytes are at
    /// `/api/blobs/{blob}`
    Record {
        kind: String,
        content: String,
        blob: Option<String>,
        bytes: Option<u64>,
    },
}

/// A message of a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Message {
    id: String,
    /// Null while the turn is open
    turn: Option<String>,
    role: String,
    source: Option<String>,
    content: Vec<Part>,
    provider_id: Option<String>,
    model: Option<String>,
    created_at: String,
    /// When a message that had waited was given to the agent; absent if it did not wait
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<String>,
}

impl From<CorePart> for Part {
    fn from(part: CorePart) -> Self {
        match part {
            CorePart::Text { text } => Self::Text { text },
            CorePart::Thought { text, .. } => Self::Thought { text },
            CorePart::ToolCall { id, name, params, status } => {
                Self::ToolCall { id, name, params, status: variant_name(&status) }
            }
            CorePart::ToolResult { tool_call_id, content, is_error } => {
                let (content, blob, bytes) = content_fields(content);
                Self::ToolResult { tool_call_id, content, is_error, blob, bytes }
            }
            CorePart::Error { code, message, provider_id } => {
                Self::Error { code, message, provider_id }
            }
            CorePart::Plan { entries } => Self::Plan { entries },
            CorePart::Image { media_type, blob, bytes } => {
                Self::Image { media_type, blob: blob.to_string(), size: bytes }
            }
            CorePart::Summary { text } => Self::Summary { text },
            CorePart::Record { kind, content } => {
                let (content, blob, bytes) = content_fields(content);
                Self::Record { kind, content, blob, bytes }
            }
        }
    }
}

/// The text of stored content, or the blob and its size.
fn content_fields(content: Content) -> (String, Option<String>, Option<u64>) {
    match content {
        Content::Text(text) => (text, None, None),
        Content::Blob { blob, bytes } | Content::Omitted { omitted: blob, bytes } => {
            (String::new(), Some(blob.to_string()), Some(bytes))
        }
    }
}

impl Message {
    pub(super) fn of(
        message: CoreMessage,
        turn: Option<String>,
        provider_id: Option<String>,
        model: Option<String>,
    ) -> Self {
        Self {
            id: message.id.to_string(),
            turn,
            role: variant_name(&message.role),
            source: message.source.map(|source| variant_name(&source)),
            content: message.content.into_iter().map(Part::from).collect(),
            provider_id,
            model,
            created_at: message.created_at.to_string(),
            delivered_at: None,
        }
    }
}

impl Message {
    /// Sets when a message that had waited was delivered.
    pub(super) fn with_delivery(self, at: Option<Timestamp>) -> Self {
        Self { delivered_at: optional_string(&at), ..self }
    }
}

impl From<ListedMessage> for Message {
    fn from(told: ListedMessage) -> Self {
        Self::of(told.message, optional_string(&told.turn), told.provider_id, told.model)
            .with_delivery(told.delivered_at)
    }
}

/// The response to a message that was sent
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    message_id: String,
    /// Null if the run opens later
    run_id: Option<String>,
    /// Position in the inbox, from 1; null if the message does not wait
    position: Option<usize>,
    state: String,
    /// Null if the classifier has not answered yet
    intent: Option<String>,
    pending_prompt: Option<Prompt>,
}

impl From<&Submitted> for Accepted {
    fn from(sent: &Submitted) -> Self {
        Self {
            message_id: sent.message_id.to_string(),
            run_id: optional_string(&sent.run_id),
            position: sent.position,
            state: variant_name(&sent.state),
            intent: sent.intent.map(|intent| intent.name().to_owned()),
            pending_prompt: sent.prompt.as_ref().map(Prompt::from),
        }
    }
}

impl Accepted {
    /// Replaces the state at submission with a later one.
    pub(crate) fn with_state(self, state: Activity) -> Self {
        Self { state: variant_name(&state), ..self }
    }
}
