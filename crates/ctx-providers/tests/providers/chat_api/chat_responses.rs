//! Parsing of successful responses.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Stop};
use serde_json::{Value, json};

use super::{DONE, delta, finished, text};
use crate::fake_server::{FakeServer, Reply};
use crate::model_apis::ModelApi;
use crate::test_harness::{TEST_TIMEOUT, finish, start, text_of};
use crate::{call_delta, config, event, hello};

async fn run_with_reply(reply: Reply) -> (Vec<Delta>, End) {
    crate::run_with_reply(ModelApi::Chat, reply).await
}

#[tokio::test]
async fn text_thoughts_and_usage_are_reported_in_order() {
    let usage = json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 8}});
    let stream = [
        ": keep-alive\n\n".to_owned(),
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"reasoning": " well", "reasoning_content": null})),
        text("Hello"),
        text(", you."),
        finished("stop"),
        event(&json!({"choices": [], "usage": usage})),
        DONE.to_owned(),
    ];
    let (deltas, end) = run_with_reply(Reply::stream(stream)).await;
    assert_eq!(end, End::Done(Stop::EndTurn));
    let thought = |text: &str| Delta::Thought { text: text.to_owned(), raw: None };
    let usage = Usage {
        input_tokens: Some(12),
        output_tokens: Some(3),
        cached_tokens: Some(8),
        cost: None,
        scope: "last_call".to_owned(),
        ..Usage::default()
    };
    let text_delta = |text: &str| Delta::Text(text.to_owned());
    assert_eq!(
        deltas,
        [
            thought("hm"),
            thought(" well"),
            text_delta("Hello"),
            text_delta(", you."),
            Delta::Usage(usage)
        ]
    );
}

#[tokio::test]
async fn chunks_may_split_a_character() {
    let stream = [text("héllo 🚀 "), text("wörld"), finished("stop"), DONE.to_owned()].concat();
    let (deltas, end) = run_with_reply(Reply::stream(stream.as_bytes().chunks(1))).await;
    assert_eq!((text_of(&deltas).as_str(), end), ("héllo 🚀 wörld", End::Done(Stop::EndTurn)));
    for size in [2, 3, 7, 64] {
        let (deltas, _) = run_with_reply(Reply::stream(stream.as_bytes().chunks(size))).await;
        assert_eq!(text_of(&deltas), "héllo 🚀 wörld", "pieces of {size}");
    }
}

#[tokio::test]
async fn text_is_reported_before_the_response_ends() {
    let server = FakeServer::start([Reply::stream([text("at once")]).held()]).await;
    let mut run =
        start(&ModelApi::Chat.provider(config(&ModelApi::Chat.base_url(&server))), hello());
    let first = tokio::time::timeout(TEST_TIMEOUT, run.deltas.recv()).await.expect("in time");
    assert_eq!(first, Some(Delta::Text("at once".to_owned())));
    assert!(!run.end.is_finished());
}

#[tokio::test]
async fn parallel_calls_are_assembled_from_fragments() {
    let fragment = |index: u64, id: Value, name: Value, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        delta(json!({"tool_calls": [
            {"index": index, "id": id, "type": "function", "function": function},
        ]}))
    };
    let more = |index: u64, arguments: &str| fragment(index, Value::Null, Value::Null, arguments);
    let stream = [
        text("I look. "),
        fragment(0, json!("call_a"), json!("weather"), ""),
        fragment(1, json!("call_b"), json!("time"), "{\"zo"),
        more(0, "{\"city\":\"Mün"),
        more(1, "ne\":\"UTC\"}"),
        more(0, "chen\", \"days\": 3}"),
        fragment(2, json!("call_c"), json!("broken"), "{\"x\":"),
        finished("tool_calls"),
        DONE.to_owned(),
    ];
    let (deltas, end) = run_with_reply(Reply::stream(stream.concat().as_bytes().chunks(11))).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let expected = [
        call_delta("call_a", "weather", json!({"city": "München", "days": 3})),
        call_delta("call_b", "time", json!({"zone": "UTC"})),
        call_delta("call_c", "broken", json!({"_raw": "{\"x\":"})),
    ];
    assert_eq!(deltas[1..], expected);
}

#[tokio::test]
async fn response_may_be_one_document() {
    let document = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look.", "reasoning_content": "hm",
            "tool_calls": [
                {"type": "function", "function": {"name": "a", "arguments": "{}"}},
                {"id": "b", "function": {"name": "b", "arguments": "{}"}},
            ],
        }}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.000306},
    });
    let pretty = serde_json::to_string_pretty(&document).expect("json");
    let (deltas, end) =
        run_with_reply(Reply::whole(200, "content-type: application/json\r\n", &pretty)).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    assert_eq!(deltas[0], Delta::Thought { text: "hm".to_owned(), raw: None });
    assert_eq!(deltas[1], Delta::Text("I look.".to_owned()));
    assert_eq!(
        deltas[2..4],
        [call_delta("call_1", "a", json!({})), call_delta("b", "b", json!({}))]
    );
    let Delta::Usage(usage) = &deltas[4] else { panic!("{deltas:?}") };
    assert_eq!((usage.input_tokens, usage.cached_tokens), (Some(5), None));
    assert_eq!(usage.cost.as_deref(), Some("0.000306 USD"), "OpenRouter reports the cost");
}

#[tokio::test]
async fn finish_reason_determines_the_end() {
    let called = delta(json!({"tool_calls": [
        {"index": 0, "id": "x", "function": {"name": "a", "arguments": "{"}},
    ]}));
    let legacy_call = delta(json!({"function_call": {"name": "a", "arguments": "{}"}}));
    let table = [
        ("stop", text("x"), Stop::EndTurn, 0),
        ("length", text("x"), Stop::MaxTokens, 0),
        ("length", called.clone(), Stop::MaxTokens, 0),
        ("content_filter", text("x"), Stop::Refused, 0),
        ("stop", delta(json!({"refusal": "I will not."})), Stop::Refused, 0),
        ("stop", called, Stop::ToolCalls, 1),
        ("function_call", legacy_call, Stop::ToolCalls, 1),
        ("tool_calls", text("x"), Stop::EndTurn, 0),
    ];
    for (reason, before, stop, calls) in table {
        let (deltas, end) =
            run_with_reply(Reply::stream([before, finished(reason), DONE.to_owned()])).await;
        assert_eq!(end, End::Done(stop), "{reason}");
        assert_eq!(
            deltas.iter().filter(|delta| matches!(delta, Delta::ToolCall { .. })).count(),
            calls,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn finish_reason_or_done_marker_ends_the_response() {
    let ends = [
        vec![text("x"), DONE.to_owned()],
        vec![text("x"), "data: [DONE]".to_owned()],
        vec![text("x"), finished("stop")],
        vec![text("x"), finished("stop").trim_end().to_owned()],
    ];
    for stream in ends {
        let (deltas, end) = run_with_reply(Reply::stream(stream.clone())).await;
        assert_eq!((text_of(&deltas).as_str(), end), ("x", End::Done(Stop::EndTurn)), "{stream:?}");
    }
    let (_, end) = run_with_reply(Reply::stream([text("x"), finished("stop")]).cut()).await;
    assert_eq!(
        end,
        End::Done(Stop::EndTurn),
        "a connection that is cut after the finish reason loses nothing"
    );
}

#[tokio::test]
async fn connection_is_reused() {
    let reply = || Reply::stream([text("x"), finished("stop"), DONE.to_owned()]);
    let server = FakeServer::start([reply(), reply()]).await;
    let provider = ModelApi::Chat.provider(config(&ModelApi::Chat.base_url(&server)));
    for _ in 0..2 {
        assert_eq!(finish(start(&provider, hello())).await.1, End::Done(Stop::EndTurn));
    }
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
}
