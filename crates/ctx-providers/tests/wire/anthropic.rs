//! Messages: answers block by block, and what the server is asked.

use std::sync::Arc;

use ctx_core::message::{Part, Role};
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Stop};
use ctx_providers::Config;
use serde_json::{Value, json};

use super::api::Api;
use super::server::{Reply, Server};
use super::{ask, called, config, finish, hello, message, request, said, start, text_of};

fn event(json: Value) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap_or_default())
}

fn open(index: u64, block: Value) -> String {
    event(json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn grow(index: u64, delta: Value) -> String {
    event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn close(index: u64) -> String {
    event(json!({"type": "content_block_stop", "index": index}))
}

pub(crate) fn words(text: &str) -> String {
    open(0, json!({"type": "text", "text": ""}))
        + &grow(0, json!({"type": "text_delta", "text": text}))
        + &close(0)
}

/// The events of a call, its arguments in pieces.
pub(crate) fn call(index: u64, id: &str, name: &str, pieces: &[&str]) -> String {
    let piece =
        |piece: &&str| grow(index, json!({"type": "input_json_delta", "partial_json": piece}));
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    open(index, block) + &pieces.iter().map(piece).collect::<String>() + &close(index)
}

pub(crate) fn finished(reason: &str) -> String {
    event(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
    ) + &event(json!({"type": "message_stop"}))
}

fn began() -> String {
    let usage = json!({"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1});
    event(
        json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": usage}}),
    ) + &event(json!({"type": "ping"}))
}

fn thinking(index: u64) -> String {
    [
        open(index, json!({"type": "thinking", "thinking": "", "signature": ""})),
        grow(index, json!({"type": "thinking_delta", "thinking": "hm, "})),
        grow(index, json!({"type": "thinking_delta", "thinking": "well"})),
        grow(index, json!({"type": "signature_delta", "signature": "EqQB"})),
        grow(index, json!({"type": "signature_delta", "signature": "CgIY"})),
        close(index),
    ]
    .concat()
}

fn whole_thinking() -> Value {
    json!({"type": "thinking", "thinking": "hm, well", "signature": "EqQBCgIY"})
}

fn thought(text: &str, raw: Option<Value>) -> Delta {
    Delta::Thought { text: text.to_owned(), raw }
}

async fn answer(stream: impl IntoIterator<Item = String>) -> (Vec<Delta>, End) {
    super::answer(Api::Anthropic, Reply::stream(stream)).await
}

#[tokio::test]
async fn words_thinking_calls_and_usage_arrive_in_order() {
    let redacted = json!({"type": "redacted_thinking", "data": "EmwK"});
    let stream = [
        began(),
        thinking(0),
        open(1, redacted.clone()),
        close(1),
        words("I look. "),
        call(3, "toolu_a", "weather", &["", "{\"city\":", "\"Münch", "en\"}"]),
        call(4, "toolu_b", "time", &[]),
        call(5, "toolu_c", "broken", &["{\"x\":"]),
        finished("tool_use"),
    ];
    let wanted = [
        thought("hm, ", None),
        thought("well", None),
        thought("", Some(whole_thinking())),
        thought("", Some(redacted)),
        Delta::Text("I look. ".to_owned()),
        called("toolu_a", "weather", json!({"city": "München"})),
        called("toolu_b", "time", json!({})),
        called("toolu_c", "broken", json!({"_raw": "{\"x\":"})),
        Delta::Usage(Usage {
            input_tokens: Some(125),
            output_tokens: Some(9),
            cached_tokens: Some(100),
            cost: None,
            scope: "last_call".to_owned(),
        }),
    ];
    for size in [1, 7, 100_000] {
        let (deltas, end) =
            super::answer(Api::Anthropic, Reply::stream(stream.concat().as_bytes().chunks(size)))
                .await;
        assert_eq!(end, End::Done(Stop::ToolCalls));
        assert_eq!(deltas, wanted, "pieces of {size}");
    }
}

#[tokio::test]
async fn what_comes_behind_a_call_stays_behind_it() {
    let (deltas, end) =
        answer([call(0, "a", "look", &["{}"]), thinking(1), words("so"), finished("tool_use")])
            .await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    assert_eq!(deltas[0], called("a", "look", json!({})));
    assert_eq!(deltas[3..5], [thought("", Some(whole_thinking())), Delta::Text("so".to_owned())]);
}

#[tokio::test]
async fn it_says_how_it_ends() {
    let table = [
        ("end_turn", words("x"), Stop::EndTurn, 0),
        ("stop_sequence", words("x"), Stop::EndTurn, 0),
        ("max_tokens", words("x"), Stop::MaxTokens, 0),
        ("model_context_window_exceeded", words("x"), Stop::MaxTokens, 0),
        ("max_tokens", call(0, "a", "look", &["{"]), Stop::MaxTokens, 0),
        ("refusal", words("x"), Stop::Refused, 0),
        ("tool_use", call(0, "a", "look", &["{}"]), Stop::ToolCalls, 1),
        ("pause_turn", call(0, "a", "look", &["{}"]), Stop::ToolCalls, 1),
        ("tool_use", words("x"), Stop::EndTurn, 0),
    ];
    for (reason, before, stop, calls) in table {
        let (deltas, end) = answer([began(), before, finished(reason)]).await;
        assert_eq!(end, End::Done(stop), "{reason}");
        assert_eq!(
            deltas.iter().filter(|delta| matches!(delta, Delta::ToolCall { .. })).count(),
            calls,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_model_that_pauses_is_asked_to_go_on() {
    let paused =
        |text: &str| Reply::stream([began(), thinking(0), words(text), finished("pause_turn")]);
    let server = Server::start([
        paused("a"),
        paused("b"),
        Reply::stream([began(), words("c"), finished("end_turn")]),
    ])
    .await;
    let (deltas, end) = ask(Api::Anthropic, config(&server.url), hello()).await;
    assert_eq!((text_of(&deltas).as_str(), end), ("abc", End::Done(Stop::EndTurn)));
    let said = |text: &str| [whole_thinking(), json!({"type": "text", "text": text})];
    let user = json!({"role": "user", "content": [{"type": "text", "text": "hello"}]});
    let content = [said("a"), said("b")].concat();
    assert_eq!(
        server.asked()[2].body["messages"],
        json!([user, {"role": "assistant", "content": content}])
    );

    let server = Server::start((0..8).map(|_| paused("x"))).await;
    assert_eq!(
        super::failed(ask(Api::Anthropic, config(&server.url), hello()).await.1).code,
        "too_large",
        "not for ever"
    );
}

#[tokio::test]
async fn a_whole_document_is_understood_too() {
    let document = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [whole_thinking(), {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}}],
        "usage": {"input_tokens": 5, "output_tokens": 2},
    });
    let (deltas, end) =
        super::answer(Api::Anthropic, Reply::whole(200, "", &document.to_string())).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let usage = Usage {
        input_tokens: Some(5),
        output_tokens: Some(2),
        scope: "last_call".to_owned(),
        ..Usage::default()
    };
    let wanted = [
        thought("hm, well", None),
        thought("", Some(whole_thinking())),
        Delta::Text("I look.".to_owned()),
        called("a", "look", json!({"n": 1})),
        Delta::Usage(usage),
    ];
    assert_eq!(deltas, wanted);
}

#[tokio::test]
async fn the_server_is_asked_with_its_key_version_and_bound_and_thinking_goes_back_byte_for_byte() {
    // R237
    let server = Server::start([Reply::stream([words("ok"), finished("end_turn")])]).await;
    let config = Config {
        api_key: Some("sk-ant-12345".to_owned()),
        ..config(&format!("{}/v1", server.url))
    };
    let picture = Part::Image {
        media_type: "image/png".to_owned(),
        blob: ctx_core::id::BlobId(ctx_core::id::ObjectId::from_bytes([1; 32])),
        bytes: None,
    };
    let thought = Part::Thought { text: "hm, well".to_owned(), raw: Some(whole_thinking()) };
    let words = Part::Text { text: "hi".to_owned() };
    let mut asked = request(vec![
        message(Role::User, vec![picture.clone()]),
        message(Role::Assistant, vec![thought, words]),
        said(Role::User, "again"),
    ]);
    asked.images = picture.blob().into_iter().map(|blob| (blob, Arc::new(vec![1, 2, 3]))).collect();
    asked.system = Some("Be brief.".to_owned());
    assert_eq!(ask(Api::Anthropic, config, asked).await.1, End::Done(Stop::EndTurn));
    let [got] = server.asked().try_into().expect("one request");
    assert_eq!(got.what, "POST /v1/messages");
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
    assert_eq!(got.body["messages"][1]["content"][0], whole_thinking());
}

#[tokio::test]
async fn where_no_model_is_named_the_servers_newest_answers() {
    let list = Reply::whole(
        200,
        "",
        r#"{"data":[{"type":"model","id":"newest"},{"type":"model","id":"older"}],"has_more":false}"#,
    );
    let server = Server::start([list, Reply::stream([words("ok"), finished("end_turn")])]).await;
    let provider = Api::Anthropic.provider(Config { model: None, ..config(&server.url) });
    assert_eq!(finish(start(&provider, hello())).await.1, End::Done(Stop::EndTurn));
    let asked = server.asked();
    assert_eq!(
        (asked[0].what.as_str(), &asked[1].body["model"]),
        ("GET /v1/models", &json!("newest"))
    );
}
