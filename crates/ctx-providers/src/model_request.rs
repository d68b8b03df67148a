//! What all APIs make of the parts of a message in the same way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_core::content::Content;
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role};
use ctx_core::project::{GO_ON, alternate, described};
use ctx_engine::provider::Request;
use serde_json::{Value, json};

/// What stands before the summary of earlier turns.
const SUMMARY: &str = "Summary of the conversation so far:";
/// What stands for a result that says nothing.
const NOTHING: &str = "[no output]";

/// One who speaks, and what they say.
pub(crate) struct Said<'a> {
    pub(crate) role: Role,
    pub(crate) parts: Vec<Piece<'a>>,
}

/// What a model is shown.
pub(crate) enum Piece<'a> {
    Text(String),
    /// A picture, coded as text.
    Image {
        media_type: &'a str,
        data: String,
    },
    Thought(&'a Value),
    Call {
        id: &'a str,
        name: &'a str,
        params: &'a Value,
    },
    Result {
        id: &'a str,
        text: String,
        is_error: bool,
    },
}

/// The system prompt, if it has any text: no API accepts a blank one.
pub(crate) fn system(request: &Request) -> Option<&str> {
    request.system.as_deref().filter(|text| !text.trim().is_empty())
}

/// The messages of a request, roles alternating.
pub(crate) fn turns(request: &Request) -> Vec<Message> {
    alternate(request.messages.clone())
}

/// What is said in a message of [`turns`].
pub(crate) fn said<'a>(message: &'a Message, request: &Request) -> Said<'a> {
    Said {
        role: message.role,
        parts: message.content.iter().filter_map(|part| piece(part, request)).collect(),
    }
}

/// What is sent where there is nothing to send: no API takes an empty conversation.
pub(crate) const fn nothing() -> &'static str {
    GO_ON
}

fn piece<'a>(part: &'a Part, request: &Request) -> Option<Piece<'a>> {
    Some(match part {
        Part::Text { text } if text.trim().is_empty() => return None,
        Part::Text { text } => Piece::Text(text.clone()),
        Part::Summary { text } => Piece::Text(format!("{SUMMARY}\n\n{text}")),
        Part::Image { media_type, blob, .. } => match request.images.get(blob) {
            Some(bytes) => Piece::Image { media_type, data: STANDARD.encode(bytes.as_slice()) },
            None => Piece::Text(described(media_type)),
        },
        Part::Thought { raw, .. } => Piece::Thought(raw.as_ref()?),
        Part::ToolCall { id, name, params, .. } => Piece::Call { id, name, params },
        Part::ToolResult { tool_call_id, content, is_error } => {
            Piece::Result { id: tool_call_id, text: result(content), is_error: *is_error }
        }
        Part::Error { .. } | Part::Plan { .. } => return None,
    })
}

fn result(content: &Content) -> String {
    match content {
        Content::Text(text) if text.trim().is_empty() => NOTHING.to_owned(),
        Content::Text(text) => text.clone(),
        Content::Blob { bytes, .. } | Content::Omitted { bytes, .. } => {
            format!("[{bytes} bytes, which cannot be shown here]")
        }
    }
}

/// A picture where a model wants an address.
pub(crate) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// A result where the API has no other way to say that a tool failed.
pub(crate) fn marked(text: String, is_error: bool) -> String {
    if is_error { format!("Error: {text}") } else { text }
}

/// Servers parse the arguments again, so they are always JSON, even where the model's own were not.
pub(crate) fn arguments(params: &Value) -> String {
    if params.is_null() { "{}".to_owned() } else { params.to_string() }
}

/// What a tool takes; every API wants a schema of an object.
pub(crate) fn schema(tool: &Tool) -> Value {
    match &tool.parameters {
        Value::Object(schema) => {
            let mut schema = schema.clone();
            schema.entry("type").or_insert_with(|| json!("object"));
            Value::Object(schema)
        }
        _ => json!({ "type": "object", "properties": {} }),
    }
}

/// The words among pieces, paragraph by paragraph.
pub(crate) fn text(pieces: &[Piece<'_>]) -> String {
    let words = pieces
        .iter()
        .filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None });
    words.collect::<Vec<_>>().join("\n\n")
}
