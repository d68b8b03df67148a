//! The rules of Messages.

use serde_json::Value;

use super::{Calls, Verdict, is_name, rule, says};

/// The most marks that a request may have.
const MARKS_MAX: usize = 4;

pub(super) fn check(body: &Value) -> Verdict {
    let max_tokens = body["max_tokens"].as_u64().unwrap_or_default();
    rule(says(&body["model"]) && body["stream"] == true && max_tokens > 0, "the frame", body)?;
    for block in body.get("system").and_then(Value::as_array).into_iter().flatten() {
        rule(block["type"] == "text" && says(&block["text"]), "an empty system prompt", block)?;
    }
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        rule(is_name(&tool["name"]) && tool["input_schema"]["type"] == "object", "a tool", tool)?;
    }
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    rule(messages.first().is_some_and(|first| first["role"] == "user"), "the user begins", body)?;
    rule(messages.last().is_some_and(|last| last["role"] == "user"), "the user ends", body)?;
    rule(messages.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]), "roles alternate", body)?;
    let mut calls = Calls::default();
    for message in messages {
        let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        rule(!blocks.is_empty(), "an empty message", message)?;
        match message["role"].as_str() {
            Some("user") => user(blocks, &mut calls)?,
            Some("assistant") => assistant(blocks, &mut calls)?,
            _ => rule(false, "an unknown role", message)?,
        }
    }
    calls.none_open(body)?;
    thinking(body, messages, max_tokens)?;
    rule(marks(body) <= MARKS_MAX, "too many marks", body)
}

/// Results come first, all of them, and then the words.
fn user(blocks: &[Value], calls: &mut Calls) -> Verdict {
    for block in blocks {
        let good = match block["type"].as_str() {
            Some("tool_result") => {
                calls.result(&block["tool_use_id"], block)?;
                says(&block["content"])
            }
            Some("text") => calls.open.is_empty() && says(&block["text"]),
            Some("image") => calls.open.is_empty() && block["source"]["media_type"] == "image/png" && says(&block["source"]["data"]),
            _ => false,
        };
        rule(good, "a block of the user", block)?;
    }
    calls.none_open(&Value::from(blocks.to_vec()))
}

/// Thinking is signed and does not come last; nothing comes behind a call but calls.
fn assistant(blocks: &[Value], calls: &mut Calls) -> Verdict {
    for block in blocks {
        let good = match block["type"].as_str() {
            Some("text") => calls.open.is_empty() && says(&block["text"]),
            Some("thinking") => calls.open.is_empty() && says(&block["signature"]) && block["thinking"].is_string(),
            Some("redacted_thinking") => calls.open.is_empty() && says(&block["data"]),
            Some("tool_use") => {
                calls.call(&block["id"], block)?;
                is_name(&block["name"]) && block["input"].is_object()
            }
            _ => false,
        };
        rule(good, "a block of the model", block)?;
        let thinks = is_thinking(block);
        rule(!thinks || block.get("cache_control").is_none(), "a mark on thinking", block)?;
    }
    rule(!blocks.last().is_some_and(is_thinking), "thinking comes last", &Value::from(blocks.to_vec()))
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// Where it may think, it has room, and the calls that it is in the middle of began with thinking.
fn thinking(body: &Value, messages: &[Value], max_tokens: u64) -> Verdict {
    let Some(budget) = body["thinking"]["budget_tokens"].as_u64() else { return Ok(()) };
    rule((1024..max_tokens).contains(&budget), "a budget", &body["thinking"])?;
    let in_the_middle = messages.last().is_some_and(|last| last["content"][0]["type"] == "tool_result");
    let before = messages.iter().rev().find(|message| message["role"] == "assistant").unwrap_or(&Value::Null);
    rule(!in_the_middle || is_thinking(&before["content"][0]), "calls that began without thinking", before)
}

fn marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| usize::from(key == "cache_control") + marks(value)).sum(),
        Value::Array(values) => values.iter().map(marks).sum(),
        _ => 0,
    }
}
