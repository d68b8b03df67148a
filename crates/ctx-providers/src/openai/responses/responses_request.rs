//! A request as the Responses API wants it: what the model sees.
//!
//! The server keeps nothing (`store: false`): the history is ours. What a model reasoned comes encrypted, is kept as it
//! came, and goes back to it byte for byte before what it led to.

use ctx_core::message::Role;
use ctx_engine::provider::{Class, Failure, Request};
use serde_json::{Value, json};

use crate::model_request::{
    Piece, Said, arguments, data_url, marked, nothing, said, schema, system, turns,
};

/// The body of the request; `reasons` asks for the model's reasoning.
pub(crate) fn body(request: &Request, model: &str, reasons: bool) -> Value {
    let messages = turns(request);
    let mut input: Vec<Value> =
        messages.iter().flat_map(|message| items(said(message, request))).collect();
    if input.is_empty() {
        input.push(user(vec![json!({ "type": "input_text", "text": nothing() })]));
    }
    let mut body = json!({ "model": model, "input": input, "stream": true, "store": false });
    if let Some(system) = system(request) {
        body["instructions"] = json!(system);
    }
    if reasons {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if !request.tools.is_empty() {
        let tool = |tool: &ctx_core::inbox::Tool| json!({ "type": "function", "name": tool.name, "description": tool.description, "parameters": schema(tool), "strict": false });
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(effort) = request.options.get("effort") {
        body["reasoning"] = json!({ "effort": effort });
    }
    body
}

/// Whether a model refuses only because it has no reasoning to give.
pub(crate) fn is_plain(failure: &Failure) -> bool {
    let said = failure.message.to_lowercase();
    failure.class == Class::GiveUp && said.contains("encrypted") && said.contains("not supported")
}

fn items(said: Said<'_>) -> Vec<Value> {
    match said.role {
        Role::Assistant => answered(said.parts),
        Role::Tool => said.parts.into_iter().filter_map(result).collect(),
        Role::User | Role::System => {
            let content: Vec<Value> = said.parts.into_iter().filter_map(shown).collect();
            if content.is_empty() { Vec::new() } else { vec![user(content)] }
        }
    }
}

fn user(content: Vec<Value>) -> Value {
    json!({ "type": "message", "role": "user", "content": content })
}

fn shown(piece: Piece<'_>) -> Option<Value> {
    match piece {
        Piece::Text(text) => Some(json!({ "type": "input_text", "text": text })),
        Piece::Image { media_type, data } => Some(
            json!({ "type": "input_image", "detail": "auto", "image_url": data_url(media_type, &data) }),
        ),
        _ => None,
    }
}

fn answered(pieces: Vec<Piece<'_>>) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for piece in pieces {
        items.extend(match piece {
            Piece::Text(text) => {
                Some(json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] }))
            }
            Piece::Thought(raw) if is_reasoning(raw) => Some(raw.clone()),
            Piece::Call { id, name, params } => {
                Some(json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments(params) }))
            }
            _ => None,
        });
    }
    items
}

fn result(piece: Piece<'_>) -> Option<Value> {
    let Piece::Result { id, text, is_error } = piece else { return None };
    Some(json!({ "type": "function_call_output", "call_id": id, "output": marked(text, is_error) }))
}

/// Reasoning that the server can read again; by its id alone it finds nothing, since it keeps nothing.
pub(super) fn is_reasoning(raw: &Value) -> bool {
    raw["type"] == "reasoning"
        && raw["encrypted_content"].as_str().is_some_and(|content| !content.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::{message, picture, request, result, said, tool_call};
    use ctx_core::message::Part;

    #[test]
    fn the_model_sees_the_conversation_and_its_own_reasoning() {
        let raw =
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
        let thought = |raw: &Value| Part::Thought { text: String::new(), raw: Some(raw.clone()) };
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let mut asked = request(vec![
            message(Role::System, vec![Part::Summary { text: "a boat".to_owned() }]),
            message(Role::User, vec![text("see"), picture()]),
            message(
                Role::Assistant,
                vec![
                    thought(&raw),
                    thought(&json!({"type": "thinking", "signature": "s"})),
                    thought(&json!({"type": "reasoning", "id": "rs_2"})),
                    text("I look."),
                    tool_call("a", json!({"n": 1})),
                ],
            ),
            message(Role::Tool, vec![result("a", "no file", true)]),
            said(Role::User, "go on"),
        ]);
        asked.images = crate::test_harness::images();
        asked.system = Some("Be brief.".to_owned());
        let body = body(&asked, "m", true);
        let wanted = json!([
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Summary of the conversation so far:\n\na boat"},
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AQID"},
            ]},
            raw,
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{\"n\":1}"},
            {"type": "function_call_output", "call_id": "a", "output": "Error: no file"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
        ]);
        assert_eq!(body["input"], wanted);
        assert_eq!((&body["instructions"], &body["store"]), (&json!("Be brief."), &json!(false)));
        assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
        assert_eq!((body.get("tools"), body.get("reasoning")), (None, None));
        assert_eq!(super::body(&asked, "m", false).get("include"), None);
    }
}
