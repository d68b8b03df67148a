//! A request as the Messages API wants it: what the model sees.
//!
//! Roles alternate, results stand directly behind their calls and before any words, and what the model thought goes back
//! to it with its signature, byte for byte. What stays the same from request to request is marked, so that the server
//! keeps it at hand: the tools, the system prompt, and the history before the newest message.

use ctx_core::message::Role;
use ctx_engine::provider::Request;
use serde_json::{Value, json};

use crate::model_request::{Piece, nothing, said, schema, system, turns};

/// The body of the request.
pub(crate) fn body(request: &Request, model: &str, max_tokens: u64) -> Value {
    let mut messages = messages(request);
    let thinking = thinking(request).filter(|_| may_think(&messages));
    let count = messages.len();
    if let Some(before) = count.checked_sub(2) {
        mark(messages[before]["content"].as_array_mut().and_then(|blocks| blocks.last_mut()));
    }
    let mut body =
        json!({ "model": model, "max_tokens": max_tokens, "messages": messages, "stream": true });
    if let Some(system) = system(request) {
        body["system"] = json!([{ "type": "text", "text": system }]);
        mark(body["system"].get_mut(0));
    }
    if !request.tools.is_empty() {
        let tool = |tool: &ctx_core::inbox::Tool| json!({ "name": tool.name, "description": tool.description, "input_schema": schema(tool) });
        body["tools"] = request.tools.iter().map(tool).collect();
        mark(body["tools"].get_mut(request.tools.len() - 1));
    }
    if let Some(budget) = thinking {
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
        body["max_tokens"] = json!(max_tokens.saturating_add(budget));
    }
    body
}

/// Asks to go on from what the model said before it paused.
pub(super) fn go_on(body: &mut Value, said: Vec<Value>) {
    let Some(messages) = body["messages"].as_array_mut() else { return };
    match messages
        .last_mut()
        .filter(|last| last["role"] == "assistant")
        .and_then(|last| last["content"].as_array_mut())
    {
        Some(content) => content.extend(said),
        None => messages.push(json!({ "role": "assistant", "content": said })),
    }
}

fn mark(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
}

/// How many tokens it may think, by the session's effort.
fn thinking(request: &Request) -> Option<u64> {
    match request.options.get("effort")?.as_str() {
        "minimal" | "low" => Some(2048),
        "medium" => Some(8192),
        "high" => Some(16_384),
        "xhigh" | "max" => Some(32_768),
        _ => None,
    }
}

/// In the middle of its calls a model may think only where it began by thinking.
fn may_think(messages: &[Value]) -> bool {
    let is_result = |message: &Value| message["content"][0]["type"] == "tool_result";
    let last = messages.last().is_some_and(is_result);
    let began = || messages.iter().rev().find(|message| message["role"] == "assistant");
    let thought = |message: &Value| {
        matches!(message["content"][0]["type"].as_str(), Some("thinking" | "redacted_thinking"))
    };
    !last || began().is_some_and(thought)
}

fn messages(request: &Request) -> Vec<Value> {
    let turns = turns(request);
    let mut all: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in &turns {
        let said = said(message, request);
        let role = if said.role == Role::Assistant { "assistant" } else { "user" };
        let mut blocks: Vec<Value> =
            said.parts.into_iter().filter_map(|piece| block(piece, role)).collect();
        // What is left where others' reasoning was taken out may lead nowhere.
        while blocks.last().is_some_and(is_thinking) {
            blocks.pop();
        }
        match all.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => all.push((role, blocks)),
        }
    }
    if all.first().is_none_or(|(role, _)| *role != "user") {
        all.insert(0, ("user", vec![json!({ "type": "text", "text": nothing() })]));
    }
    all.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

fn block(piece: Piece<'_>, role: &str) -> Option<Value> {
    Some(match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Image { media_type, data } => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": media_type, "data": data } })
        }
        Piece::Thought(raw) if role == "assistant" && is_thinking(raw) => raw.clone(),
        Piece::Thought(_) => return None,
        Piece::Call { id, name, params } => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input(params) })
        }
        Piece::Result { id, text, is_error: false } => {
            json!({ "type": "tool_result", "tool_use_id": id, "content": text })
        }
        Piece::Result { id, text, is_error: true } => {
            json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true })
        }
    })
}

/// Thinking that the server can check again.
pub(super) fn is_thinking(raw: &Value) -> bool {
    let has = |key: &str| raw[key].as_str().is_some_and(|text| !text.is_empty());
    match raw["type"].as_str() {
        Some("thinking") => has("signature") && raw["thinking"].is_string(),
        Some("redacted_thinking") => has("data"),
        _ => false,
    }
}

/// Only an object is taken.
fn input(params: &Value) -> Value {
    match params {
        Value::Object(_) => params.clone(),
        Value::Null => json!({}),
        other => json!({ "value": other }),
    }
}
