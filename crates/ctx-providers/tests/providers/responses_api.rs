//! The Responses API: parsing of responses and content of requests.

use ctx_core::message::{Part, Role};
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Stop};
use serde_json::{Value, json};

use super::fake_server::{FakeServer, Reply};
use super::model_apis::ModelApi;
use super::test_harness::{finish, message, request, start, text_message, text_of};
use super::{call_delta, config, hello, run};

fn event(json: Value) -> String {
    format!("event: {}\ndata: {json}\n\n", json["type"].as_str().unwrap_or_default())
}

pub(crate) fn text(text: &str) -> String {
    event(json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
        "content_index": 0, "delta": text, "sequence_number": 1}))
}

/// The events of a call with arguments in one fragment.
pub(crate) fn call(index: u64, id: &str, name: &str, arguments: &str) -> String {
    item_added(index, id, name)
        + &arguments_delta(index, id, arguments)
        + &done(index, item(id, name, arguments))
}

fn item(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
        "arguments": arguments, "status": "completed"})
}

fn output_message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "content": [{"type": "output_text", "text": text}]})
}

fn item_added(index: u64, id: &str, name: &str) -> String {
    let item = item(id, name, "");
    event(json!({"type": "response.output_item.added", "output_index": index, "item": item}))
}

fn arguments_delta(index: u64, id: &str, arguments: &str) -> String {
    event(json!({"type": "response.function_call_arguments.delta", "item_id": format!("fc_{id}"),
        "output_index": index, "delta": arguments}))
}

fn done(index: u64, item: Value) -> String {
    event(json!({"type": "response.output_item.done", "output_index": index, "item": item}))
}

fn final_event(status: &str, more: Value) -> String {
    let mut response =
        json!({"id": "resp_1", "object": "response", "status": status, "usage": null});
    more.as_object().into_iter().flatten().for_each(|(key, value)| response[key] = value.clone());
    event(json!({"type": format!("response.{status}"), "response": response}))
}

pub(crate) fn completed() -> String {
    final_event("completed", json!({}))
}

pub(crate) fn failed(code: &str, message: &str) -> String {
    final_event("failed", json!({"error": {"code": code, "message": message}}))
}

async fn run_stream(stream: impl IntoIterator<Item = String>) -> (Vec<Delta>, End) {
    super::run_with_reply(ModelApi::Responses, Reply::stream(stream)).await
}

fn reasoning(id: &str, encrypted: Option<&str>) -> Value {
    let summary = json!([
        {"type": "summary_text", "text": "First."},
        {"type": "summary_text", "text": "Then."},
    ]);
    json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted})
}

#[tokio::test]
async fn text_reasoning_and_usage_are_reported_in_order() {
    let summary = |index: u64, text: &str| {
        event(json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1",
            "output_index": 0, "summary_index": index}))
            + &event(json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1",
                "output_index": 0, "delta": text}))
    };
    let raw = reasoning("rs_1", Some("gAAAA"));
    let usage = json!({"input_tokens": 12, "output_tokens": 3,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens_details": {"reasoning_tokens": 1}});
    let stream = [
        event(json!({"type": "response.created", "response": {"status": "in_progress"}})),
        summary(0, "First."),
        summary(1, "Then."),
        done(0, raw.clone()),
        text("Hello"),
        text(", you."),
        done(1, output_message("msg_1", "Hello, you.")),
        final_event("completed", json!({"usage": usage})),
    ];
    let (deltas, end) = run_stream(stream).await;
    assert_eq!(end, End::Done(Stop::EndTurn));
    let thought = |text: &str, raw: Option<Value>| Delta::Thought { text: text.to_owned(), raw };
    let text = |text: &str| Delta::Text(text.to_owned());
    let usage = Usage {
        input_tokens: Some(12),
        output_tokens: Some(3),
        cached_tokens: Some(8),
        cost: None,
        scope: "last_call".to_owned(),
        ..Usage::default()
    };
    let expected = [
        thought("First.", None),
        thought("\n\n", None),
        thought("Then.", None),
        thought("", Some(raw)),
        text("Hello"),
        text(", you."),
        Delta::Usage(usage),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn parallel_calls_are_assembled_in_order() {
    let raw = reasoning("rs_2", Some("gBBBB"));
    let stream = [
        text("I look. "),
        item_added(1, "call_a", "weather"),
        item_added(2, "call_b", "time"),
        arguments_delta(1, "call_a", "{\"city\":\"Mün"),
        arguments_delta(2, "call_b", "{\"zone\":"),
        arguments_delta(1, "call_a", "chen\"}"),
        arguments_delta(2, "call_b", "\"UTC\"}"),
        done(2, item("call_b", "time", "{\"zone\":\"UTC\"}")),
        // Some servers do not repeat the complete item.
        done(3, raw.clone()),
        item_added(4, "call_c", "broken"),
        arguments_delta(4, "call_c", "{\"x\":"),
        completed(),
    ];
    let (deltas, end) = super::run_with_reply(
        ModelApi::Responses,
        Reply::stream(stream.concat().as_bytes().chunks(11)),
    )
    .await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let expected = [
        call_delta("call_a", "weather", json!({"city": "München"})),
        call_delta("call_b", "time", json!({"zone": "UTC"})),
        Delta::Thought { text: "First.\n\nThen.".to_owned(), raw: Some(raw) },
        call_delta("call_c", "broken", json!({"_raw": "{\"x\":"})),
    ];
    assert_eq!(deltas[1..], expected);
}

#[tokio::test]
async fn status_determines_the_end() {
    let incomplete =
        |reason: &str| final_event("incomplete", json!({"incomplete_details": {"reason": reason}}));
    let refusal = event(json!({"type": "response.refusal.delta", "item_id": "msg_1",
        "output_index": 0, "delta": "I will not."}));
    let table = [
        (text("x"), completed(), Stop::EndTurn, 0),
        (text("x"), incomplete("max_output_tokens"), Stop::MaxTokens, 0),
        (call(1, "x", "a", "{"), incomplete("max_output_tokens"), Stop::MaxTokens, 0),
        (text("x"), incomplete("content_filter"), Stop::Refused, 0),
        (refusal, completed(), Stop::Refused, 0),
        (call(1, "x", "a", "{}"), completed(), Stop::ToolCalls, 1),
    ];
    for (before, after, stop, calls) in table {
        let (deltas, end) = run_stream([before, after]).await;
        assert_eq!(end, End::Done(stop));
        assert_eq!(
            deltas.iter().filter(|delta| matches!(delta, Delta::ToolCall { .. })).count(),
            calls
        );
    }
}

#[tokio::test]
async fn response_may_be_one_document() {
    let document = json!({
        "object": "response", "status": "completed", "error": null,
        "output": [
            reasoning("rs_1", None),
            output_message("m", "I look."),
            item("c", "a", "{\"n\":1}"),
        ],
        "usage": {"input_tokens": 5, "output_tokens": 2, "cost": 0.95},
    });
    let (deltas, end) =
        super::run_with_reply(ModelApi::Responses, Reply::whole(200, "", &document.to_string()))
            .await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let usage = Usage {
        input_tokens: Some(5),
        output_tokens: Some(2),
        cost: Some("0.95 USD".to_owned()),
        scope: "last_call".to_owned(),
        ..Usage::default()
    };
    let thought = Delta::Thought { text: "First.\n\nThen.".to_owned(), raw: None };
    assert_eq!(
        deltas,
        [
            thought,
            Delta::Text("I look.".to_owned()),
            call_delta("c", "a", json!({"n": 1})),
            Delta::Usage(usage)
        ]
    );
}

#[tokio::test]
async fn reasoning_is_sent_back_unless_the_model_rejects_it() {
    // R237
    let raw = reasoning("rs_1", Some("gAAAA"));
    let conversation = || {
        let thought = Part::Thought { text: String::new(), raw: Some(raw.clone()) };
        let text = Part::Text { text: "hi".to_owned() };
        request(vec![
            text_message(Role::User, "hello"),
            message(Role::Assistant, vec![thought, text]),
            text_message(Role::User, "again"),
        ])
    };
    let refused = ModelApi::Responses
        .error_body("invalid_request_error", "Encrypted content is not supported with this model.");
    let ok = || Reply::stream([text("ok"), completed()]);
    let server = FakeServer::start([ok(), Reply::whole(400, "", &refused), ok(), ok()]).await;
    let provider = ModelApi::Responses.provider(config(&ModelApi::Responses.base_url(&server)));
    for _ in 0..3 {
        let (deltas, end) = finish(start(&provider, conversation())).await;
        assert_eq!((text_of(&deltas).as_str(), end), ("ok", End::Done(Stop::EndTurn)));
    }
    let got = server.requests();
    assert!(got.iter().all(|got| got.target == "POST /v1/responses"
        && got.body["input"][1] == raw
        && got.body["store"] == false));
    let requests_reasoning: Vec<bool> = got
        .iter()
        .map(|got| got.body["include"] == json!(["reasoning.encrypted_content"]))
        .collect();
    assert_eq!(
        requests_reasoning,
        [true, true, false, false],
        "a model that rejected reasoning is not asked for it again"
    );
}

#[tokio::test]
async fn key_is_sent_as_a_bearer_token() {
    let server = FakeServer::start([Reply::stream([text("ok"), completed()])]).await;
    let config = ctx_providers::ServerConfig {
        api_key: Some("sk-12345678".to_owned()),
        ..config(&ModelApi::Responses.base_url(&server))
    };
    assert_eq!(run(ModelApi::Responses, config, hello()).await.1, End::Done(Stop::EndTurn));
    assert!(server.requests()[0].headers.contains("authorization: bearer sk-12345678"));
}
