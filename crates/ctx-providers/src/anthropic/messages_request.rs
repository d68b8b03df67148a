//! Builds the request body of the Messages API.
//!
//! Roles alternate, and results directly follow their calls, before any text. Signed thinking is
//! sent back unchanged. Cache markers are set after the parts that later requests repeat: the
//! tools, the system prompt, and the history before the newest message.

use std::sync::Arc;

use ctx_core::inbox::Tool;
use ctx_core::message::Role;
use ctx_engine::provider::Request;
use serde_json::{Value, json};

use crate::model_request::{
    ApiPart, EMPTY_CONVERSATION, alternating_messages, api_message, schema, system_prompt,
};

pub(crate) fn body(request: &Request, model: &str, max_tokens: u64) -> Value {
    let mut messages = messages(request);
    let thinking = thinking_budget(request).filter(|_| accepts_thinking(&messages));
    let count = messages.len();
    if let Some(before) = count.checked_sub(2) {
        mark_for_cache(
            messages[before]["content"].as_array_mut().and_then(|blocks| blocks.last_mut()),
        );
    }
    let mut body =
        json!({ "model": model, "max_tokens": max_tokens, "messages": messages, "stream": true });
    if let Some(system) = system_prompt(request) {
        body["system"] = json!([{ "type": "text", "text": system }]);
        mark_for_cache(body["system"].get_mut(0));
    }
    if !request.tools.is_empty() {
        let tool = |tool: &Arc<Tool>| {
            let (name, description) = (&tool.name, &tool.description);
            json!({ "name": name, "description": description, "input_schema": schema(tool) })
        };
        body["tools"] = request.tools.iter().map(tool).collect();
        mark_for_cache(body["tools"].get_mut(request.tools.len() - 1));
    }
    if let Some(budget) = thinking {
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
        body["max_tokens"] = json!(max_tokens.saturating_add(budget));
    }
    body
}

/// Appends the content of a paused response, so that the model continues it.
pub(super) fn continue_from(body: &mut Value, content_so_far: Vec<Value>) {
    let Some(messages) = body["messages"].as_array_mut() else { return };
    match messages
        .last_mut()
        .filter(|last| last["role"] == "assistant")
        .and_then(|last| last["content"].as_array_mut())
    {
        Some(content) => content.extend(content_so_far),
        None => messages.push(json!({ "role": "assistant", "content": content_so_far })),
    }
}

fn mark_for_cache(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
}

/// The thinking budget in tokens for the session's `effort`.
fn thinking_budget(request: &Request) -> Option<u64> {
    match request.options.get("effort")?.as_str() {
        "minimal" | "low" => Some(2048),
        "medium" => Some(8192),
        "high" => Some(16_384),
        "xhigh" | "max" => Some(32_768),
        _ => None,
    }
}

/// Whether the API accepts a thinking budget. Between a call and its result, it does so only if the
/// assistant message starts with thinking.
fn accepts_thinking(messages: &[Value]) -> bool {
    let is_result = |message: &Value| message["content"][0]["type"] == "tool_result";
    let last = messages.last().is_some_and(is_result);
    let assistant = || messages.iter().rev().find(|message| message["role"] == "assistant");
    let starts_with_thinking = |message: &Value| {
        matches!(message["content"][0]["type"].as_str(), Some("thinking" | "redacted_thinking"))
    };
    !last || assistant().is_some_and(starts_with_thinking)
}

fn messages(request: &Request) -> Vec<Value> {
    let messages = alternating_messages(request);
    let mut merged: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in &messages {
        let converted = api_message(message, request);
        let role = if converted.role == Role::Assistant { "assistant" } else { "user" };
        let mut blocks: Vec<Value> =
            converted.parts.into_iter().filter_map(|part| block(part, role)).collect();
        // A message must not end with thinking. Removing other parts can leave it at the end.
        while blocks.last().is_some_and(is_reusable_thinking) {
            blocks.pop();
        }
        match merged.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => merged.push((role, blocks)),
        }
    }
    if merged.first().is_none_or(|(role, _)| *role != "user") {
        merged.insert(0, ("user", vec![json!({ "type": "text", "text": EMPTY_CONVERSATION })]));
    }
    merged.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

fn block(part: ApiPart<'_>, role: &str) -> Option<Value> {
    Some(match part {
        ApiPart::Text(text) => json!({ "type": "text", "text": text }),
        ApiPart::Image { media_type, data } => {
            let source = json!({ "type": "base64", "media_type": media_type, "data": data });
            json!({ "type": "image", "source": source })
        }
        ApiPart::Thought(raw) if role == "assistant" && is_reusable_thinking(raw) => raw.clone(),
        ApiPart::Thought(_) => return None,
        ApiPart::Call { id, name, params } => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input(params) })
        }
        ApiPart::Result { id, text, is_error: false } => {
            json!({ "type": "tool_result", "tool_use_id": id, "content": text })
        }
        ApiPart::Result { id, text, is_error: true } => {
            json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true })
        }
    })
}

/// Whether the server can verify a thinking block again.
pub(super) fn is_reusable_thinking(raw: &Value) -> bool {
    let has = |key: &str| raw[key].as_str().is_some_and(|text| !text.is_empty());
    match raw["type"].as_str() {
        Some("thinking") => has("signature") && raw["thinking"].is_string(),
        Some("redacted_thinking") => has("data"),
        _ => false,
    }
}

/// The API accepts only objects as call input.
fn input(params: &Value) -> Value {
    match params {
        Value::Object(_) => params.clone(),
        Value::Null => json!({}),
        other => json!({ "value": other }),
    }
}
