//! A request as the chat completions API wants it: what the model sees.
//!
//! One message stays one message, and every call keeps its id, so that results find their calls. What the API cannot
//! say (reasoning, plans, pictures) is left out.

use std::collections::BTreeSet;

use ctx_core::content::Content;
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role};
use ctx_engine::provider::Request;
use serde_json::{Value, json};

/// What stands before the summary of earlier turns.
const SUMMARY: &str = "Summary of the conversation so far:";
/// What stands for a message that is nothing but pictures.
const PICTURE: &str = "[a picture, which cannot be shown here]";

/// The body of the request.
pub(super) fn body(request: &Request, model: &str) -> Value {
    let system = request.system.iter().filter(|text| !text.is_empty()).map(|text| json!({ "role": "system", "content": text }));
    let messages: Vec<Value> = system.chain(request.messages.iter().flat_map(messages)).collect();
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(effort) = request.options.get("effort") {
        body["reasoning_effort"] = json!(effort);
    }
    body
}

/// The ids of calls that the history holds: a new one must not be taken for one of these.
pub(super) fn call_ids(messages: &[Message]) -> BTreeSet<String> {
    let parts = messages.iter().flat_map(|message| &message.content);
    let id = |part: &Part| if let Part::ToolCall { id, .. } = part { Some(id.clone()) } else { None };
    parts.filter_map(id).collect()
}

fn messages(message: &Message) -> Vec<Value> {
    match message.role {
        // A summary is the words of a model about the words of others: it does not get the system prompt's authority,
        // and templates of local models refuse a system message that is not the first.
        Role::User | Role::System => user(message).into_iter().collect(),
        Role::Assistant => assistant(message).into_iter().collect(),
        Role::Tool => message.content.iter().filter_map(result).collect(),
    }
}

fn user(message: &Message) -> Option<Value> {
    let text = text(message);
    let shows = message.content.iter().any(|part| matches!(part, Part::Image { .. }));
    match (text.is_empty(), shows) {
        (false, _) => Some(json!({ "role": "user", "content": text })),
        (true, true) => Some(json!({ "role": "user", "content": PICTURE })),
        (true, false) => None,
    }
}

fn assistant(message: &Message) -> Option<Value> {
    let calls: Vec<Value> = message.content.iter().filter_map(call).collect();
    let text = text(message);
    match (text.is_empty(), calls.is_empty()) {
        (true, true) => None,
        (false, true) => Some(json!({ "role": "assistant", "content": text })),
        (true, false) => Some(json!({ "role": "assistant", "content": null, "tool_calls": calls })),
        (false, false) => Some(json!({ "role": "assistant", "content": text, "tool_calls": calls })),
    }
}

/// Servers parse the arguments again, so they are always JSON, even where the model's own were not.
fn call(part: &Part) -> Option<Value> {
    let Part::ToolCall { id, name, params, .. } = part else { return None };
    let arguments = if params.is_null() { "{}".to_owned() } else { params.to_string() };
    Some(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }))
}

fn result(part: &Part) -> Option<Value> {
    let Part::ToolResult { tool_call_id, content, is_error } = part else { return None };
    let text = match content {
        Content::Text(text) => text.clone(),
        Content::Blob { bytes, .. } | Content::Omitted { bytes, .. } => format!("[{bytes} bytes, which cannot be shown here]"),
    };
    // The API has no other way to say that a tool failed.
    let text = if *is_error { format!("Error: {text}") } else { text };
    Some(json!({ "role": "tool", "tool_call_id": tool_call_id, "content": text }))
}

fn tool(tool: &Tool) -> Value {
    let parameters = match &tool.parameters {
        Value::Null => json!({ "type": "object", "properties": {} }),
        parameters => parameters.clone(),
    };
    json!({ "type": "function", "function": { "name": tool.name, "description": tool.description, "parameters": parameters } })
}

fn text(message: &Message) -> String {
    let words = message.content.iter().filter_map(|part| match part {
        Part::Text { text } if !text.is_empty() => Some(text.clone()),
        Part::Summary { text } => Some(format!("{SUMMARY}\n\n{text}")),
        _ => None,
    });
    words.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::tests::{message, request, said};
    use ctx_core::id::{BlobId, ObjectId};
    use ctx_core::message::ToolStatus;

    fn call(id: &str, params: Value) -> Part {
        Part::ToolCall { id: id.to_owned(), name: "look".to_owned(), params, status: ToolStatus::Completed }
    }

    fn result(id: &str, content: Content, is_error: bool) -> Part {
        Part::ToolResult { tool_call_id: id.to_owned(), content, is_error }
    }

    #[test]
    fn the_model_sees_the_conversation_in_order() {
        let image = Part::Image { media_type: "image/png".to_owned(), blob: BlobId(ObjectId::from_bytes([1; 32])), bytes: None };
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let thought = Part::Thought { text: "hm".to_owned(), raw: None };
        let mut asked = request(vec![
            message(Role::System, vec![Part::Summary { text: "a boat was built".to_owned() }]),
            message(Role::User, vec![text("see"), image.clone(), text("this")]),
            message(Role::Assistant, vec![thought, text("I look."), call("a", json!({"n": 1})), call("b", Value::Null)]),
            message(Role::Tool, vec![result("a", Content::Text("one".to_owned()), false)]),
            message(Role::Tool, vec![result("b", Content::Text("no file".to_owned()), true)]),
            message(Role::Assistant, vec![call("c", json!({"_raw": "{"}))]),
            message(Role::Tool, vec![result("c", Content::Omitted { omitted: BlobId(ObjectId::from_bytes([1; 32])), bytes: 9 }, false)]),
            message(Role::Assistant, vec![Part::Plan { entries: json!([]) }]),
            message(Role::User, vec![image]),
        ]);
        asked.system = Some("Be brief.".to_owned());
        let body = body(&asked, "m");
        let wanted = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Summary of the conversation so far:\n\na boat was built"},
            {"role": "user", "content": "see\n\nthis"},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"n\":1}"}},
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: no file"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{\"_raw\":\"{\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c", "content": "[9 bytes, which cannot be shown here]"},
            {"role": "user", "content": PICTURE},
        ]);
        assert_eq!(body["messages"], wanted);
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
        assert_eq!(call_ids(&asked.messages), ["a", "b", "c"].map(str::to_owned).into());
    }

    #[test]
    fn tools_are_offered_only_where_there_are_some() {
        let mut asked = request(vec![said(Role::User, "hi")]);
        assert_eq!(body(&asked, "m").get("tools"), None, "an empty list is refused by some");
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tool =
            |name: &str, parameters: &Value| Tool { name: name.to_owned(), description: "d".to_owned(), parameters: parameters.clone() };
        asked.tools = vec![tool("a", &schema), tool("b", &Value::Null)];
        asked.options.insert("effort".to_owned(), "low".to_owned());
        let body = body(&asked, "m");
        let function = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}});
        assert_eq!(body["tools"], json!([function("a", schema), function("b", json!({"type": "object", "properties": {}}))]));
        assert_eq!(body["reasoning_effort"], "low");
    }
}
