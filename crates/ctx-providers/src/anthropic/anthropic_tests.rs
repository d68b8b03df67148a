//! What the model sees. How it answers is tested against a real server, in `tests/wire`.

use ctx_core::inbox::Tool;
use ctx_core::message::{Part, Role};
use serde_json::{Value, json};

use super::*;
use crate::Timeouts;
use crate::test_harness::{images, message, picture, request, result, said, tool_call};

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn thought(raw: Value) -> Part {
    Part::Thought { text: String::new(), raw: Some(raw) }
}

const MARK: &str = "cache_control";

#[test]
fn the_model_sees_the_conversation_and_its_own_thinking() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let redacted = json!({"type": "redacted_thinking", "data": "xyz"});
    let mut asked = request(vec![
        message(Role::System, vec![Part::Summary { text: "a boat".to_owned() }]),
        message(Role::User, vec![text("see"), picture()]),
        message(
            Role::Assistant,
            vec![
                thought(thinking.clone()),
                thought(redacted.clone()),
                thought(json!({"type": "reasoning", "encrypted_content": "x"})),
                text("I look."),
                tool_call("a", json!({"n": 1})),
                tool_call("b", json!([1])),
            ],
        ),
        message(Role::Tool, vec![result("a", "one", false), result("b", "no file", true)]),
        said(Role::User, "go on"),
    ]);
    asked.images = images();
    asked.system = Some("Be brief.".to_owned());
    asked.tools = vec![Tool {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: Value::Null,
    }];
    let body = messages_request::body(&asked, "m", 100);
    let ephemeral = json!({"type": "ephemeral"});
    let wanted = json!({
        "model": "m",
        "max_tokens": 100,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", MARK: ephemeral}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}, MARK: ephemeral}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Summary of the conversation so far:\n\na boat"},
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQID"}},
            ]},
            {"role": "assistant", "content": [
                thinking,
                redacted,
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {"value": [1]}, MARK: ephemeral},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no file", "is_error": true},
                {"type": "text", "text": "go on"},
            ]},
        ],
    });
    assert_eq!(body, wanted);
}

#[test]
fn effort_lets_it_think_but_not_in_the_middle_of_calls_that_began_without() {
    let mut asked = request(vec![said(Role::User, "hi")]);
    asked.options.insert("effort".to_owned(), "medium".to_owned());
    let body = messages_request::body(&asked, "m", 100);
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 8192}));
    assert_eq!(body["max_tokens"], 8292, "what it thinks does not shorten its answer");

    let called = |thoughts: Vec<Part>| {
        let content = thoughts.into_iter().chain([tool_call("a", json!({}))]).collect();
        vec![
            said(Role::User, "hi"),
            message(Role::Assistant, content),
            message(Role::Tool, vec![result("a", "one", false)]),
        ]
    };
    asked.messages = called(vec![]);
    assert_eq!(messages_request::body(&asked, "m", 100).get("thinking"), None);
    asked.messages =
        called(vec![thought(json!({"type": "thinking", "thinking": "hm", "signature": "sig"}))]);
    assert!(messages_request::body(&asked, "m", 100).get("thinking").is_some());
}

#[test]
fn it_says_what_it_can_and_takes_its_address_either_way() {
    let config = |base_url: &str| Config {
        base_url: base_url.to_owned(),
        api_key: None,
        key_variable: Some("CTX_TEST_NO_SUCH_KEY".to_owned()),
        model: Some("m".to_owned()),
        context_window: 4096,
        images: true,
        timeouts: Timeouts::default(),
    };
    let about = Anthropic::new(config("http://127.0.0.1:1"), 100).about();
    assert_eq!((about.kind, about.can.images, about.can.tools), ("anthropic", true, true));
    assert_eq!(about.unavailable.as_deref(), Some("set CTX_TEST_NO_SUCH_KEY"));
    for url in ["http://127.0.0.1:1/v1", "http://127.0.0.1:1/", "http://127.0.0.1:1/v1/"] {
        assert_eq!(Anthropic::new(config(url), 100).remote.config.base_url, "http://127.0.0.1:1");
    }
}
