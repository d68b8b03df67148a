//! Good answers, in all the ways in which they arrive.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Stop};
use serde_json::{Value, json};

use super::{DONE, delta, finished, words};
use crate::api::Api;
use crate::server::{Reply, Server};
use crate::{GUARD, called as call, config, event, finish, hello, start, text_of};

async fn answer(reply: Reply) -> (Vec<Delta>, End) {
    crate::answer(Api::Chat, reply).await
}

#[tokio::test]
async fn words_thoughts_and_usage_arrive_in_order() {
    let usage = json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 8}});
    let stream = [
        ": keep-alive\n\n".to_owned(),
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"reasoning": " well", "reasoning_content": null})),
        words("Hello"),
        words(", you."),
        finished("stop"),
        event(&json!({"choices": [], "usage": usage})),
        DONE.to_owned(),
    ];
    let (deltas, end) = answer(Reply::stream(stream)).await;
    assert_eq!(end, End::Done(Stop::EndTurn));
    let thought = |text: &str| Delta::Thought { text: text.to_owned(), raw: None };
    let usage = Usage {
        input_tokens: Some(12),
        output_tokens: Some(3),
        cached_tokens: Some(8),
        cost: None,
        scope: "last_call".to_owned(),
    };
    let text = |text: &str| Delta::Text(text.to_owned());
    assert_eq!(
        deltas,
        [thought("hm"), thought(" well"), text("Hello"), text(", you."), Delta::Usage(usage)]
    );
}

#[tokio::test]
async fn bytes_may_be_cut_anywhere_even_inside_a_character() {
    let stream = [words("héllo 🚀 "), words("wörld"), finished("stop"), DONE.to_owned()].concat();
    let (deltas, end) = answer(Reply::stream(stream.as_bytes().chunks(1))).await;
    assert_eq!((text_of(&deltas).as_str(), end), ("héllo 🚀 wörld", End::Done(Stop::EndTurn)));
    for size in [2, 3, 7, 64] {
        let (deltas, _) = answer(Reply::stream(stream.as_bytes().chunks(size))).await;
        assert_eq!(text_of(&deltas), "héllo 🚀 wörld", "pieces of {size}");
    }
}

#[tokio::test]
async fn words_are_passed_on_before_the_answer_ends() {
    let server = Server::start([Reply::stream([words("at once")]).held()]).await;
    let mut run = start(&Api::Chat.provider(config(&Api::Chat.base_url(&server))), hello());
    let first = tokio::time::timeout(GUARD, run.heard.recv()).await.expect("in time");
    assert_eq!(first, Some(Delta::Text("at once".to_owned())));
    assert!(!run.end.is_finished());
}

#[tokio::test]
async fn parallel_calls_are_told_whole_however_they_were_cut() {
    let piece = |index: u64, id: Value, name: Value, arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}),
        )
    };
    let more = |index: u64, arguments: &str| piece(index, Value::Null, Value::Null, arguments);
    let stream = [
        words("I look. "),
        piece(0, json!("call_a"), json!("weather"), ""),
        piece(1, json!("call_b"), json!("time"), "{\"zo"),
        more(0, "{\"city\":\"Mün"),
        more(1, "ne\":\"UTC\"}"),
        more(0, "chen\", \"days\": 3}"),
        piece(2, json!("call_c"), json!("broken"), "{\"x\":"),
        finished("tool_calls"),
        DONE.to_owned(),
    ];
    let (deltas, end) = answer(Reply::stream(stream.concat().as_bytes().chunks(11))).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let wanted = [
        call("call_a", "weather", json!({"city": "München", "days": 3})),
        call("call_b", "time", json!({"zone": "UTC"})),
        call("call_c", "broken", json!({"_raw": "{\"x\":"})),
    ];
    assert_eq!(deltas[1..], wanted);
}

#[tokio::test]
async fn a_whole_document_is_understood_too() {
    let document = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look.", "reasoning_content": "hm",
            "tool_calls": [{"type": "function", "function": {"name": "a", "arguments": "{}"}}, {"id": "b", "function": {"name": "b", "arguments": "{}"}}],
        }}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    });
    let pretty = serde_json::to_string_pretty(&document).expect("json");
    let (deltas, end) =
        answer(Reply::whole(200, "content-type: application/json\r\n", &pretty)).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    assert_eq!(deltas[0], Delta::Thought { text: "hm".to_owned(), raw: None });
    assert_eq!(deltas[1], Delta::Text("I look.".to_owned()));
    assert_eq!(deltas[2..4], [call("call_1", "a", json!({})), call("b", "b", json!({}))]);
    assert!(
        matches!(&deltas[4], Delta::Usage(usage) if usage.input_tokens == Some(5) && usage.cached_tokens.is_none())
    );
}

#[tokio::test]
async fn the_reason_says_how_it_ends() {
    let called = delta(
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "a", "arguments": "{"}}]}),
    );
    let older = delta(json!({"function_call": {"name": "a", "arguments": "{}"}}));
    let table = [
        ("stop", words("x"), Stop::EndTurn, 0),
        ("length", words("x"), Stop::MaxTokens, 0),
        ("length", called.clone(), Stop::MaxTokens, 0),
        ("content_filter", words("x"), Stop::Refused, 0),
        ("stop", delta(json!({"refusal": "I will not."})), Stop::Refused, 0),
        ("stop", called, Stop::ToolCalls, 1),
        ("function_call", older, Stop::ToolCalls, 1),
        ("tool_calls", words("x"), Stop::EndTurn, 0),
    ];
    for (reason, before, stop, calls) in table {
        let (deltas, end) =
            answer(Reply::stream([before, finished(reason), DONE.to_owned()])).await;
        assert_eq!(end, End::Done(stop), "{reason}");
        assert_eq!(
            deltas.iter().filter(|delta| matches!(delta, Delta::ToolCall { .. })).count(),
            calls,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn either_the_reason_or_the_last_word_is_enough() {
    let ends = [
        vec![words("x"), DONE.to_owned()],
        vec![words("x"), "data: [DONE]".to_owned()],
        vec![words("x"), finished("stop")],
        vec![words("x"), finished("stop").trim_end().to_owned()],
    ];
    for stream in ends {
        let (deltas, end) = answer(Reply::stream(stream.clone())).await;
        assert_eq!((text_of(&deltas).as_str(), end), ("x", End::Done(Stop::EndTurn)), "{stream:?}");
    }
    let (_, end) = answer(Reply::stream([words("x"), finished("stop")]).cut()).await;
    assert_eq!(
        end,
        End::Done(Stop::EndTurn),
        "a connection that breaks after the reason loses nothing"
    );
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let reply = || Reply::stream([words("x"), finished("stop"), DONE.to_owned()]);
    let server = Server::start([reply(), reply()]).await;
    let provider = Api::Chat.provider(config(&Api::Chat.base_url(&server)));
    for _ in 0..2 {
        assert_eq!(finish(start(&provider, hello())).await.1, End::Done(Stop::EndTurn));
    }
    assert_eq!((server.asked().len(), server.connections()), (2, 1));
}
