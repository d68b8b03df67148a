//! The chat completions API.

mod chat_requests;
mod chat_responses;

use serde_json::{Value, json};

use super::event;

pub(crate) fn delta(delta: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    event(&json!({"object": "chat.completion.chunk", "choices": [choice]}))
}

pub(crate) fn text(text: &str) -> String {
    delta(json!({"content": text}))
}

pub(crate) fn finished(reason: &str) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";
