//! Chat completions.

mod answers;
mod requests;

use serde_json::{Value, json};

use super::event;

pub(crate) fn delta(delta: Value) -> String {
    event(
        &json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
    )
}

pub(crate) fn words(text: &str) -> String {
    delta(json!({"content": text}))
}

pub(crate) fn finished(reason: &str) -> String {
    event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";
