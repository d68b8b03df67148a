//! Converts messages, pictures and tools in the ways that all model APIs have in common.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_core::inbox::Tool;
use ctx_core::message::{Part, Role};
use ctx_core::projection::{Alternating, CONTINUE_TEXT, alternate, described};
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
    Text(Cow<'a, str>),
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
        text: Cow<'a, str>,
        is_error: bool,
    },
}

/// The system prompt, if it has any text: no API accepts a blank one.
pub(crate) fn system_prompt(request: &Request) -> Option<&str> {
    request.system.as_deref().filter(|text| !text.trim().is_empty())
}

/// The messages of a request with alternating roles.
pub(crate) fn alternating_messages(request: &Request) -> Vec<Alternating<'_>> {
    alternate(&request.messages)
}

/// Converts a message of [`alternating_messages`].
pub(crate) fn api_message<'a>(message: &'a Alternating<'a>, request: &Request) -> ApiMessage<'a> {
    ApiMessage {
        role: message.role,
        parts: message.parts.iter().filter_map(|part| api_part(part, request)).collect(),
    }
}

/// The user message of an otherwise empty conversation, which no API accepts.
pub(crate) const EMPTY_CONVERSATION: &str = CONTINUE_TEXT;

fn api_part<'a>(part: &'a Part, request: &Request) -> Option<ApiPart<'a>> {
    Some(match part {
        Part::Text { text } if text.trim().is_empty() => return None,
        Part::Text { text } => ApiPart::Text(text.into()),
        Part::Summary { text } => ApiPart::Text(format!("{SUMMARY_HEADING}\n\n{text}").into()),
        Part::Image { media_type, blob, .. } => match request.images.get(blob) {
            Some(bytes) => ApiPart::Image { media_type, data: STANDARD.encode(bytes.as_slice()) },
            None => ApiPart::Text(described(media_type).into()),
        },
        Part::Thought { raw, .. } => ApiPart::Thought(raw.as_ref()?),
        Part::ToolCall { id, name, params, .. } => ApiPart::Call { id, name, params },
        Part::ToolResult { tool_call_id, content, is_error } => {
            ApiPart::Result { id: tool_call_id, text: result_content(content), is_error: *is_error }
        }
        Part::Error { .. } | Part::Plan { .. } | Part::Record { .. } => return None,
    })
}

fn result_content(content: &Content) -> Cow<'_, str> {
    match content {
        Content::Text(text) if text.trim().is_empty() => EMPTY_RESULT.into(),
        Content::Text(text) => text.into(),
        Content::Blob { bytes, .. } | Content::Omitted { bytes, .. } => {
            format!("[{bytes} bytes, which cannot be shown here]").into()
        }
    }
}

pub(crate) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// The text of a result for APIs without an error flag.
pub(crate) fn result_text(text: Cow<'_, str>, is_error: bool) -> Cow<'_, str> {
    if is_error { format!("Error: {text}").into() } else { text }
}

/// Call arguments as JSON text. Servers parse them, so they must be JSON even if the model sent
/// invalid ones.
pub(crate) fn arguments_json(params: &Value) -> String {
    if params.is_null() { "{}".to_owned() } else { params.to_string() }
}

/// The parameter schema of a tool. Every API requires a schema of type `object`.
pub(crate) fn schema(tool: &Tool) -> Cow<'_, Value> {
    match &tool.parameters {
        Value::Object(schema) if schema.contains_key("type") => Cow::Borrowed(&tool.parameters),
        Value::Object(schema) => {
            let mut schema = schema.clone();
            schema.insert("type".to_owned(), json!("object"));
            Cow::Owned(Value::Object(schema))
        }
        _ => Cow::Owned(json!({ "type": "object", "properties": {} })),
    }
}

/// The text of a body.
pub(crate) fn body_text(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

/// The texts among the parts, as paragraphs.
pub(crate) fn joined_text<'a>(parts: &[ApiPart<'a>]) -> Cow<'a, str> {
    let text = |part: &ApiPart<'a>| match part {
        ApiPart::Text(text) => Some(text.clone()),
        _ => None,
    };
    let mut texts = parts.iter().filter_map(text);
    let mut joined = texts.next().unwrap_or_default();
    for text in texts {
        let joined = joined.to_mut();
        joined.push_str("\n\n");
        joined.push_str(&text);
    }
    joined
}
