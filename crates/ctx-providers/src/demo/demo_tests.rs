//! Each thing that the demo agent does, as its run hears it. Time is paused, so nothing here waits in earnest.

use std::time::Duration;

use ctx_core::content::Content;
use ctx_core::id::{MessageId, SuspensionId};
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Source};
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::time::Timestamp;
use ctx_engine::provider::{DELTAS_MAX, STEERS_MAX, Steer};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::*;
use crate::test_harness::request as asked;

fn message(role: Role, content: Vec<Part>) -> Message {
    Message {
        id: MessageId(Ulid(1)),
        role,
        source: Some(Source::Human),
        content,
        created_at: Timestamp(1),
    }
}

fn said(role: Role, text: &str) -> Message {
    message(role, vec![Part::Text { text: text.to_owned() }])
}

fn wants(text: &str) -> Request {
    asked(vec![said(Role::User, text)])
}

/// A run, with both of its ends.
struct Run {
    heard: mpsc::Receiver<Delta>,
    steers: mpsc::Sender<Steer>,
    cancel: CancellationToken,
    end: tokio::task::JoinHandle<End>,
}

fn start(request: Request) -> Run {
    let (out, heard) = mpsc::channel(DELTAS_MAX);
    let (steers, inbox) = mpsc::channel(STEERS_MAX);
    let cancel = CancellationToken::new();
    let link = Link { out, cancel: cancel.clone(), steers: inbox, tools: mpsc::channel(1).0 };
    let end = tokio::spawn(async move { Demo::new(Duration::ZERO).run(request, link).await });
    Run { heard, steers, cancel, end }
}

async fn all(request: Request) -> (Vec<Delta>, End) {
    let mut run = start(request);
    let mut deltas = Vec::new();
    while let Some(delta) = run.heard.recv().await {
        deltas.push(delta);
    }
    (deltas, run.end.await.expect("it does not panic"))
}

fn text_of(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect()
}

const DONE: End = End::Done(Stop::EndTurn);

#[tokio::test(start_paused = true)]
async fn it_greets_says_what_it_is_and_how_much_it_remembers() {
    let history = vec![
        said(Role::User, "first"),
        said(Role::Assistant, "hi"),
        said(Role::User, "good"),
        said(Role::User, "morning"),
    ];
    let (deltas, end) = all(asked(history)).await;
    let text = text_of(&deltas);
    assert_eq!(end, DONE);
    for words in ["demo agent of ctx", "no model", "“good…”", "2 earlier messages", "`help`"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        deltas.iter().filter(|delta| matches!(delta, Delta::Text(_))).count() > 20,
        "word by word"
    );
    let output = text.split_whitespace().count() as u64;
    let Some(Delta::Usage(usage)) = deltas.last() else {
        panic!("the usage comes last: {deltas:?}")
    };
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.scope.as_str()),
        (Some(4), Some(output), "turn")
    );
}

#[tokio::test(start_paused = true)]
async fn help_names_every_word_it_knows() {
    let (deltas, end) = all(wants("help")).await;
    assert_eq!(end, DONE);
    for word in [
        "think",
        "tool",
        "ask me",
        "permission",
        "fail",
        "fail late",
        "slow",
        "long 500",
        "hang",
        "summarise",
    ] {
        assert!(text_of(&deltas).contains(&format!("`{word}`")), "{word}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_thinks_before_it_answers() {
    let (deltas, end) = all(wants("think hard")).await;
    assert_eq!(end, DONE);
    let first_text =
        deltas.iter().position(|delta| matches!(delta, Delta::Text(_))).expect("an answer");
    assert!(
        first_text > 3
            && deltas[..first_text]
                .iter()
                .all(|delta| matches!(delta, Delta::Thought { raw: None, .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn it_uses_its_own_tool_from_call_to_result() {
    let (deltas, end) = all(wants("use a tool")).await;
    assert_eq!(end, DONE);
    let tool: Vec<&Delta> =
        deltas.iter().filter(|delta| !matches!(delta, Delta::Text(_) | Delta::Usage(_))).collect();
    assert!(
        matches!(tool[0], Delta::ToolCall { id, name, .. } if id == "call_1" && name == "demo_clock"),
        "{tool:?}"
    );
    assert!(
        matches!(tool[1], Delta::ToolStatus { id, status: ToolStatus::Running } if id == "call_1")
    );
    assert!(matches!(tool[2], Delta::ToolResult { id, is_error: false, .. } if id == "call_1"));
    assert!(text_of(&deltas).contains("12:00"));
}

#[tokio::test(start_paused = true)]
async fn it_calls_a_tool_of_the_client_and_tells_its_result() {
    let earlier = Part::ToolCall {
        id: "call_1".into(),
        name: "x".into(),
        params: Value::Null,
        status: ToolStatus::Completed,
    };
    let result = |id: &str, text: &str| {
        let part = Part::ToolResult {
            tool_call_id: id.to_owned(),
            content: Content::Text(text.to_owned()),
            is_error: false,
        };
        message(Role::Tool, vec![part])
    };
    let mut history = vec![message(Role::Assistant, vec![earlier]), result("call_1", "old")];
    history.push(said(Role::User, r#"call get_weather {"city":"Oslo"}"#));
    let tools = vec![Tool {
        name: "get_weather".to_owned(),
        description: String::new(),
        parameters: Value::Null,
    }];
    let request = Request { tools: tools.clone(), ..asked(history.clone()) };
    let (deltas, end) = all(request).await;
    assert_eq!(end, End::Done(Stop::ToolCalls));
    let call = Delta::ToolCall {
        id: "call_2".to_owned(),
        name: "get_weather".to_owned(),
        params: json!({ "city": "Oslo" }),
    };
    assert!(deltas.contains(&call), "{deltas:?}");

    let call = Part::ToolCall {
        id: "call_2".into(),
        name: "get_weather".into(),
        params: Value::Null,
        status: ToolStatus::Completed,
    };
    history.extend([message(Role::Assistant, vec![call]), result("call_2", "4 °C and rain")]);
    let (deltas, end) = all(Request { tools, ..asked(history) }).await;
    assert_eq!(end, DONE, "it does not call for ever");
    assert_eq!(text_of(&deltas), "The tool says: 4 °C and rain");
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_a_question_when_it_is_to_ask() {
    let (deltas, end) = all(wants("Ask me something")).await;
    assert_eq!(end, DONE);
    assert!(
        text_of(&deltas)
            .rsplit("\n\n")
            .next()
            .is_some_and(|last| last.starts_with("Which") && last.ends_with('?'))
    );
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_a_permission_and_says_what_was_chosen() {
    let (_, end) = all(wants("permission please")).await;
    let End::Suspended(awaited) = end else { panic!("{end:?}") };
    let [awaited] = awaited.as_slice() else { panic!("{awaited:?}") };
    assert_eq!(awaited.kind, Kind::Permission);
    assert_eq!(
        awaited.options.iter().map(|offer| offer.id.as_str()).collect::<Vec<_>>(),
        ["allow_once", "reject_once"]
    );
    assert!(awaited.question.is_some());

    let suspension = Suspension {
        id: SuspensionId(Ulid(1)),
        awaited: awaited.clone(),
        created_at: Timestamp(1),
    };
    let answer = Answer { results: Vec::new(), choice: Some("reject_once".to_owned()) };
    assert!(suspension.check(&answer).is_ok());
    let (deltas, end) =
        all(Request { resumes: vec![(suspension, answer)], ..wants("permission please") }).await;
    assert_eq!(end, DONE);
    assert!(text_of(&deltas).contains("“Reject once”"));
}

#[tokio::test(start_paused = true)]
async fn it_fails_when_it_is_told_to() {
    for (text, speaks) in [("fail", false), ("fail late", true)] {
        let (deltas, end) = all(wants(text)).await;
        assert!(
            matches!(&end, End::Failed(failure) if failure.code == "demo_failure" && failure.class == Class::GiveUp),
            "{end:?}"
        );
        assert_eq!(!text_of(&deltas).is_empty(), speaks, "{text}");
        assert!(matches!(deltas.last(), Some(Delta::Usage(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_and_long_say_as_many_words_as_they_are_told() {
    let began = tokio::time::Instant::now();
    let (deltas, _) = all(wants("long 1000")).await;
    assert_eq!(text_of(&deltas).split_whitespace().count(), 1000);
    assert!(began.elapsed().is_zero(), "without pauses");
    let (deltas, _) = all(wants("slow 7")).await;
    assert_eq!(text_of(&deltas).split_whitespace().count(), 7);
    assert_eq!(began.elapsed(), Duration::from_millis(700));
}

#[tokio::test(start_paused = true)]
async fn what_is_said_meanwhile_goes_into_the_answer() {
    let mut run = start(wants("slow 20"));
    let first = run.heard.recv().await;
    assert_eq!(first, Some(Delta::Text("the ".to_owned())));
    let steer = Steer { message_id: MessageId(Ulid(7)), text: "use tabs".to_owned() };
    run.steers.send(steer).await.expect("it listens");
    let mut deltas = Vec::new();
    while let Some(delta) = run.heard.recv().await {
        deltas.push(delta);
    }
    assert_eq!(deltas[0], Delta::Injected(MessageId(Ulid(7))));
    assert!(matches!(&deltas[1], Delta::Text(text) if text.contains("“use tabs”")));
    assert!(text_of(&deltas).ends_with(&filler(20)[filler(20).len() - 10..]), "and it goes on");
    assert_eq!(run.end.await.expect("no panic"), DONE);
}

#[tokio::test(start_paused = true)]
async fn it_stops_when_it_is_cancelled_or_nobody_listens() {
    for text in ["hang", "slow 1000", "long 100000"] {
        let mut run = start(wants(text));
        if text != "hang" {
            run.heard.recv().await.expect("a word");
        }
        run.cancel.cancel();
        assert_eq!(run.end.await.expect("no panic"), End::Cancelled, "{text}");

        let run = start(wants(text));
        drop(run.heard);
        assert_eq!(run.end.await.expect("no panic"), End::Cancelled, "{text}, unheard");
    }
}

#[tokio::test(start_paused = true)]
async fn it_summarises_what_was_said() {
    let history = vec![
        said(Role::User, "build a boat"),
        said(Role::Assistant, "ok"),
        said(Role::User, "paint it"),
        said(Role::Assistant, "ok"),
    ];
    let request = asked(
        [history, vec![said(Role::User, "Summarise the conversation; say which tools were used.")]]
            .concat(),
    );
    let text = text_of(&all(request).await.0);
    assert!(
        text.contains("build a boat") && text.contains("paint it") && text.contains("5 messages"),
        "{text}"
    );
}
