//! Responses: answers item by item, and what the server is asked.

use ctx_core::message::{Part, Role};
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Stop};
use serde_json::{Value, json};

use super::api::Api;
use super::server::{Reply, Server};
use super::{ask, called, config, finish, hello, message, request, said, start, text_of};

fn event(json: Value) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap_or_default())
}

pub(crate) fn words(text: &str) -> String {
    event(
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text, "sequence_number": 1}),
    )
}

/// The events of a call whose arguments come in one piece.
pub(crate) fn call(index: u64, id: &str, name: &str, arguments: &str) -> String {
    begin(index, id, name) + &piece(index, id, arguments) + &done(index, item(id, name, arguments))
}

fn item(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": "completed"})
}

fn begin(index: u64, id: &str, name: &str) -> String {
    event(
        json!({"type": "response.output_item.added", "output_index": index, "item": item(id, name, "")}),
    )
}

fn piece(index: u64, id: &str, arguments: &str) -> String {
    event(
        json!({"type": "response.function_call_arguments.delta", "item_id": format!("fc_{id}"), "output_index": index, "delta": arguments}),
    )
}

fn done(index: u64, item: Value) -> String {
    event(json!({"type": "response.output_item.done", "output_index": index, "item": item}))
}

fn ended(status: &str, more: Value) -> String {
    let mut response =
        json!({"id": "resp_1", "object": "response", "status": status, "usage": null});
    more.as_object().into_iter().flatten().for_each(|(key, value)| response[key] = value.clone());
    event(json!({"type": format!("response.{status}"), "response": response}))
}

pub(crate) fn completed() -> String {
    ended("completed", json!({}))
}

pub(crate) fn failed(code: &str, message: &str) -> String {
    ended("failed", json!({"error": {"code": code, "message": message}}))
}

async fn answer(stream: impl IntoIterator<Item = String>) -> (Vec<Delta>, End) {
    super::answer(Api::Responses, Reply::stream(stream)).await
}

fn reasoning(id: &str, encrypted: Option<&str>) -> Value {
    let summary = json!([{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}]);
    json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted})
}

#[tokio::test]
async fn words_reasoning_and_usage_arrive_in_order() {
    let summary = |index: u64, text: &str| {
        event(
            json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": index}),
        ) + &event(
            json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "delta": text}),
        )
    };
    let raw = reasoning("rs_1", Some("gAAAA"));
    let usage = json!({"input_tokens": 12, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 1}});
    let stream = [
        event(json!({"type": "response.created", "response": {"status": "in_progress"}})),
        summary(0, "First."),
        summary(1, "Then."),
        done(0, raw.clone()),
        words("Hello"),
        words(", you."),
        done(
            1,
            json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hello, you."}]}),
        ),
        ended("completed", json!({"usage": usage})),
    ];
    let (deltas, end) = answer(stream).await;
    assert_eq!(end, End::Done(Stop::EndTurn));
    let thought = |text: &str, raw: Option<Value>| Delta::Thought { text: text.to_owned(), raw };
    let text = |text: &str| Delta::Text(text.to_owned());
    let usage = Usage {
        input_tokens: Some(12),
        output_tokens: Some(3),
        cached_tokens: Some(8),
        cost: None,
        scope: "last_call".to_owned(),
    };
    let wanted = [
        thought("First.", None),
        thought("\n\n", None),
        thought("Then.", None),
        thought("", Some(raw)),
        text("Hello"),
        text(", you."),
        Delta::Usage(usage),
    ];
    assert_eq!(deltas, wanted);
}

#[tokio::test]
async fn parallel_calls_are_told_whole_and_in_order_however_they_were_cut() {
    let raw = reasoning("rs_2", Some("gBBBB"));
    let stream = [
        words("I look. "),
        begin(1, "call_a", "weather"),
        begin(2, "call_b", "time"),
        piece(1, "call_a", "{\"city\":\"Mün"),
        piece(2, "call_b", "{\"zone\":"),
        piece(1, "call_a", "chen\"}"),
        piece(2, "call_b", "\"UTC\"}"),
        done(2, item("call_b", "time", "{\"zone\":\"UTC\"}")),
        // A server that sends no whole item has said all of it.
        done(3, raw.clone()),
        begin(4, "call_c", "broken"),
        piece(4, "call_c", "{\"x\":"),
        completed(),
    ];
    let (deltas, end) =
        super::answer(Api::Responses, Reply::stream(stream.concat().as_bytes().chunks(11))).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let wanted = [
        called("call_a", "weather", json!({"city": "München"})),
        called("call_b", "time", json!({"zone": "UTC"})),
        Delta::Thought { text: "First.\n\nThen.".to_owned(), raw: Some(raw) },
        called("call_c", "broken", json!({"_raw": "{\"x\":"})),
    ];
    assert_eq!(deltas[1..], wanted);
}

#[tokio::test]
async fn it_says_how_it_ends() {
    let incomplete =
        |reason: &str| ended("incomplete", json!({"incomplete_details": {"reason": reason}}));
    let refusal = event(
        json!({"type": "response.refusal.delta", "item_id": "msg_1", "output_index": 0, "delta": "I will not."}),
    );
    let table = [
        (words("x"), completed(), Stop::EndTurn, 0),
        (words("x"), incomplete("max_output_tokens"), Stop::MaxTokens, 0),
        (call(1, "x", "a", "{"), incomplete("max_output_tokens"), Stop::MaxTokens, 0),
        (words("x"), incomplete("content_filter"), Stop::Refused, 0),
        (refusal, completed(), Stop::Refused, 0),
        (call(1, "x", "a", "{}"), completed(), Stop::ToolCalls, 1),
    ];
    for (before, after, stop, calls) in table {
        let (deltas, end) = answer([before, after]).await;
        assert_eq!(end, End::Done(stop));
        assert_eq!(
            deltas.iter().filter(|delta| matches!(delta, Delta::ToolCall { .. })).count(),
            calls
        );
    }
}

#[tokio::test]
async fn a_whole_document_is_understood_too() {
    let document = json!({
        "object": "response", "status": "completed", "error": null,
        "output": [
            reasoning("rs_1", None),
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "id": "f", "call_id": "c", "name": "a", "arguments": "{\"n\":1}"},
        ],
        "usage": {"input_tokens": 5, "output_tokens": 2},
    });
    let (deltas, end) =
        super::answer(Api::Responses, Reply::whole(200, "", &document.to_string())).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let usage = Usage {
        input_tokens: Some(5),
        output_tokens: Some(2),
        scope: "last_call".to_owned(),
        ..Usage::default()
    };
    let thought = Delta::Thought { text: "First.\n\nThen.".to_owned(), raw: None };
    assert_eq!(
        deltas,
        [
            thought,
            Delta::Text("I look.".to_owned()),
            called("c", "a", json!({"n": 1})),
            Delta::Usage(usage)
        ]
    );
}

#[tokio::test]
async fn reasoning_goes_back_byte_for_byte_and_a_model_without_it_is_asked_plainly() {
    // R237
    let raw = reasoning("rs_1", Some("gAAAA"));
    let asked = || {
        let thought = Part::Thought { text: String::new(), raw: Some(raw.clone()) };
        let words = Part::Text { text: "hi".to_owned() };
        request(vec![
            said(Role::User, "hello"),
            message(Role::Assistant, vec![thought, words]),
            said(Role::User, "again"),
        ])
    };
    let refused = Api::Responses
        .error_body("invalid_request_error", "Encrypted content is not supported with this model.");
    let ok = || Reply::stream([words("ok"), completed()]);
    let server = Server::start([ok(), Reply::whole(400, "", &refused), ok(), ok()]).await;
    let provider = Api::Responses.provider(config(&Api::Responses.base_url(&server)));
    for _ in 0..3 {
        let (deltas, end) = finish(start(&provider, asked())).await;
        assert_eq!((text_of(&deltas).as_str(), end), ("ok", End::Done(Stop::EndTurn)));
    }
    let got = server.asked();
    assert!(got.iter().all(|got| got.what == "POST /v1/responses"
        && got.body["input"][1] == raw
        && got.body["store"] == false));
    let wants: Vec<bool> = got
        .iter()
        .map(|got| got.body["include"] == json!(["reasoning.encrypted_content"]))
        .collect();
    assert_eq!(
        wants,
        [true, true, false, false],
        "once a model said that it has none, it is not asked again"
    );
}

#[tokio::test]
async fn a_key_is_sent_as_a_bearer() {
    let server = Server::start([Reply::stream([words("ok"), completed()])]).await;
    let config = ctx_providers::Config {
        api_key: Some("sk-12345678".to_owned()),
        ..config(&Api::Responses.base_url(&server))
    };
    assert_eq!(ask(Api::Responses, config, hello()).await.1, End::Done(Stop::EndTurn));
    assert!(server.asked()[0].headers.contains("authorization: bearer sk-12345678"));
}
