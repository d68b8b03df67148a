//! A request as the chat completions API wants it: what the model sees.
//!
//! Every call keeps its id, so that results find their calls. Roles alternate, since templates of local models refuse
//! anything else. What the API cannot say (reasoning, plans) is left out.

use ctx_core::inbox::Tool;
use ctx_core::message::Role;
use ctx_engine::provider::Request;
use serde_json::{Value, json};

use crate::model_request::{
    Piece, Said, arguments, data_url, marked, nothing, said, schema, system, text, turns,
};

/// The body of the request.
pub(crate) fn body(request: &Request, model: &str) -> Value {
    let turns = turns(request);
    let mut messages: Vec<Value> =
        turns.iter().flat_map(|message| messages(said(message, request))).collect();
    if messages.is_empty() {
        messages.push(json!({ "role": "user", "content": nothing() }));
    }
    if let Some(system) = system(request) {
        messages.insert(0, json!({ "role": "system", "content": system }));
    }
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

fn messages(said: Said<'_>) -> Vec<Value> {
    match said.role {
        // A summary is the words of a model about the words of others: it does not get the system prompt's authority,
        // and templates of local models refuse a system message that is not the first.
        Role::User | Role::System => user(&said.parts).into_iter().collect(),
        Role::Assistant => assistant(&said.parts).into_iter().collect(),
        Role::Tool => said.parts.into_iter().filter_map(result).collect(),
    }
}

/// Words alone are a plain text: not every server takes a list of parts.
fn user(pieces: &[Piece<'_>]) -> Option<Value> {
    let content = if pieces.iter().any(|piece| matches!(piece, Piece::Image { .. })) {
        pieces.iter().filter_map(part).collect()
    } else {
        json!(Some(text(pieces)).filter(|text| !text.is_empty())?)
    };
    Some(json!({ "role": "user", "content": content }))
}

fn part(piece: &Piece<'_>) -> Option<Value> {
    match piece {
        Piece::Text(text) => Some(json!({ "type": "text", "text": text })),
        Piece::Image { media_type, data } => {
            Some(json!({ "type": "image_url", "image_url": { "url": data_url(media_type, data) } }))
        }
        _ => None,
    }
}

fn assistant(pieces: &[Piece<'_>]) -> Option<Value> {
    let calls: Vec<Value> = pieces.iter().filter_map(call).collect();
    let text = text(pieces);
    match (text.is_empty(), calls.is_empty()) {
        (true, true) => None,
        (false, true) => Some(json!({ "role": "assistant", "content": text })),
        (true, false) => Some(json!({ "role": "assistant", "content": null, "tool_calls": calls })),
        (false, false) => {
            Some(json!({ "role": "assistant", "content": text, "tool_calls": calls }))
        }
    }
}

fn call(piece: &Piece<'_>) -> Option<Value> {
    let Piece::Call { id, name, params } = piece else { return None };
    Some(
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments(params) } }),
    )
}

fn result(piece: Piece<'_>) -> Option<Value> {
    let Piece::Result { id, text, is_error } = piece else { return None };
    Some(json!({ "role": "tool", "tool_call_id": id, "content": marked(text, is_error) }))
}

fn tool(tool: &Tool) -> Value {
    json!({ "type": "function", "function": { "name": tool.name, "description": tool.description, "parameters": schema(tool) } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::{images, message, picture, request, result, said, tool_call};
    use ctx_core::content::Content;
    use ctx_core::id::{BlobId, ObjectId};
    use ctx_core::message::Part;

    #[test]
    fn the_model_sees_the_conversation_in_order() {
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let thought = Part::Thought { text: "hm".to_owned(), raw: None };
        let omitted = Content::Omitted { omitted: BlobId(ObjectId::from_bytes([1; 32])), bytes: 9 };
        let omitted =
            Part::ToolResult { tool_call_id: "c".to_owned(), content: omitted, is_error: false };
        let mut asked = request(vec![
            message(Role::System, vec![Part::Summary { text: "a boat was built".to_owned() }]),
            message(Role::User, vec![text("see"), picture(), text("this")]),
            message(
                Role::Assistant,
                vec![
                    thought,
                    text("I look."),
                    tool_call("a", json!({"n": 1})),
                    tool_call("b", Value::Null),
                ],
            ),
            message(Role::Tool, vec![result("a", "one", false)]),
            message(Role::Tool, vec![result("b", "no file", true)]),
            message(Role::Assistant, vec![tool_call("c", json!({"_raw": "{"}))]),
            message(Role::Tool, vec![omitted]),
            message(Role::Assistant, vec![Part::Plan { entries: json!([]) }]),
            message(Role::User, vec![picture()]),
        ]);
        asked.system = Some("Be brief.".to_owned());
        let body = body(&asked, "m");
        let wanted = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Summary of the conversation so far:\n\na boat was built\n\nsee\n\n[a picture, image/png, which cannot be shown here]\n\nthis"},
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
            {"role": "user", "content": "[a picture, image/png, which cannot be shown here]"},
        ]);
        assert_eq!(body["messages"], wanted);
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
        asked.messages = vec![message(Role::User, vec![text("see"), picture()])];
        asked.images = images();
        let wanted = json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}}]);
        assert_eq!(super::body(&asked, "m")["messages"][1]["content"], wanted);
    }

    #[test]
    fn tools_are_offered_only_where_there_are_some() {
        let mut asked = request(vec![said(Role::User, "hi")]);
        assert_eq!(body(&asked, "m").get("tools"), None, "an empty list is refused by some");
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tool = |name: &str, parameters: &Value| Tool {
            name: name.to_owned(),
            description: "d".to_owned(),
            parameters: parameters.clone(),
        };
        asked.tools = vec![tool("a", &schema), tool("b", &Value::Null)];
        asked.options.insert("effort".to_owned(), "low".to_owned());
        let body = body(&asked, "m");
        let function = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}});
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
