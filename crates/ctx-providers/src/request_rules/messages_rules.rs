//! Rules of the Messages API.

use serde_json::Value;

use super::{CallPairs, Verdict, has_text, is_identifier, list, rule};

/// Maximum number of `cache_control` markers in one request.
const CACHE_MARKERS_MAX: usize = 4;
/// Smallest thinking budget in tokens; a budget must also be below `max_tokens`.
const THINKING_BUDGET_MIN: u64 = 1024;

pub(super) fn check(body: &Value) -> Verdict {
    let max_tokens = body["max_tokens"].as_u64().unwrap_or_default();
    let envelope = has_text(&body["model"]) && body["stream"] == true && max_tokens > 0;
    rule(envelope, "invalid envelope", body)?;
    for block in list(body, "system") {
        let valid = block["type"] == "text" && has_text(&block["text"]);
        rule(valid, "empty system prompt", block)?;
    }
    for tool in list(body, "tools") {
        let valid = is_identifier(&tool["name"]) && tool["input_schema"]["type"] == "object";
        rule(valid, "invalid tool", tool)?;
    }
    let messages = list(body, "messages");
    check_roles(messages, body)?;
    let mut calls = CallPairs::default();
    for message in messages {
        let blocks = list(message, "content");
        rule(!blocks.is_empty(), "empty message", message)?;
        match message["role"].as_str() {
            Some("user") => check_user(blocks, &mut calls)?,
            Some("assistant") => check_assistant(blocks, &mut calls)?,
            _ => rule(false, "unknown role", message)?,
        }
    }
    calls.none_open(body)?;
    check_thinking_budget(body, messages, max_tokens)?;
    rule(cache_markers(body) <= CACHE_MARKERS_MAX, "too many cache markers", body)
}

fn check_roles(messages: &[Value], body: &Value) -> Verdict {
    let is_user = |message: Option<&Value>| message.is_some_and(|it| it["role"] == "user");
    rule(is_user(messages.first()), "first message is not from the user", body)?;
    rule(is_user(messages.last()), "last message is not from the user", body)?;
    let alternates = messages.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]);
    rule(alternates, "roles do not alternate", body)
}

/// All results come first, then text and images.
fn check_user(blocks: &[Value], calls: &mut CallPairs) -> Verdict {
    for block in blocks {
        let valid = match block["type"].as_str() {
            Some("tool_result") => {
                calls.result(&block["tool_use_id"], block)?;
                has_text(&block["content"])
            }
            Some("text") => calls.open.is_empty() && has_text(&block["text"]),
            Some("image") => {
                let source = &block["source"];
                calls.open.is_empty()
                    && source["media_type"] == "image/png"
                    && has_text(&source["data"])
            }
            _ => false,
        };
        rule(valid, "invalid user block", block)?;
    }
    calls.none_open(&Value::from(blocks.to_vec()))
}

/// Thinking is signed and is not the last block; only calls follow a call.
fn check_assistant(blocks: &[Value], calls: &mut CallPairs) -> Verdict {
    for block in blocks {
        let before_calls = calls.open.is_empty();
        let valid = match block["type"].as_str() {
            Some("text") => before_calls && has_text(&block["text"]),
            Some("thinking") => {
                before_calls && has_text(&block["signature"]) && block["thinking"].is_string()
            }
            Some("redacted_thinking") => before_calls && has_text(&block["data"]),
            Some("tool_use") => {
                calls.call(&block["id"], block)?;
                is_identifier(&block["name"]) && block["input"].is_object()
            }
            _ => false,
        };
        rule(valid, "invalid assistant block", block)?;
        let marked = is_thinking(block) && block.get("cache_control").is_some();
        rule(!marked, "cache marker on thinking", block)?;
    }
    let ends_with_thinking = blocks.last().is_some_and(is_thinking);
    rule(!ends_with_thinking, "thinking is the last block", &Value::from(blocks.to_vec()))
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// With thinking enabled, a request that ends with tool results must continue an assistant
/// message that starts with thinking.
fn check_thinking_budget(body: &Value, messages: &[Value], max_tokens: u64) -> Verdict {
    let Some(budget) = body["thinking"]["budget_tokens"].as_u64() else { return Ok(()) };
    let valid = (THINKING_BUDGET_MIN..max_tokens).contains(&budget);
    rule(valid, "invalid thinking budget", &body["thinking"])?;
    let continues_calls =
        messages.last().is_some_and(|last| last["content"][0]["type"] == "tool_result");
    let assistant = messages
        .iter()
        .rev()
        .find(|message| message["role"] == "assistant")
        .unwrap_or(&Value::Null);
    let valid = !continues_calls || is_thinking(&assistant["content"][0]);
    rule(valid, "calls that did not start with thinking", assistant)
}

fn cache_markers(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| usize::from(key == "cache_control") + cache_markers(value))
            .sum(),
        Value::Array(values) => values.iter().map(cache_markers).sum(),
        _ => 0,
    }
}
