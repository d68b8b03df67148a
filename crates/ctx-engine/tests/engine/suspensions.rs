//! Suspensions: a turn that waits for a result stays open over restarts, is answered once, and
//! continues.

use ctx_core::id::SuspensionId;
use ctx_core::message::{Part, ToolStatus};
use ctx_core::session::Activity;
use ctx_core::step;
use ctx_core::stored_content::Content;
use ctx_core::suspension::{Answer, Awaited, Kind, Offer};
use ctx_core::turn::Status;
use ctx_engine::Info;
use ctx_engine::provider::End;
use ctx_providers::scripted::{Action, Gate, Script};
use serde_json::{Value, json};

use crate::harness::{Harness, PATIENCE, line, result, seen, tool, until, with_tool};

/// A session that waits for the results of two calls.
async fn waiting(bench: &Harness) -> Info {
    bench.provider.push(Script::new().say("looking").call("c1", "look", json!({"at": "x"})).call(
        "c2",
        "look",
        json!({"at": "y"}),
    ));
    bench.chat("one").await;
    bench.engine.messages().submit("one", with_tool("m", "look"), None).await.expect("taken");
    let info = bench.settled("one").await;
    assert_eq!(info.session.state, Activity::Suspended);
    info
}

fn results(ids: &[&str]) -> Answer {
    Answer {
        results: ids.iter().map(|id| result(id, &format!("result of {id}"))).collect(),
        ..Answer::default()
    }
}

fn choice(choice: &str) -> Answer {
    Answer { choice: Some(choice.to_owned()), ..Answer::default() }
}

fn asking(kind: Kind, offers: &[&str]) -> Awaited {
    let offer = |id: &&str| Offer { id: (*id).to_owned(), label: format!("{id} it"), kind: None };
    let options = offers.iter().map(offer).collect();
    Awaited {
        kind,
        tool_calls: Vec::new(),
        options,
        question: Some("May I?".to_owned()),
        provider_state: Some(json!({"at": 7})),
    }
}

/// A session whose provider waits for these suspensions.
async fn asked(bench: &Harness, awaited: Vec<Awaited>) -> Info {
    bench.provider.push(Script::new().say("may I").end(End::Suspended(awaited)));
    bench.chat("one").await;
    bench.send("one", "m").await;
    bench.settled("one").await
}

#[tokio::test]
async fn client_tools_suspend_the_turn_and_name_the_awaited_calls() {
    // R219, R225, R231, R232
    let bench = Harness::able();
    let info = waiting(&bench).await;
    assert!(info.run.is_none(), "nothing runs");
    assert_eq!(bench.provider.running(), 0);
    assert_eq!(info.suspensions.len(), 1);
    let awaited = &info.suspensions[0].awaited;
    assert_eq!(awaited.kind, Kind::ToolResult);
    let calls: Vec<_> = awaited
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.params["at"].clone()))
        .collect();
    assert_eq!(calls, [("c1", json!("x")), ("c2", json!("y"))]);
    assert_eq!(info.session.turn_count, 0, "the turn is open");
    assert_eq!(
        bench.transcript("one").await,
        ["user: m", "agent: looking [look Running] [look Running]"]
    );
}

#[tokio::test]
async fn results_continue_the_same_turn_under_a_new_run() {
    // R220, R249
    let bench = Harness::able();
    let info = waiting(&bench).await;
    let before = bench.provider.requests()[0].run;
    bench.provider.push(Script::new().say("found"));
    let run = bench
        .engine
        .runs()
        .resume("one", info.suspensions[0].id, results(&["c2", "c1"]))
        .await
        .expect("resumed")
        .expect("a run");
    assert_ne!(run.id, before);
    let done = bench.settled("one").await;
    assert_eq!(
        (done.session.state, done.session.turn_count, done.suspensions.len()),
        (Activity::Idle, 1, 0)
    );
    let again = &bench.provider.requests()[1];
    assert_eq!(again.run, run.id);
    assert_eq!(
        seen(&again.messages),
        [
            "user: m",
            "agent: looking [look Completed] [look Completed]",
            "tool: [= result of c1] [= result of c2]"
        ]
    );
    assert_eq!(*again.tools[0], tool("look"), "the tools of the message are offered on");
    assert_eq!(again.resumes.len(), 1);
    assert_eq!(bench.transcript("one").await.last().map(String::as_str), Some("agent: found"));
    assert_eq!(bench.endings("one").await, [Status::Completed]);
    bench.verify().await;
}

#[tokio::test]
async fn a_suspension_survives_a_restart_and_is_resumed_by_another_process() {
    // R231, R232
    let bench = Harness::able();
    let info = waiting(&bench).await;
    bench.engine.background().shutdown().await;
    let next = bench.another();
    next.background().start().await.expect("recovered");
    let found = next.sessions().get("one").await.expect("there");
    assert_eq!((found.session.state, &found.suspensions), (Activity::Suspended, &info.suspensions));
    next.runs()
        .resume("one", info.suspensions[0].id, results(&["c1", "c2"]))
        .await
        .expect("resumed");
    let done = next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!((done.session.state, done.session.turn_count), (Activity::Idle, 1));
    assert_eq!(bench.transcript("one").await.last().map(String::as_str), Some("agent: ok"));
    next.background().shutdown().await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_and_changes_nothing() {
    let bench = Harness::able();
    let info = waiting(&bench).await;
    let id = info.suspensions[0].id;
    let both = Answer { choice: Some("yes".to_owned()), ..results(&["c1", "c2"]) };
    for answer in [
        results(&[]),
        results(&["c1"]),
        results(&["c1", "c2", "c3"]),
        results(&["c1", "c1", "c2"]),
        choice("yes"),
        both,
    ] {
        let refused =
            bench.engine.runs().resume("one", id, answer).await.expect_err("it does not fit");
        assert_eq!(refused.code(), "bad_answer");
    }
    let unknown = bench
        .engine
        .runs()
        .resume("one", SuspensionId(ulid::Ulid(9)), results(&["c1", "c2"]))
        .await;
    assert_eq!(unknown.expect_err("unknown").code(), "no_suspension");
    assert_eq!(bench.engine.sessions().get("one").await.expect("there"), info);
}

#[tokio::test]
async fn of_two_concurrent_answers_one_counts() {
    // R249
    let bench = Harness::able();
    let id = waiting(&bench).await.suspensions[0].id;
    let mut answering = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let engine = bench.another();
        answering.spawn(async move {
            engine
                .runs()
                .resume("one", id, results(&["c1", "c2"]))
                .await
                .map(drop)
                .map_err(|error| error.code())
        });
    }
    let mut told = answering.join_all().await;
    told.sort();
    assert_eq!(told, [&[Ok(())][..], &[Err("suspension_consumed"); 7]].concat());
    bench.settled("one").await;
    assert_eq!(bench.provider.requests().len(), 2, "it ran on once");
    let late =
        bench.engine.runs().resume("one", id, results(&["c1", "c2"])).await.expect_err("answered");
    assert_eq!(late.code(), "suspension_consumed");
}

#[tokio::test]
async fn a_message_waits_for_the_answer_and_is_delivered_after_it() {
    // R240
    let bench = Harness::able();
    let id = waiting(&bench).await.suspensions[0].id;
    let sent = bench.send("one", "and then").await;
    assert_eq!((sent.state, sent.position), (Activity::Suspended, Some(1)));
    assert_eq!(bench.settled("one").await.inbox.len(), 1);
    bench.engine.runs().resume("one", id, results(&["c1", "c2"])).await.expect("resumed");
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["and then"]]);
    let request = seen(&bench.provider.requests()[2].messages);
    assert_eq!(request[request.len() - 2..], ["agent: ok", "user: and then"]);
}

#[tokio::test]
async fn cancel_ends_the_suspension_and_keeps_the_text() {
    // R223, R224, R227, R248
    let bench = Harness::able();
    let info = waiting(&bench).await;
    let released = bench.engine.runs().cancel("one").await.expect("released");
    assert_eq!((released.session.state, released.suspensions.len()), (Activity::Idle, 0));
    assert_eq!(bench.endings("one").await, [Status::Cancelled]);
    assert_eq!(
        bench.transcript("one").await,
        ["user: m", "agent: looking [look Unknown] [look Unknown]"]
    );
    let late = bench
        .engine
        .runs()
        .resume("one", info.suspensions[0].id, results(&["c1", "c2"]))
        .await
        .expect_err("released");
    assert_eq!(late.code(), "suspension_consumed");
    assert_eq!(
        bench.engine.sessions().get("one").await.expect("there").session.state,
        Activity::Idle,
        "idle never becomes suspended"
    );
    bench.say("one", "n").await;
    let request = &bench.provider.requests()[1].messages;
    let unknown = request.iter().flat_map(|message| &message.content).filter(|part| {
        matches!(part, Part::ToolResult { content: Content::Text(text),
            is_error: true, .. } if text.contains("unknown"))
    });
    assert_eq!(unknown.count(), 2, "the model gets an unknown outcome: {:?}", seen(request));
    bench.verify().await;
}

#[tokio::test]
async fn archiving_and_deleting_end_the_suspension() {
    // R198, R244
    let bench = Harness::able();
    waiting(&bench).await;
    let archived = bench.engine.sessions().archive("one").await.expect("archived");
    assert_eq!((archived.session.state, archived.suspensions.len()), (Activity::Idle, 0));
    bench.engine.sessions().delete("one").await.expect("deleted");
    waiting(&bench).await;
    bench.engine.sessions().delete("one").await.expect("deleted while it waits");
    bench.verify().await;
}

#[tokio::test]
async fn a_permission_is_answered_by_a_choice_or_by_a_message_equal_to_one() {
    // R220, R225
    for by_message in [false, true] {
        let bench = Harness::able();
        let info = asked(&bench, vec![asking(Kind::Permission, &["allow", "reject"])]).await;
        let id = info.suspensions[0].id;
        assert_eq!(
            bench
                .engine
                .runs()
                .resume("one", id, choice("perhaps"))
                .await
                .expect_err("not offered")
                .code(),
            "bad_answer"
        );
        assert_eq!(
            bench.send_as("one", "allow what exactly?", "queue").await.state,
            Activity::Suspended
        );
        if by_message {
            assert_eq!(bench.send("one", "Allow it.").await.state, Activity::Running);
        } else {
            bench.engine.runs().resume("one", id, choice("allow")).await.expect("resumed");
        }
        bench.settled("one").await;
        let (resumed, answer) =
            bench.provider.requests()[1].resumes.last().cloned().expect("it is told");
        assert_eq!((resumed.id, answer.choice.as_deref()), (id, Some("allow")));
        assert_eq!(
            resumed.awaited.provider_state,
            Some(json!({"at": 7})),
            "what the provider needs comes back"
        );
        let first = if by_message { vec!["m", "Allow it."] } else { vec!["m"] };
        assert_eq!(bench.turns("one").await, [first, vec!["allow what exactly?"]]);
    }
}

#[tokio::test]
async fn a_question_without_options_takes_any_text_and_an_event_takes_none() {
    // R225
    let bench = Harness::able();
    asked(&bench, vec![asking(Kind::Question, &[])]).await;
    assert_eq!(bench.send("one", "the second").await.state, Activity::Running);
    bench.settled("one").await;
    assert_eq!(
        seen(&bench.provider.requests()[1].messages),
        ["user: m", "agent: may I", "user: the second"]
    );
    assert_eq!(bench.engine.sessions().get("one").await.expect("there").session.turn_count, 1);
    bench.engine.sessions().delete("one").await.expect("deleted");
    let info = asked(&bench, vec![asking(Kind::Event, &[])]).await;
    assert_eq!(bench.send("one", "hello?").await.state, Activity::Suspended);
    bench
        .engine
        .runs()
        .resume("one", info.suspensions[0].id, choice("it rained"))
        .await
        .expect("resumed");
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [vec!["m", "it rained"], vec!["hello?"]]);
}

#[tokio::test]
async fn several_suspensions_are_answered_one_by_one_and_the_turn_continues_after_the_last() {
    let bench = Harness::able();
    let info = asked(
        &bench,
        vec![asking(Kind::Permission, &["allow"]), asking(Kind::Permission, &["yes", "no"])],
    )
    .await;
    let [first, second] = [info.suspensions[0].id, info.suspensions[1].id];
    assert_eq!(bench.engine.runs().resume("one", second, choice("no")).await.expect("taken"), None);
    let left = bench.engine.sessions().get("one").await.expect("there");
    assert_eq!((left.session.state, left.suspensions.len()), (Activity::Suspended, 1));
    assert_eq!(
        bench.engine.runs().resume("one", second, choice("yes")).await.expect_err("once").code(),
        "suspension_consumed"
    );
    assert!(
        bench.engine.runs().resume("one", first, choice("allow")).await.expect("taken").is_some()
    );
    assert_eq!(bench.settled("one").await.session.turn_count, 1);
}

#[tokio::test]
async fn an_answer_while_other_suspensions_remain_is_sent_to_followers() {
    let bench = Harness::able();
    let info = asked(
        &bench,
        vec![asking(Kind::Permission, &["allow"]), asking(Kind::Permission, &["yes"])],
    )
    .await;
    let seq = info.session.seq;
    bench.engine.runs().resume("one", info.suspensions[1].id, choice("yes")).await.expect("taken");
    assert!(
        bench.engine.sessions().get("one").await.expect("there").session.seq > seq,
        "the list of what is awaited changed"
    );
}

#[tokio::test]
async fn the_provider_gets_every_answer() {
    let bench = Harness::able();
    let info = asked(
        &bench,
        vec![asking(Kind::Permission, &["allow"]), asking(Kind::Permission, &["yes", "no"])],
    )
    .await;
    for (suspension, answer) in info.suspensions.iter().zip(["allow", "no"]) {
        bench.engine.runs().resume("one", suspension.id, choice(answer)).await.expect("taken");
    }
    bench.settled("one").await;
    let told = format!(
        "{:?} {:?}",
        bench.provider.requests()[1].resumes,
        seen(&bench.provider.requests()[1].messages)
    );
    assert!(told.contains("allow") && told.contains("\"no\""), "{told}");
}

#[tokio::test]
async fn work_done_directly_before_a_suspension_is_recorded() {
    // Regression: observations and events after the last checkpoint of a suspended run were lost.
    let bench = Harness::able();
    let note = step::Entry::Command {
        argv: vec!["cargo".to_owned(), "test".to_owned()],
        exit: Some(0),
        output: None,
    };
    bench.provider.push(Script::new().call("c1", "look", json!({})).and(Action::Observe(note)));
    bench.tracked("one").await;
    bench
        .engine
        .messages()
        .submit("one", with_tool("Add a parser for dates", "look"), None)
        .await
        .expect("taken");
    let info = bench.settled("one").await;
    assert_eq!(info.session.state, Activity::Suspended);
    assert_eq!(info.task.expect("a task").progress.work(), 1);
}

#[tokio::test]
async fn a_result_of_a_client_tool_is_work_of_the_task() {
    // R83: a new task does not drop what was done through tools of the client.
    let bench = Harness::able();
    bench.provider.push(Script::new().call("c1", "write_file", json!({"path": "a.rs"})));
    bench.provider.push(Script::new().say("Which date format do you need?"));
    bench.tracked("one").await;
    let message = with_tool("Add a parser for dates", "write_file");
    bench.engine.messages().submit("one", message, None).await.expect("taken");
    let info = bench.settled("one").await;
    assert!(!info.task.expect("a task").has_meaningful_work());
    let (id, answer) = (info.suspensions[0].id, results(&["c1"]));
    bench.engine.runs().resume("one", id, answer).await.expect("resumed");
    let task = bench.settled("one").await.task.expect("a task");
    assert_eq!(task.progress.recent, ["Tool write_file: ok: result of c1"]);
    assert!(task.has_meaningful_work());
    bench.verify().await;
}

#[tokio::test]
async fn ctx_tools_are_answered_at_once_while_client_tools_are_awaited() {
    let bench = Harness::able();
    let ask = json!({"question": "Which?"});
    bench.provider.push(
        Script::new().call("c1", "ask_user", ask).call("c2", "look", json!({})).call(
            "c3",
            "nothing",
            Value::Null,
        ),
    );
    bench.tracked("one").await;
    bench
        .engine
        .messages()
        .submit("one", with_tool("Add a parser for dates", "look"), None)
        .await
        .expect("taken");
    let info = bench.settled("one").await;
    assert_eq!(info.suspensions[0].awaited.tool_calls.len(), 1);
    let mut feed = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    let (mut completed, mut last) = (Vec::new(), 0);
    while last < info.session.seq {
        let item = tokio::time::timeout(PATIENCE, feed.next())
            .await
            .expect("more")
            .expect("works")
            .expect("there");
        let ctx_engine::FeedItem::Event(event) = item else { continue };
        last = event.seq;
        if event.event.name() == "tool_call.completed" {
            completed
                .push(event.event.json()["tool_call_id"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(completed, ["c1", "c3"]);
    bench
        .engine
        .runs()
        .resume("one", info.suspensions[0].id, results(&["c2"]))
        .await
        .expect("resumed");
    bench.settled("one").await;
    let open =
        bench.told("one").await.iter().flat_map(|told| told.message.content.clone()).any(|part| {
            matches!(
                part,
                Part::ToolCall {
                    status: ToolStatus::Running | ToolStatus::Pending | ToolStatus::Unknown,
                    ..
                }
            )
        });
    assert!(
        !open,
        "{:?}",
        bench.told("one").await.iter().map(|told| line(&told.message)).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_cancelled_run_does_not_suspend() {
    // R223, R248
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(
        Script::new().say("x").gate(&gate).end(End::Suspended(vec![asking(Kind::Event, &[])])),
    );
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    bench.engine.runs().cancel("one").await.expect("cancelled");
    gate.open();
    until("nothing runs", async || bench.provider.running() == 0).await;
    let info = bench.settled("one").await;
    assert_eq!((info.session.state, info.suspensions.len()), (Activity::Idle, 0));
}
