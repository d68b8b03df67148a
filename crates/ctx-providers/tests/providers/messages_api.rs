//! The Messages API: parsing of responses and content of requests.

use std::sync::Arc;

use ctx_core::message::{Part, Role};
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Stop};
use ctx_providers::ServerConfig;
use serde_json::{Value, json};

use super::fake_server::{FakeServer, Reply};
use super::model_apis::ModelApi;
use super::test_harness::{finish, message, request, start, text_message, text_of};
use super::{call_delta, config, hello, run};

fn event(json: Value) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap_or_default())
}

fn block_start(index: u64, block: Value) -> String {
    event(json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn block_delta(index: u64, delta: Value) -> String {
    event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn block_stop(index: u64) -> String {
    event(json!({"type": "content_block_stop", "index": index}))
}

pub(crate) fn text(text: &str) -> String {
    block_start(0, json!({"type": "text", "text": ""}))
        + &block_delta(0, json!({"type": "text_delta", "text": text}))
        + &block_stop(0)
}

/// The events of a call with fragmented arguments.
pub(crate) fn call(index: u64, id: &str, name: &str, pieces: &[&str]) -> String {
    let piece = |piece: &&str| {
        block_delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
    };
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    block_start(index, block) + &pieces.iter().map(piece).collect::<String>() + &block_stop(index)
}

pub(crate) fn finished(reason: &str) -> String {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}))
        + &event(json!({"type": "message_stop"}))
}

fn message_start() -> String {
    let usage = json!({"input_tokens": 5, "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100, "output_tokens": 1});
    let message = json!({"id": "msg_1", "role": "assistant", "content": [], "usage": usage});
    event(json!({"type": "message_start", "message": message})) + &event(json!({"type": "ping"}))
}

fn thinking(index: u64) -> String {
    [
        block_start(index, json!({"type": "thinking", "thinking": "", "signature": ""})),
        block_delta(index, json!({"type": "thinking_delta", "thinking": "hm, "})),
        block_delta(index, json!({"type": "thinking_delta", "thinking": "well"})),
        block_delta(index, json!({"type": "signature_delta", "signature": "EqQB"})),
        block_delta(index, json!({"type": "signature_delta", "signature": "CgIY"})),
        block_stop(index),
    ]
    .concat()
}

fn thinking_block() -> Value {
    json!({"type": "thinking", "thinking": "hm, well", "signature": "EqQBCgIY"})
}

fn thought(text: &str, raw: Option<Value>) -> Delta {
    Delta::Thought { text: text.to_owned(), raw }
}

async fn run_stream(stream: impl IntoIterator<Item = String>) -> (Vec<Delta>, End) {
    super::run_with_reply(ModelApi::Messages, Reply::stream(stream)).await
}

#[tokio::test]
async fn text_thinking_calls_and_usage_are_reported_in_order() {
    let redacted = json!({"type": "redacted_thinking", "data": "EmwK"});
    let stream = [
        message_start(),
        thinking(0),
        block_start(1, redacted.clone()),
        block_stop(1),
        text("I look. "),
        call(3, "toolu_a", "weather", &["", "{\"city\":", "\"Münch", "en\"}"]),
        call(4, "toolu_b", "time", &[]),
        call(5, "toolu_c", "broken", &["{\"x\":"]),
        finished("tool_use"),
    ];
    let expected = [
        thought("hm, ", None),
        thought("well", None),
        thought("", Some(thinking_block())),
        thought("", Some(redacted)),
        Delta::Text("I look. ".to_owned()),
        call_delta("toolu_a", "weather", json!({"city": "München"})),
        call_delta("toolu_b", "time", json!({})),
        call_delta("toolu_c", "broken", json!({"_raw": "{\"x\":"})),
        Delta::Usage(Usage {
            input_tokens: Some(125),
            output_tokens: Some(9),
            cached_tokens: Some(100),
            cost: None,
            scope: "last_call".to_owned(),
            ..Usage::default()
        }),
    ];
    for size in [1, 7, 100_000] {
        let (deltas, end) = super::run_with_reply(
            ModelApi::Messages,
            Reply::stream(stream.concat().as_bytes().chunks(size)),
        )
        .await;
        assert_eq!(end, End::Done(Stop::ToolCalls));
        assert_eq!(deltas, expected, "pieces of {size}");
    }
}

#[tokio::test]
async fn output_after_a_call_is_reported_after_it() {
    let (deltas, end) =
        run_stream([call(0, "a", "look", &["{}"]), thinking(1), text("so"), finished("tool_use")])
            .await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    assert_eq!(deltas[0], call_delta("a", "look", json!({})));
    assert_eq!(deltas[3..5], [thought("", Some(thinking_block())), Delta::Text("so".to_owned())]);
}

#[tokio::test]
async fn stop_reason_determines_the_end() {
    let table = [
        ("end_turn", text("x"), Stop::EndTurn, 0),
        ("stop_sequence", text("x"), Stop::EndTurn, 0),
        ("max_tokens", text("x"), Stop::MaxTokens, 0),
        ("model_context_window_exceeded", text("x"), Stop::MaxTokens, 0),
        ("max_tokens", call(0, "a", "look", &["{"]), Stop::MaxTokens, 0),
        ("refusal", text("x"), Stop::Refused, 0),
        ("tool_use", call(0, "a", "look", &["{}"]), Stop::ToolCalls, 1),
        ("pause_turn", call(0, "a", "look", &["{}"]), Stop::ToolCalls, 1),
        ("tool_use", text("x"), Stop::EndTurn, 0),
    ];
    for (reason, before, stop, calls) in table {
        let (deltas, end) = run_stream([message_start(), before, finished(reason)]).await;
        assert_eq!(end, End::Done(stop), "{reason}");
        assert_eq!(
            deltas.iter().filter(|delta| matches!(delta, Delta::ToolCall { .. })).count(),
            calls,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn paused_response_is_continued() {
    let paused = |answer: &str| {
        Reply::stream([message_start(), thinking(0), text(answer), finished("pause_turn")])
    };
    let server = FakeServer::start([
        paused("a"),
        paused("b"),
        Reply::stream([message_start(), text("c"), finished("end_turn")]),
    ])
    .await;
    let (deltas, end) = run(ModelApi::Messages, config(&server.url), hello()).await;
    assert_eq!((text_of(&deltas).as_str(), end), ("abc", End::Done(Stop::EndTurn)));
    let said = |text: &str| [thinking_block(), json!({"type": "text", "text": text})];
    let user = json!({"role": "user", "content": [{"type": "text", "text": "hello"}]});
    let content = [said("a"), said("b")].concat();
    assert_eq!(
        server.requests()[2].body["messages"],
        json!([user, {"role": "assistant", "content": content}])
    );

    let server = FakeServer::start((0..8).map(|_| paused("x"))).await;
    assert_eq!(
        super::expect_failure(run(ModelApi::Messages, config(&server.url), hello()).await.1).code,
        "too_large",
        "the number of pauses is limited"
    );
}

#[tokio::test]
async fn response_may_be_one_document() {
    let document = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            thinking_block(),
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}},
        ],
        "usage": {"input_tokens": 5, "output_tokens": 2},
    });
    let (deltas, end) =
        super::run_with_reply(ModelApi::Messages, Reply::whole(200, "", &document.to_string()))
            .await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let usage = Usage {
        input_tokens: Some(5),
        output_tokens: Some(2),
        scope: "last_call".to_owned(),
        ..Usage::default()
    };
    let expected = [
        thought("hm, well", None),
        thought("", Some(thinking_block())),
        Delta::Text("I look.".to_owned()),
        call_delta("a", "look", json!({"n": 1})),
        Delta::Usage(usage),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn request_has_key_version_limit_and_unchanged_thinking() {
    // R237
    let server = FakeServer::start([Reply::stream([text("ok"), finished("end_turn")])]).await;
    let config = ServerConfig {
        api_key: Some("sk-ant-12345".to_owned()),
        ..config(&format!("{}/v1", server.url))
    };
    let picture = Part::Image {
        media_type: "image/png".to_owned(),
        blob: ctx_core::id::BlobId(ctx_core::id::ObjectId::from_bytes([1; 32])),
        bytes: None,
    };
    let thought = Part::Thought { text: "hm, well".to_owned(), raw: Some(thinking_block()) };
    let text = Part::Text { text: "hi".to_owned() };
    let mut request_body = request(vec![
        message(Role::User, vec![picture.clone()]),
        message(Role::Assistant, vec![thought, text]),
        text_message(Role::User, "again"),
    ]);
    request_body.images =
        picture.blob().into_iter().map(|blob| (blob, Arc::new(vec![1, 2, 3]))).collect();
    request_body.system = Some("Be brief.".to_owned());
    assert_eq!(run(ModelApi::Messages, config, request_body).await.1, End::Done(Stop::EndTurn));
    let [got] = server.requests().try_into().expect("one request");
    assert_eq!(got.target, "POST /v1/messages");
    assert!(
        got.headers.contains("x-api-key: sk-ant-12345")
            && got.headers.contains("anthropic-version: 2023-06-01"),
        "{}",
        got.headers
    );
    assert!(!got.headers.contains("authorization"), "{}", got.headers);
    assert_eq!((&got.body["max_tokens"], &got.body["stream"]), (&json!(1000), &json!(true)));
    assert_eq!(
        got.body["messages"][0]["content"][0]["source"],
        json!({"type": "base64", "media_type": "image/png", "data": "AQID"})
    );
    assert_eq!(got.body["messages"][1]["content"][0], thinking_block());
}

#[tokio::test]
async fn first_listed_model_is_used_by_default() {
    let list = Reply::whole(
        200,
        "",
        r#"{"data":[{"type":"model","id":"newest"},{"type":"model","id":"older"}]}"#,
    );
    let server = FakeServer::start([list, Reply::stream([text("ok"), finished("end_turn")])]).await;
    let provider = ModelApi::Messages.provider(ServerConfig { model: None, ..config(&server.url) });
    assert_eq!(finish(start(&provider, hello())).await.1, End::Done(Stop::EndTurn));
    let request_body = server.requests();
    assert_eq!(
        (request_body[0].target.as_str(), &request_body[1].body["model"]),
        ("GET /v1/models", &json!("newest"))
    );
}
