//! Request bodies and the description of a server. Responses are tested in `tests/providers`.

use std::sync::Arc;

use ctx_core::inbox::Tool;
use ctx_core::message::{Part, Role};
use serde_json::{Value, json};

use super::*;
use crate::Timeouts;
use crate::test_harness::{
    image_part, images, message, request, text_message, tool_call, tool_result,
};

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn thought(raw: Value) -> Part {
    Part::Thought { text: String::new(), raw: Some(raw) }
}

const CACHE_MARKER: &str = "cache_control";

#[test]
fn body_contains_the_conversation_and_the_models_thinking() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let redacted = json!({"type": "redacted_thinking", "data": "xyz"});
    let mut request = request(vec![
        message(Role::System, vec![Part::Summary { text: "a boat".to_owned() }]),
        message(Role::User, vec![text("see"), image_part()]),
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
        message(
            Role::Tool,
            vec![tool_result("a", "one", false), tool_result("b", "no file", true)],
        ),
        text_message(Role::User, "go on"),
    ]);
    request.images = images();
    request.system = Some("Be brief.".to_owned());
    request.tools = vec![Arc::new(Tool {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: Value::Null,
    })];
    let body = messages_request::body(&request, "m", 100);
    let ephemeral = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "m",
        "max_tokens": 100,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", CACHE_MARKER: ephemeral}],
        "tools": [{
            "name": "look",
            "description": "Looks.",
            "input_schema": {"type": "object", "properties": {}},
            CACHE_MARKER: ephemeral,
        }],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Summary of the conversation so far:\n\na boat"},
                {"type": "text", "text": "[Next message:]"},
                {"type": "text", "text": "see"},
                {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": "AQID",
                }},
            ]},
            {"role": "assistant", "content": [
                thinking,
                redacted,
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {"value": [1]},
                    CACHE_MARKER: ephemeral},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no file", "is_error": true},
                {"type": "text", "text": "go on"},
            ]},
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn effort_enables_thinking_unless_open_calls_began_without_it() {
    let mut request = request(vec![text_message(Role::User, "hi")]);
    request.options.insert("effort".to_owned(), "medium".to_owned());
    let body = messages_request::body(&request, "m", 100);
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 8192}));
    assert_eq!(body["max_tokens"], 8292, "the budget is added to the response limit");

    let after_call = |thoughts: Vec<Part>| {
        let content = thoughts.into_iter().chain([tool_call("a", json!({}))]).collect();
        vec![
            text_message(Role::User, "hi"),
            message(Role::Assistant, content),
            message(Role::Tool, vec![tool_result("a", "one", false)]),
        ]
    };
    request.messages = after_call(vec![]);
    assert_eq!(messages_request::body(&request, "m", 100).get("thinking"), None);
    request.messages = after_call(vec![thought(
        json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
    )]);
    assert!(messages_request::body(&request, "m", 100).get("thinking").is_some());
}

#[test]
fn description_names_capabilities_and_the_address_may_end_in_v1() {
    let config = |base_url: &str| ServerConfig {
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
        assert_eq!(Anthropic::new(config(url), 100).server.config.base_url, "http://127.0.0.1:1");
    }
}
