//! Converts messages, pictures and tools in the ways that all model APIs have in common.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role};
use ctx_core::projection::{CONTINUE_TEXT, alternate, described};
use ctx_core::stored_content::Content;
use ctx_engine::provider::Request;
use serde_json::{Value, json};

/// Precedes the summary of earlier turns.
const SUMMARY_HEADING: &str = "Summary of the conversation so far:";
/// Replaces an empty tool result.
const EMPTY_RESULT: &str = "[no output]";

/// A message without the parts that no API accepts.
pub(crate) struct ApiMessage<'a> {
    pub(crate) role: Role,
    pub(crate) parts: Vec<ApiPart<'a>>,
}

pub(crate) enum ApiPart<'a> {
    Text(String),
    /// `data` is base64.
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
pub(crate) fn system_prompt(request: &Request) -> Option<&str> {
    request.system.as_deref().filter(|text| !text.trim().is_empty())
}

/// The messages of a request with alternating roles.
pub(crate) fn alternating_messages(request: &Request) -> Vec<Message> {
    alternate(request.messages.clone())
}

/// Converts a message of [`alternating_messages`].
pub(crate) fn api_message<'a>(message: &'a Message, request: &Request) -> ApiMessage<'a> {
    ApiMessage {
        role: message.role,
        parts: message.content.iter().filter_map(|part| api_part(part, request)).collect(),
    }
}

/// The user message of an otherwise empty conversation, which no API accepts.
pub(crate) const EMPTY_CONVERSATION: &str = CONTINUE_TEXT;

fn api_part<'a>(part: &'a Part, request: &Request) -> Option<ApiPart<'a>> {
    Some(match part {
        Part::Text { text } if text.trim().is_empty() => return None,
        Part::Text { text } => ApiPart::Text(text.clone()),
        Part::Summary { text } => ApiPart::Text(format!("{SUMMARY_HEADING}\n\n{text}")),
        Part::Image { media_type, blob, .. } => match request.images.get(blob) {
            Some(bytes) => ApiPart::Image { media_type, data: STANDARD.encode(bytes.as_slice()) },
            None => ApiPart::Text(described(media_type)),
        },
        Part::Thought { raw, .. } => ApiPart::Thought(raw.as_ref()?),
        Part::ToolCall { id, name, params, .. } => ApiPart::Call { id, name, params },
        Part::ToolResult { tool_call_id, content, is_error } => {
            ApiPart::Result { id: tool_call_id, text: result_content(content), is_error: *is_error }
        }
        Part::Error { .. } | Part::Plan { .. } => return None,
    })
}

fn result_content(content: &Content) -> String {
    match content {
        Content::Text(text) if text.trim().is_empty() => EMPTY_RESULT.to_owned(),
        Content::Text(text) => text.clone(),
        Content::Blob { bytes, .. } | Content::Omitted { bytes, .. } => {
            format!("[{bytes} bytes, which cannot be shown here]")
        }
    }
}

pub(crate) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// The text of a result for APIs without an error flag.
pub(crate) fn result_text(text: String, is_error: bool) -> String {
    if is_error { format!("Error: {text}") } else { text }
}

/// Call arguments as JSON text. Servers parse them, so they must be JSON even if the model sent
/// invalid ones.
pub(crate) fn arguments_json(params: &Value) -> String {
    if params.is_null() { "{}".to_owned() } else { params.to_string() }
}

/// The parameter schema of a tool. Every API requires a schema of type `object`.
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

/// The texts among the parts, as paragraphs.
pub(crate) fn joined_text(parts: &[ApiPart<'_>]) -> String {
    let texts = parts
        .iter()
        .filter_map(|part| if let ApiPart::Text(text) = part { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n\n")
}
