//! Builds the request body of the chat completions API.
//!
//! Every call keeps its id, which its result refers to. Roles alternate, because the chat templates
//! of local models reject anything else. Reasoning and plans have no place in this API and are left
//! out.

use std::borrow::Cow;

use ctx_core::inbox::Tool;
use ctx_core::message::Role;
use ctx_engine::provider::Request;
use serde::Serialize;
use serde_json::Value;

use crate::model_request::{
    ApiMessage, ApiPart, EMPTY_CONVERSATION, alternating_messages, api_message, arguments_json,
    data_url, joined_text, result_text, schema, system_prompt,
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolItem<'a, Function<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a String>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'static str,
    content: Option<ChatContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolItem<'a, Arguments<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

/// A tool or a call of one.
#[derive(Serialize)]
struct ToolItem<'a, F> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    r#type: &'static str,
    function: F,
}

#[derive(Serialize)]
struct Arguments<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

/// The body as JSON text. It is written without a tree of values in between: a request contains the
/// whole conversation.
pub(crate) fn body(request: &Request, model: &str) -> Vec<u8> {
    let turns = alternating_messages(request);
    let mut messages = Vec::with_capacity(turns.len() + 1);
    if let Some(system) = system_prompt(request) {
        messages.push(text_message("system", system));
    }
    let before = messages.len();
    for turn in &turns {
        add_message(api_message(turn, request), &mut messages);
    }
    if messages.len() == before {
        messages.push(text_message("user", EMPTY_CONVERSATION));
    }
    let body = Body {
        model,
        messages,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        tools: request.tools.iter().map(|offered| tool(offered)).collect(),
        reasoning_effort: request.options.get("effort"),
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

fn chat_message<'a>(role: &'static str, content: Option<ChatContent<'a>>) -> ChatMessage<'a> {
    ChatMessage { role, content, tool_calls: Vec::new(), tool_call_id: None }
}

fn text_message<'a>(role: &'static str, text: impl Into<Cow<'a, str>>) -> ChatMessage<'a> {
    chat_message(role, Some(ChatContent::Text(text.into())))
}

fn add_message<'a>(message: ApiMessage<'a>, messages: &mut Vec<ChatMessage<'a>>) {
    match message.role {
        // A summary must not get the authority of the system prompt: a model wrote it. Also, chat
        // templates of local models reject a system message that is not the first message.
        Role::User | Role::System => messages.extend(user(message.parts)),
        Role::Assistant => messages.extend(assistant(&message.parts)),
        Role::Tool => messages.extend(message.parts.into_iter().filter_map(result)),
    }
}

/// Content without images is a plain string: not every server accepts a list of parts.
fn user<'a>(parts: Vec<ApiPart<'a>>) -> Option<ChatMessage<'a>> {
    if parts.iter().any(|part| matches!(part, ApiPart::Image { .. })) {
        let parts = parts.into_iter().filter_map(content_part).collect();
        return Some(chat_message("user", Some(ChatContent::Parts(parts))));
    }
    let text = joined_text(&parts);
    (!text.is_empty()).then(|| text_message("user", text))
}

fn content_part(part: ApiPart<'_>) -> Option<ContentPart<'_>> {
    match part {
        ApiPart::Text(text) => Some(ContentPart::Text { text }),
        ApiPart::Image { media_type, data } => {
            Some(ContentPart::ImageUrl { image_url: ImageUrl { url: data_url(media_type, &data) } })
        }
        _ => None,
    }
}

fn assistant<'a>(parts: &[ApiPart<'a>]) -> Option<ChatMessage<'a>> {
    let tool_calls: Vec<_> = parts.iter().filter_map(call).collect();
    let text = joined_text(parts);
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let content = (!text.is_empty()).then_some(ChatContent::Text(text));
    Some(ChatMessage { tool_calls, ..chat_message("assistant", content) })
}

fn call<'a>(part: &ApiPart<'a>) -> Option<ToolItem<'a, Arguments<'a>>> {
    let ApiPart::Call { id, name, params } = part else { return None };
    let function = Arguments { name, arguments: arguments_json(params) };
    Some(ToolItem { id: Some(id), r#type: "function", function })
}

fn result(part: ApiPart<'_>) -> Option<ChatMessage<'_>> {
    let ApiPart::Result { id, text, is_error } = part else { return None };
    let message = text_message("tool", result_text(text, is_error));
    Some(ChatMessage { tool_call_id: Some(id), ..message })
}

fn tool(tool: &Tool) -> ToolItem<'_, Function<'_>> {
    let function =
        Function { name: &tool.name, description: &tool.description, parameters: schema(tool) };
    ToolItem { id: None, r#type: "function", function }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn body(request: &Request, model: &str) -> Value {
        serde_json::from_slice(&super::body(request, model)).expect("JSON")
    }

    use crate::test_harness::{
        image_part, images, message, request, text_message, tool_call, tool_result,
    };
    use ctx_core::id::{BlobId, ObjectId};
    use ctx_core::message::Part;
    use ctx_core::stored_content::Content;

    #[test]
    fn body_contains_the_conversation_in_order() {
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let thought = Part::Thought { text: "hm".to_owned(), raw: None };
        let omitted = Content::Omitted { omitted: BlobId(ObjectId::from_bytes([1; 32])), bytes: 9 };
        let omitted =
            Part::ToolResult { tool_call_id: "c".to_owned(), content: omitted, is_error: false };
        let mut request = request(vec![
            message(Role::System, vec![Part::Summary { text: "a boat was built".to_owned() }]),
            message(Role::User, vec![text("see"), image_part(), text("this")]),
            message(
                Role::Assistant,
                vec![
                    thought,
                    text("I look."),
                    tool_call("a", json!({"n": 1})),
                    tool_call("b", Value::Null),
                ],
            ),
            message(Role::Tool, vec![tool_result("a", "one", false)]),
            message(Role::Tool, vec![tool_result("b", "no file", true)]),
            message(Role::Assistant, vec![tool_call("c", json!({"_raw": "{"}))]),
            message(Role::Tool, vec![omitted]),
            message(Role::Assistant, vec![Part::Plan { entries: json!([]) }]),
            message(Role::User, vec![image_part()]),
        ]);
        request.system = Some("Be brief.".to_owned());
        let body = body(&request, "m");
        let picture = "[an image, image/png, which cannot be shown here]";
        let call = |id: &str, arguments: &str| {
            let function = json!({"name": "look", "arguments": arguments});
            json!({"id": id, "type": "function", "function": function})
        };
        let unavailable = "[9 bytes, which cannot be shown here]";
        let expected = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": format!(
                "Summary of the conversation so far:\n\na boat was built\n\n\
                 [Next message:]\n\nsee\n\n{picture}\n\nthis"
            )},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                call("a", "{\"n\":1}"), call("b", "{}"),
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: no file"},
            {"role": "assistant", "content": null, "tool_calls": [
                call("c", "{\"_raw\":\"{\"}"),
            ]},
            {"role": "tool", "tool_call_id": "c", "content": unavailable},
            {"role": "user", "content": picture},
        ]);
        assert_eq!(body["messages"], expected);
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
        request.messages = vec![message(Role::User, vec![text("see"), image_part()])];
        request.images = images();
        let url = "data:image/png;base64,AQID";
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let expected = json!([{"type": "text", "text": "see"}, image]);
        assert_eq!(self::body(&request, "m")["messages"][1]["content"], expected);
    }

    #[test]
    fn body_has_tools_only_if_there_are_any() {
        let mut request = request(vec![text_message(Role::User, "hi")]);
        assert_eq!(body(&request, "m").get("tools"), None, "some servers reject an empty list");
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tool = |name: &str, parameters: &Value| {
            let (name, description) = (name.to_owned(), "d".to_owned());
            Arc::new(Tool { name, description, parameters: parameters.clone() })
        };
        request.tools = vec![tool("a", &schema), tool("b", &Value::Null)];
        request.options.insert("effort".to_owned(), "low".to_owned());
        let body = body(&request, "m");
        let function = |name: &str, parameters: Value| {
            let function = json!({"name": name, "description": "d", "parameters": parameters});
            json!({"type": "function", "function": function})
        };
        assert_eq!(
            body["tools"],
            json!([
                function("a", schema),
                function("b", json!({"type": "object", "properties": {}}))
            ])
        );
        assert_eq!(body["reasoning_effort"], "low");
    }
}
