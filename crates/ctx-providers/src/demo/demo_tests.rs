//! The commands of the demo agent. The clock is paused, so the tests do not wait.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::id::{MessageId, SuspensionId};
use ctx_core::inbox::Tool;
use ctx_core::projection::{ImageHandling, PastTurn, Projection};
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::time::Timestamp;
use ctx_core::turn::Status;
use ctx_engine::provider::Steer;
use serde_json::Value;
use ulid::Ulid;

use super::*;
use crate::test_harness::{
    self, Run, finish, message, request, text_message, text_of, tool_result,
};

fn prompt(text: &str) -> Request {
    request(vec![text_message(Role::User, text)])
}

fn start(request: Request) -> Run {
    test_harness::start(&Arc::new(Demo::new(Duration::ZERO)), request)
}

async fn run(request: Request) -> (Vec<Delta>, End) {
    finish(start(request)).await
}

const DONE: End = End::Done(Stop::EndTurn);

#[tokio::test(start_paused = true)]
async fn greeting_names_the_demo_agent_and_counts_earlier_messages() {
    let history = vec![
        text_message(Role::User, "first"),
        text_message(Role::Assistant, "hi"),
        text_message(Role::User, "good"),
        text_message(Role::User, "morning"),
    ];
    let (deltas, end) = run(request(history)).await;
    let text = text_of(&deltas);
    assert_eq!(end, DONE);
    for words in ["demo agent of ctx", "no model", "“good…”", "2 earlier messages", "`help`"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        deltas.iter().filter(|delta| matches!(delta, Delta::Text(_))).count() > 20,
        "one delta per word"
    );
    let output = text.split_whitespace().count() as u64;
    let Some(Delta::Usage(usage)) = deltas.last() else {
        panic!("the last delta is not the usage: {deltas:?}")
    };
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.scope.as_str()),
        (Some(4), Some(output), "turn")
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_is_not_carried_out_with_the_next_message() {
    let cancelled = |messages| PastTurn {
        provider_id: Some("demo".to_owned()),
        status: Status::Cancelled,
        messages,
    };
    let partial = vec![text_message(Role::User, "slow"), text_message(Role::Assistant, "the demo")];
    let mut projection = Projection::new("demo", ImageHandling::Describe);
    projection.turn(&cancelled(partial));
    projection.turn(&cancelled(vec![text_message(Role::User, "hang")]));
    projection.open_turn(&[text_message(Role::User, "good morning")]);
    let (deltas, end) = run(request(projection.finish())).await;
    assert_eq!(end, DONE);
    let text = text_of(&deltas);
    for words in ["“good morning”", "3 earlier messages"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn help_lists_every_keyword() {
    let (deltas, end) = run(prompt("help")).await;
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
async fn thoughts_precede_the_answer() {
    let (deltas, end) = run(prompt("think hard")).await;
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
async fn own_tool_is_reported_from_call_to_result() {
    let (deltas, end) = run(prompt("use a tool")).await;
    assert_eq!(end, DONE);
    let tool: Vec<&Delta> =
        deltas.iter().filter(|delta| !matches!(delta, Delta::Text(_) | Delta::Usage(_))).collect();
    assert!(
        matches!(tool[0], Delta::ToolCall { id, name, .. }
            if id == "call_1" && name == "demo_clock"),
        "{tool:?}"
    );
    assert!(
        matches!(tool[1], Delta::ToolStatus { id, status: ToolStatus::Running } if id == "call_1")
    );
    assert!(matches!(tool[2], Delta::ToolResult { id, is_error: false, .. } if id == "call_1"));
    assert!(text_of(&deltas).contains("12:00"));
}

#[tokio::test(start_paused = true)]
async fn client_tool_is_called_and_its_result_is_quoted() {
    let earlier = Part::ToolCall {
        id: "call_1".into(),
        name: "x".into(),
        params: Value::Null,
        status: ToolStatus::Completed,
    };
    let result = |id: &str, text: &str| message(Role::Tool, vec![tool_result(id, text, false)]);
    let mut history = vec![message(Role::Assistant, vec![earlier]), result("call_1", "old")];
    history.push(text_message(Role::User, r#"call get_weather {"city":"Oslo"}"#));
    let tools = vec![std::sync::Arc::new(Tool {
        name: "get_weather".to_owned(),
        description: String::new(),
        parameters: Value::Null,
    })];
    let (deltas, end) = run(Request { tools: tools.clone(), ..request(history.clone()) }).await;
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
    let (deltas, end) = run(Request { tools, ..request(history) }).await;
    assert_eq!(end, DONE, "the tool is not called again");
    assert_eq!(text_of(&deltas), "The tool says: 4 °C and rain");
}

#[tokio::test(start_paused = true)]
async fn ask_ends_with_a_question() {
    let (deltas, end) = run(prompt("Ask me something")).await;
    assert_eq!(end, DONE);
    assert!(
        text_of(&deltas)
            .rsplit("\n\n")
            .next()
            .is_some_and(|last| last.starts_with("Which") && last.ends_with('?'))
    );
}

#[tokio::test(start_paused = true)]
async fn permission_suspends_the_run_and_the_answer_names_the_choice() {
    let (_, end) = run(prompt("permission please")).await;
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
    let answer = Answer { choice: Some("reject_once".to_owned()), ..Answer::default() };
    assert!(suspension.check(&answer).is_ok());
    let (deltas, end) =
        run(Request { resumes: vec![(suspension, answer)], ..prompt("permission please") }).await;
    assert_eq!(end, DONE);
    assert!(text_of(&deltas).contains("“Reject once”"));
}

#[tokio::test(start_paused = true)]
async fn fail_fails_with_or_without_text_before_it() {
    for (text, has_text) in [("fail", false), ("fail late", true)] {
        let (deltas, end) = run(prompt(text)).await;
        assert!(
            matches!(&end, End::Failed(failure)
                if failure.code == "demo_failure" && failure.class == FailureClass::Permanent),
            "{end:?}"
        );
        assert_eq!(!text_of(&deltas).is_empty(), has_text, "{text}");
        assert!(matches!(deltas.last(), Some(Delta::Usage(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_and_long_write_the_given_number_of_words() {
    let start_time = tokio::time::Instant::now();
    let (deltas, _) = run(prompt("long 1000")).await;
    assert_eq!(text_of(&deltas).split_whitespace().count(), 1000);
    assert!(start_time.elapsed().is_zero(), "without pauses");
    let (deltas, _) = run(prompt("slow 7")).await;
    assert_eq!(text_of(&deltas).split_whitespace().count(), 7);
    assert_eq!(start_time.elapsed(), Duration::from_millis(700));
}

#[tokio::test(start_paused = true)]
async fn steering_message_is_acknowledged_within_the_answer() {
    let mut run = start(prompt("slow 20"));
    let first = run.deltas.recv().await;
    assert_eq!(first, Some(Delta::Text("the ".to_owned())));
    let steer = Steer { message_id: MessageId(Ulid(7)), text: "use tabs".to_owned() };
    run.steers.send(steer).await.expect("the run reads steering messages");
    let (deltas, end) = finish(run).await;
    assert_eq!(deltas[0], Delta::Injected(MessageId(Ulid(7))));
    assert!(matches!(&deltas[1], Delta::Text(text) if text.contains("“use tabs”")));
    assert!(
        text_of(&deltas).ends_with(&filler(20)[filler(20).len() - 10..]),
        "the answer continues"
    );
    assert_eq!(end, DONE);
}

#[tokio::test(start_paused = true)]
async fn run_stops_on_cancellation_or_without_a_reader() {
    for text in ["hang", "slow 1000", "long 100000"] {
        let mut run = start(prompt(text));
        if text != "hang" {
            run.deltas.recv().await.expect("a word");
        }
        run.cancel.cancel();
        assert_eq!(run.end.await.expect("no panic"), End::Cancelled, "{text}");

        let run = start(prompt(text));
        drop(run.deltas);
        assert_eq!(run.end.await.expect("no panic"), End::Cancelled, "{text}, without a reader");
    }
}

#[tokio::test(start_paused = true)]
async fn summary_quotes_the_first_and_the_last_message() {
    let history = vec![
        text_message(Role::User, "build a boat"),
        text_message(Role::Assistant, "ok"),
        text_message(Role::User, "paint it"),
        text_message(Role::Assistant, "ok"),
    ];
    let prompt = request(
        [
            history,
            vec![text_message(
                Role::User,
                "Summarise the conversation and the tools that were used.",
            )],
        ]
        .concat(),
    );
    let text = text_of(&run(prompt).await.0);
    assert!(
        text.contains("build a boat") && text.contains("paint it") && text.contains("5 messages"),
        "{text}"
    );
}
