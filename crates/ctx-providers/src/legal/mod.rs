//! Whatever is in a history, what is sent is legal: arbitrary histories, projected for each API, and the body that would
//! be sent held against that API's own rules, written down by hand. The same history gives the same bytes.

mod anthropic;
mod chat;
mod histories;
mod responses;

use std::collections::BTreeSet;

use ctx_core::project::{Past, Pictures, project};
use ctx_engine::provider::Request;
use proptest::prelude::*;
use serde_json::Value;

use crate::testing::{images, request};
use histories::{ME, history, wishes};

/// What is wrong with a body.
type Verdict = Result<(), String>;

/// Ids of calls and names of tools, as both APIs take them.
fn is_name(text: &Value) -> bool {
    let text = text.as_str().unwrap_or_default();
    matches!(text.len(), 1..=64) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn says(text: &Value) -> bool {
    text.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn rule(holds: bool, what: &str, about: &Value) -> Verdict {
    if holds { Ok(()) } else { Err(format!("{what}: {about}")) }
}

/// Calls that wait for their results.
#[derive(Default)]
struct Calls {
    open: Vec<String>,
    seen: BTreeSet<String>,
}

impl Calls {
    fn call(&mut self, id: &Value, about: &Value) -> Verdict {
        rule(is_name(id), "an id that is not taken", about)?;
        let id = id.as_str().unwrap_or_default().to_owned();
        rule(self.seen.insert(id.clone()), "an id twice", about)?;
        self.open.push(id);
        Ok(())
    }

    fn result(&mut self, id: &Value, about: &Value) -> Verdict {
        let at = self.open.iter().position(|open| id == open.as_str());
        rule(at.is_some(), "a result without its call", about)?;
        self.open.remove(at.unwrap_or_default());
        Ok(())
    }

    fn none_open(&self, about: &Value) -> Verdict {
        rule(self.open.is_empty(), "a call without its result", about)
    }
}

fn asked(history: &[Past], wishes: &histories::Wishes) -> Request {
    let pictures = if wishes.images { Pictures::Shown } else { Pictures::Described };
    let mut asked = request(project(history, ME, pictures));
    asked.images = if wishes.images { images() } else { Default::default() };
    asked.system = wishes.system.clone();
    asked.tools = wishes.tools.clone();
    asked.options = wishes.effort.iter().map(|effort| ("effort".to_owned(), effort.clone())).collect();
    asked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_history_is_a_legal_request_and_always_the_same_one(history in history(), wishes in wishes()) {
        // R237
        let before = history.clone();
        let request = asked(&history, &wishes);
        let bodies = |request: &Request| {
            [
                crate::openai::chat::request::body(request, "m"),
                crate::openai::responses::request::body(request, "m", true),
                crate::anthropic::request::body(request, "m", 1000),
            ]
        };
        let [chat, responses, messages] = bodies(&request);
        prop_assert_eq!(chat::check(&chat), Ok(()));
        prop_assert_eq!(responses::check(&responses), Ok(()));
        prop_assert_eq!(anthropic::check(&messages), Ok(()));
        let bytes = |bodies: [Value; 3]| bodies.map(|body| body.to_string());
        prop_assert_eq!(bytes([chat, responses, messages]), bytes(bodies(&asked(&history, &wishes))));
        prop_assert_eq!(history, before, "what is stored is not touched");
    }
}

#[test]
fn the_checkers_see_what_is_wrong() {
    use serde_json::json;
    let chat = |messages: Value| chat::check(&json!({"model": "m", "stream": true, "messages": messages}));
    let user = json!({"role": "user", "content": "x"});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
    assert_eq!(chat(json!([user, call, result])), Ok(()));
    for bad in
        [json!([]), json!([user, call]), json!([user, result]), json!([user, call, user]), json!([call, result]), json!([user, user])]
    {
        assert!(chat(bad.clone()).is_err(), "{bad}");
    }
    assert!(chat(json!([{"role": "user", "content": " "}])).is_err());

    let responses = |input: Value| responses::check(&json!({"model": "m", "stream": true, "store": false, "input": input}));
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]});
    let call = json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "a", "output": "r"});
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"});
    assert_eq!(responses(json!([user, reasoning, call, result, user])), Ok(()));
    for bad in [json!([]), json!([user, call]), json!([user, result]), json!([user, reasoning, user]), json!([user, call, user, result])] {
        assert!(responses(bad.clone()).is_err(), "{bad}");
    }

    let messages = |messages: Value| anthropic::check(&json!({"model": "m", "stream": true, "max_tokens": 9, "messages": messages}));
    let text = json!({"type": "text", "text": "x"});
    let user = json!({"role": "user", "content": [text]});
    let call = json!({"type": "tool_use", "id": "a", "name": "t", "input": {}});
    let calls = json!({"role": "assistant", "content": [text, call]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "r"});
    let thinking = json!({"type": "thinking", "thinking": "h", "signature": "s"});
    assert_eq!(messages(json!([user, calls, {"role": "user", "content": [result, text]}])), Ok(()));
    let bad = [
        json!([]),
        json!([user, calls]),
        json!([user, user]),
        json!([calls, {"role": "user", "content": [result]}]),
        json!([user, calls, {"role": "user", "content": [text, result]}]),
        json!([user, {"role": "assistant", "content": [call, text]}, {"role": "user", "content": [result]}]),
        json!([user, {"role": "assistant", "content": [text, thinking]}, user]),
        json!([user, {"role": "assistant", "content": []}, user]),
    ];
    for bad in bad {
        assert!(messages(bad.clone()).is_err(), "{bad}");
    }
}
