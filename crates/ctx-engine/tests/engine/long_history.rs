//! A very long session in a small window: the cost of a request depends on its size, not on the
//! history.

use ctx_core::id::MessageId;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::stored_content::Content;
use ctx_core::turn::{About, Kind};
use ctx_engine::NewTurn;
use ctx_engine::provider::Request;
use ctx_providers::Scripted;
use ctx_providers::scripted::Script;
use ulid::Ulid;

use super::context_window::{is_summary, words};
use crate::harness::{Harness, seen};

/// Number of turns at the end.
const TURNS: usize = 1200;

#[tokio::test]
async fn the_cost_of_a_request_does_not_grow_with_the_history() {
    // R168, R175, R178: dozens of compactions, the same cost at the end as at the start, and the
    // pinned text in every request.
    let answer = |request: &Request| match is_summary(request) {
        true => Script::new().say(&words(100, "SUMMARY")),
        false => Script::new().say(&words(60, "ok")),
    };
    let bench = Harness::new(Scripted::new().with_context_window(8192).otherwise(answer));
    bench.chat("one").await;
    bench.say("one", "the secret word is xyzzy").await;
    let pinned = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    bench.engine.contexts().pin("one", pinned).await.expect("pinned");
    let (mut early, mut late) = (0, 0);
    for n in 0..TURNS {
        bench.say("one", &words(150, &format!("m{n}"))).await;
        let rows = bench.engine.contexts().next_request("one").await.expect("there").turns_read;
        let slot = if n < TURNS / 4 { &mut early } else { &mut late };
        *slot = rows.max(*slot);
    }
    assert!(late <= early && late < 60, "{late} rows at the end, {early} at the beginning");
    let mut all = Vec::new();
    let mut at = bench.engine.sessions().head("one").await.expect("there");
    while at.is_some() {
        let page = bench
            .engine
            .messages()
            .turns("one", ctx_engine::Order::Desc, at, 500)
            .await
            .expect("there");
        at = page.last().and_then(|turn| turn.header.parent);
        all.extend(page);
    }
    let compactions = all.iter().filter(|turn| turn.header.kind == Kind::Compaction).count();
    assert!(compactions >= 40, "{compactions}");
    assert!(
        all.iter()
            .filter(|turn| turn.header.kind == Kind::Compaction)
            .all(|turn| turn.compaction.is_some())
    );
    assert!(all.iter().all(|turn| turn.body.is_some()), "every turn is readable");
    assert_eq!(all.len() - compactions, TURNS + 1);
    for request in bench.provider.requests().iter().skip(1).filter(|request| !is_summary(request)) {
        let said = seen(&request.messages);
        assert_eq!(
            said.iter().filter(|line| *line == "user: the secret word is xyzzy").count(),
            1,
            "{said:?}"
        );
        assert!(
            request.messages.iter().filter(|message| message.role == Role::System).count() <= 1
        );
    }
    bench.verify().await;
}

#[tokio::test]
async fn a_request_contains_the_newest_tool_results_up_to_a_limit() {
    const RESULTS: usize = 300;
    const RESULT_BYTES: usize = 64 << 10;
    // Of 16 MB.
    const SENT: usize = 256;
    let bench = Harness::new(Scripted::new().with_context_window(1 << 30));
    bench.chat("one").await;
    let at = bench.engine.now();
    let message = |role, content| Message {
        id: MessageId(Ulid::new()),
        role,
        source: None,
        content,
        created_at: at,
    };
    let id = |n: usize| format!("call-{n}");
    let call = |n| Part::ToolCall {
        id: id(n),
        name: "read".to_owned(),
        params: serde_json::json!({}),
        status: ToolStatus::Completed,
    };
    let (content, blob) = Content::split(vec![b'x'; RESULT_BYTES]);
    let result =
        |n| Part::ToolResult { tool_call_id: id(n), content: content.clone(), is_error: false };
    let messages = vec![
        message(Role::User, vec![Part::Text { text: "read them".to_owned() }]),
        message(Role::Assistant, (0..RESULTS).map(call).collect()),
        message(Role::Tool, (0..RESULTS).map(result).collect()),
    ];
    let turn = NewTurn { about: About::at(at), messages, blobs: blob.into_iter().collect() };
    bench.engine.messages().append_turn("one", None, turn).await.expect("a turn");
    bench.say("one", "go on").await;
    let request = bench.provider.requests().pop().expect("a request");
    let parts = request.messages.iter().flat_map(|message| &message.content);
    let results: Vec<&str> = parts
        .filter_map(|part| match part {
            Part::ToolResult { content, .. } => content.text(),
            _ => None,
        })
        .collect();
    let old = format!("[this old result is not sent: {RESULT_BYTES} bytes]");
    let sent = results.iter().rev().take_while(|text| text.len() == RESULT_BYTES).count();
    assert_eq!((results.len(), sent), (RESULTS, SENT));
    assert!(results[..RESULTS - SENT].iter().all(|text| *text == old));
}
