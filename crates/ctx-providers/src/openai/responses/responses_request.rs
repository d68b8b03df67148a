//! Builds the request body of the Responses API.
//!
//! The server stores nothing (`store: false`). It returns the model's reasoning encrypted; ctx
//! keeps the item unchanged and sends it back before the output that followed it.

use std::sync::Arc;

use ctx_core::inbox::Tool;
use ctx_core::message::Role;
use ctx_engine::provider::{Failure, FailureClass, Request};
use serde_json::{Value, json};

use crate::model_request::{
    ApiMessage, ApiPart, EMPTY_CONVERSATION, alternating_messages, api_message, arguments_json,
    data_url, result_text, schema, system_prompt,
};

/// `with_reasoning` requests the encrypted reasoning.
pub(crate) fn body(request: &Request, model: &str, with_reasoning: bool) -> Value {
    let messages = alternating_messages(request);
    let mut input: Vec<Value> =
        messages.iter().flat_map(|message| items(api_message(message, request))).collect();
    if input.is_empty() {
        input.push(user_item(vec![json!({ "type": "input_text", "text": EMPTY_CONVERSATION })]));
    }
    let mut body = json!({ "model": model, "input": input, "stream": true, "store": false });
    if let Some(system) = system_prompt(request) {
        body["instructions"] = json!(system);
    }
    if with_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if !request.tools.is_empty() {
        let tool = |tool: &Arc<Tool>| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": schema(tool),
                "strict": false,
            })
        };
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(effort) = request.options.get("effort") {
        body["reasoning"] = json!({ "effort": effort });
    }
    body
}

/// Whether the server rejected a request only because the model has no encrypted reasoning.
pub(crate) fn rejects_reasoning(failure: &Failure) -> bool {
    let message = failure.message.to_lowercase();
    failure.class == FailureClass::Permanent
        && message.contains("encrypted")
        && message.contains("not supported")
}

fn items(message: ApiMessage<'_>) -> Vec<Value> {
    match message.role {
        Role::Assistant => output_items(message.parts),
        Role::Tool => message.parts.into_iter().filter_map(result_item).collect(),
        Role::User | Role::System => {
            let content: Vec<Value> = message.parts.into_iter().filter_map(input_part).collect();
            if content.is_empty() { Vec::new() } else { vec![user_item(content)] }
        }
    }
}

fn user_item(content: Vec<Value>) -> Value {
    json!({ "type": "message", "role": "user", "content": content })
}

fn input_part(part: ApiPart<'_>) -> Option<Value> {
    match part {
        ApiPart::Text(text) => Some(json!({ "type": "input_text", "text": text })),
        ApiPart::Image { media_type, data } => {
            let url = data_url(media_type, &data);
            Some(json!({ "type": "input_image", "detail": "auto", "image_url": url }))
        }
        _ => None,
    }
}

fn output_items(parts: Vec<ApiPart<'_>>) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for part in parts {
        items.extend(match part {
            ApiPart::Text(text) => {
                let content = json!([{ "type": "output_text", "text": text }]);
                Some(json!({ "type": "message", "role": "assistant", "content": content }))
            }
            ApiPart::Thought(raw) if is_reusable_reasoning(raw) => Some(raw.clone()),
            ApiPart::Call { id, name, params } => {
                let arguments = arguments_json(params);
                Some(json!({
                    "type": "function_call", "call_id": id, "name": name, "arguments": arguments,
                }))
            }
            _ => None,
        });
    }
    items
}

fn result_item(part: ApiPart<'_>) -> Option<Value> {
    let ApiPart::Result { id, text, is_error } = part else { return None };
    let output = result_text(text, is_error);
    Some(json!({ "type": "function_call_output", "call_id": id, "output": output }))
}

/// Whether the server can use a reasoning item again. It stores nothing, so the id alone is
/// useless.
pub(super) fn is_reusable_reasoning(raw: &Value) -> bool {
    raw["type"] == "reasoning"
        && raw["encrypted_content"].as_str().is_some_and(|content| !content.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::{image_part, message, request, text_message, tool_call, tool_result};
    use ctx_core::message::Part;

    #[test]
    fn body_contains_the_conversation_and_the_models_reasoning() {
        let raw =
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
        let thought = |raw: &Value| Part::Thought { text: String::new(), raw: Some(raw.clone()) };
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let mut request = request(vec![
            message(Role::System, vec![Part::Summary { text: "a boat".to_owned() }]),
            message(Role::User, vec![text("see"), image_part()]),
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
            message(Role::Tool, vec![tool_result("a", "no file", true)]),
            text_message(Role::User, "go on"),
        ]);
        request.images = crate::test_harness::images();
        request.system = Some("Be brief.".to_owned());
        let body = body(&request, "m", true);
        let url = "data:image/png;base64,AQID";
        let expected = json!([
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Summary of the conversation so far:\n\na boat"},
                {"type": "input_text", "text": "[Next message:]"},
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "detail": "auto", "image_url": url},
            ]},
            raw,
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "I look."},
            ]},
            {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{\"n\":1}"},
            {"type": "function_call_output", "call_id": "a", "output": "Error: no file"},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "go on"},
            ]},
        ]);
        assert_eq!(body["input"], expected);
        assert_eq!((&body["instructions"], &body["store"]), (&json!("Be brief."), &json!(false)));
        assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
        assert_eq!((body.get("tools"), body.get("reasoning")), (None, None));
        assert_eq!(super::body(&request, "m", false).get("include"), None);
    }
}
