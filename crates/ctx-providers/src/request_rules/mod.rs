//! Property test: every projected history is a valid request for every API.
//!
//! Arbitrary histories are projected for each API. The request body is checked against the rules
//! of that API, which the files here state by hand. Equal histories must give equal bytes.

mod chat_rules;
mod mark_rules;
mod messages_rules;
mod random_histories;
mod responses_rules;

use std::collections::BTreeSet;
use std::sync::Arc;

use ctx_core::projection::{ImageHandling, PastTurn, project};
use ctx_engine::provider::Request;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::test_harness::{images, request};
use random_histories::{PROVIDER, RequestOptions, history, request_options};

/// The first rule that a body violates.
type Verdict = Result<(), String>;

/// Whether all three APIs accept a text as a call id and as a tool name.
fn is_identifier(text: &Value) -> bool {
    let text = text.as_str().unwrap_or_default();
    matches!(text.len(), 1..=64)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn has_text(text: &Value) -> bool {
    text.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn rule(holds: bool, violation: &str, subject: &Value) -> Verdict {
    if holds { Ok(()) } else { Err(format!("{violation}: {subject}")) }
}

fn list<'a>(body: &'a Value, key: &str) -> &'a [Value] {
    body.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Pairs tool calls with their results.
#[derive(Default)]
struct CallPairs {
    open: Vec<String>,
    seen: BTreeSet<String>,
}

impl CallPairs {
    fn call(&mut self, id: &Value, subject: &Value) -> Verdict {
        rule(is_identifier(id), "invalid call id", subject)?;
        let id = id.as_str().unwrap_or_default().to_owned();
        rule(self.seen.insert(id.clone()), "duplicate call id", subject)?;
        self.open.push(id);
        Ok(())
    }

    fn result(&mut self, id: &Value, subject: &Value) -> Verdict {
        let at = self.open.iter().position(|open| id == open.as_str());
        rule(at.is_some(), "result without its call", subject)?;
        self.open.remove(at.unwrap_or_default());
        Ok(())
    }

    fn none_open(&self, subject: &Value) -> Verdict {
        rule(self.open.is_empty(), "call without its result", subject)
    }
}

fn projected_request(history: &[PastTurn], options: &RequestOptions) -> Request {
    let pictures = if options.images { ImageHandling::Include } else { ImageHandling::Describe };
    let mut projected = request(project(history, PROVIDER, pictures));
    projected.images = if options.images { images() } else { Default::default() };
    projected.system = options.system.clone();
    projected.tools = options.tools.iter().cloned().map(Arc::new).collect();
    projected.options =
        options.effort.iter().map(|effort| ("effort".to_owned(), effort.clone())).collect();
    projected
}

fn bodies(request: &Request) -> [Value; 3] {
    [
        serde_json::from_slice(&crate::openai::chat::chat_request::body(request, "m"))
            .expect("JSON"),
        crate::openai::responses::responses_request::body(request, "m", true),
        crate::anthropic::messages_request::body(request, "m", 1000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_history_is_a_valid_and_deterministic_request(
        history in history(),
        options in request_options(),
    ) {
        // R237
        let before = history.clone();
        let [chat, responses, messages] = bodies(&projected_request(&history, &options));
        prop_assert_eq!(chat_rules::check(&chat), Ok(()));
        prop_assert_eq!(responses_rules::check(&responses), Ok(()));
        prop_assert_eq!(messages_rules::check(&messages), Ok(()));
        let bytes = |bodies: [Value; 3]| bodies.map(|body| body.to_string());
        let again = bodies(&projected_request(&history, &options));
        prop_assert_eq!(bytes([chat, responses, messages]), bytes(again));
        prop_assert_eq!(history, before, "projecting does not change the stored history");
    }
}

#[test]
fn chat_rules_reject_invalid_bodies() {
    let check = |messages: Value| {
        chat_rules::check(&json!({"model": "m", "stream": true, "messages": messages}))
    };
    let user = json!({"role": "user", "content": "x"});
    let function = json!({"name": "t", "arguments": "{}"});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": function},
    ]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
    assert_eq!(check(json!([user, call, result])), Ok(()));
    let invalid = [
        json!([]),
        json!([user, call]),
        json!([user, result]),
        json!([user, call, user]),
        json!([call, result]),
        json!([user, user]),
        json!([{"role": "user", "content": " "}]),
    ];
    for messages in invalid {
        assert!(check(messages.clone()).is_err(), "{messages}");
    }
}

#[test]
fn responses_rules_reject_invalid_bodies() {
    let check = |input: Value| {
        let body = json!({"model": "m", "stream": true, "store": false, "input": input});
        responses_rules::check(&body)
    };
    let content = json!([{"type": "input_text", "text": "x"}]);
    let user = json!({"type": "message", "role": "user", "content": content});
    let call = json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "a", "output": "r"});
    let reasoning =
        json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"});
    assert_eq!(check(json!([user, reasoning, call, result, user])), Ok(()));
    let invalid = [
        json!([]),
        json!([user, call]),
        json!([user, result]),
        json!([user, reasoning, user]),
        json!([user, call, user, result]),
    ];
    for input in invalid {
        assert!(check(input.clone()).is_err(), "{input}");
    }
}

#[test]
fn messages_rules_reject_invalid_bodies() {
    let check = |messages: Value| {
        let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": messages});
        messages_rules::check(&body)
    };
    let text = json!({"type": "text", "text": "x"});
    let user = json!({"role": "user", "content": [text]});
    let call = json!({"type": "tool_use", "id": "a", "name": "t", "input": {}});
    let calls = json!({"role": "assistant", "content": [text, call]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "r"});
    let results = json!({"role": "user", "content": [result]});
    let thinking = json!({"type": "thinking", "thinking": "h", "signature": "s"});
    assert_eq!(check(json!([user, calls, {"role": "user", "content": [result, text]}])), Ok(()));
    let invalid = [
        json!([]),
        json!([user, calls]),
        json!([user, user]),
        json!([calls, results]),
        json!([user, calls, {"role": "user", "content": [text, result]}]),
        json!([user, {"role": "assistant", "content": [call, text]}, results]),
        json!([user, {"role": "assistant", "content": [text, thinking]}, user]),
        json!([user, {"role": "assistant", "content": []}, user]),
    ];
    for messages in invalid {
        assert!(check(messages.clone()).is_err(), "{messages}");
    }
}
