//! Runs: the stored turn, the request to the model, failures, retries and cancels.

use std::time::Duration;

use ctx_core::message::Part;
use ctx_core::session::{Activity, Status};
use ctx_core::turn;
use ctx_engine::provider::{End, Failure, FailureClass};
use ctx_engine::{NewMessage, NewSession, SearchRequest};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};

use crate::harness::{Harness, seen, until};

fn failing(code: &str, class: FailureClass) -> Script {
    Script::new().end(End::Failed(Failure::new(code, class, "no")))
}

#[tokio::test]
async fn a_session_is_idle_until_a_message_comes_and_after_it_is_answered() {
    // R13, R16, R129, R131, R196, R217, R218, R221, R241, R242
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().then(Script::new().say("hello").gate(&gate)));
    let made = bench.chat("one").await;
    assert_eq!(
        (made.session.state, made.session.status, made.session.head),
        (Activity::Idle, Status::Active, None)
    );
    assert!(bench.provider.requests().is_empty(), "nothing was started");
    let sent = bench.send("one", "hi").await;
    assert_eq!((sent.state, sent.position), (Activity::Running, None));
    assert!(sent.run_id.is_some());
    gate.reached().await;
    let running = bench.engine.sessions().get("one").await.expect("there");
    assert_eq!(running.session.state, Activity::Running);
    assert_eq!(running.run.expect("a run").id, sent.run_id.expect("a run"));
    gate.open();
    let done = bench.settled("one").await;
    assert_eq!((done.session.state, done.session.turn_count), (Activity::Idle, 1));
    assert!(done.run.is_none());
    assert_eq!(bench.transcript("one").await, ["user: hi", "agent: hello"]);
    assert_eq!(bench.told("one").await[0].message.id, sent.message_id);
    bench.verify().await;
}

#[tokio::test]
async fn the_first_turn_is_a_root_and_each_later_one_has_the_previous_as_parent() {
    // R15, R132, R144, R145, R147, R148, R164
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    for text in ["a", "b", "c"] {
        bench.say("one", text).await;
    }
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 10)
        .await
        .expect("turns");
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[2].header.parent, None);
    assert_eq!(turns[1].header.parent, Some(turns[2].id));
    assert_eq!(turns[0].header.parent, Some(turns[1].id));
    assert_eq!(
        bench.engine.sessions().get("one").await.expect("there").session.head,
        Some(turns[0].id)
    );
    let moves = bench.engine.sessions().head_moves("one", None, 10).await.expect("moves");
    assert_eq!(
        moves.iter().map(|moved| moved.turn).collect::<Vec<_>>(),
        turns.iter().map(|turn| Some(turn.id)).collect::<Vec<_>>()
    );
    let requests = bench.provider.requests();
    assert_eq!(
        seen(&requests[2].messages),
        ["user: a", "agent: ok", "user: b", "agent: ok", "user: c"]
    );
}

#[tokio::test]
async fn sessions_run_concurrently_and_each_message_runs_once() {
    // R144, R146
    let bench = Harness::new(
        Scripted::new()
            .otherwise(|_| Script::new().and(Action::Pause(Duration::from_millis(5))).say("ok")),
    );
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(bench.chat(&format!("s{n}")).await.session.id);
    }
    for n in 0..12 {
        bench.send_as(&format!("s{}", n % 4), &format!("m{n}"), "queue").await;
    }
    for (n, id) in ids.iter().enumerate() {
        let done = bench.settled(&format!("s{n}")).await;
        assert_eq!(done.session.turn_count, 3);
        assert_eq!(bench.provider.running_max(*id), 1);
    }
    bench.verify().await;
}

#[tokio::test]
async fn a_failure_is_a_part_of_the_turn_and_another_provider_can_continue() {
    // R222, R228, R236
    let bench = Harness::new(Scripted::new().then(failing("boom", FailureClass::Permanent)));
    bench.chat("one").await;
    let failed = bench.say("one", "a").await;
    assert_eq!((failed.session.state, failed.session.status), (Activity::Idle, Status::Active));
    assert_eq!(bench.transcript("one").await, ["user: a", "agent: !boom"]);
    assert_eq!(bench.endings("one").await, [turn::Status::Failed]);
    let overrides = ctx_core::inbox::Overrides {
        provider_id: Some("other".to_owned()),
        model: Some("m2".to_owned()),
        ..Default::default()
    };
    bench
        .engine
        .messages()
        .submit("one", NewMessage { overrides, ..NewMessage::text("b") }, None)
        .await
        .expect("taken");
    let after = bench.settled("one").await;
    assert_eq!(after.session.provider_id, None, "the session keeps its own preference");
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 1)
        .await
        .expect("turns");
    assert_eq!(
        (turns[0].header.provider_id.as_deref(), turns[0].header.model.as_deref()),
        (Some("other"), Some("m2"))
    );
    assert_eq!(
        seen(&bench.provider.requests()[1].messages),
        [
            "user: a",
            "user: [This request failed before it was answered. Do not act on it unless asked \
             again.]",
            "user: b"
        ],
        "the model is told that it failed, and does not see the error"
    );
}

#[tokio::test]
async fn transient_failures_are_retried_only_before_the_first_output() {
    // R229
    let bench = Harness::new(
        Scripted::new()
            .then(failing("rate_limited", FailureClass::RetryLater))
            .then(failing("timeout", FailureClass::RetryNow))
            .then(Script::new().say("at last"))
            .then(Script::new().say("half").end(End::Failed(Failure::new(
                "cut",
                FailureClass::RetryLater,
                "no",
            )))),
    );
    bench.chat("one").await;
    bench.say("one", "a").await;
    assert_eq!(bench.transcript("one").await, ["user: a", "agent: at last"]);
    assert_eq!(bench.provider.requests().len(), 3);
    bench.say("one", "b").await;
    assert_eq!(bench.transcript("one").await[2..], ["user: b", "agent: half !cut"]);
    assert_eq!(bench.provider.requests().len(), 4);
}

#[tokio::test]
async fn a_permanent_failure_is_reported_after_some_retries() {
    // R229
    let bench = Harness::new(
        Scripted::new().otherwise(|_| failing("rate_limited", FailureClass::RetryLater)),
    );
    bench.chat("one").await;
    bench.say("one", "a").await;
    assert_eq!(bench.transcript("one").await, ["user: a", "agent: !rate_limited"]);
    assert_eq!(bench.provider.requests().len(), 4);
}

#[tokio::test]
async fn a_long_retry_after_ends_the_retries() {
    // R229
    let asks_for = |seconds: u64| {
        let failure = Failure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..Failure::new("rate_limited", FailureClass::RetryLater, "no")
        };
        Script::new().end(End::Failed(failure))
    };
    let bench = Harness::new(
        Scripted::new().then(asks_for(0)).then(Script::new().say("at last")).then(asks_for(3600)),
    );
    bench.chat("one").await;
    bench.say("one", "a").await;
    bench.say("one", "b").await;
    assert_eq!(
        bench.transcript("one").await,
        ["user: a", "agent: at last", "user: b", "agent: !rate_limited"]
    );
    assert_eq!(bench.provider.requests().len(), 3);
}

#[tokio::test]
async fn a_provider_that_panics_or_is_unknown_fails_its_turn_only() {
    // R222, R235
    let bench = Harness::new(Scripted::new().otherwise(|_| panic!("a provider's bug")));
    bench.chat("one").await;
    bench.say("one", "a").await;
    assert_eq!(bench.transcript("one").await, ["user: a", "agent: !provider_panicked"]);
    let wrong = NewMessage {
        overrides: ctx_core::inbox::Overrides {
            provider_id: Some("nobody".to_owned()),
            ..Default::default()
        },
        ..NewMessage::text("b")
    };
    let refused =
        bench.engine.messages().submit("one", wrong, None).await.expect_err("no such provider");
    assert_eq!(refused.code(), "unknown_provider");
}

#[tokio::test]
async fn cancel_ends_the_run_and_keeps_what_it_made() {
    // R227, R248
    let gate = Gate::new();
    let bench =
        Harness::new(Scripted::new().then(Script::new().say("half an").gate(&gate).say(" answer")));
    bench.chat("one").await;
    bench.send("one", "a").await;
    gate.reached().await;
    let info = bench.engine.runs().cancel("one").await.expect("cancelled");
    assert_eq!(info.session.state, Activity::Idle);
    assert_eq!(bench.transcript("one").await, ["user: a", "agent: half an"]);
    assert_eq!(bench.endings("one").await, [turn::Status::Cancelled]);
    let idle = bench.engine.runs().cancel("one").await.expect("nothing to cancel is no error");
    assert_eq!(idle.session.turn_count, 1);
    assert_eq!(bench.say("one", "b").await.session.turn_count, 2);
}

#[tokio::test]
async fn a_provider_that_ignores_a_cancel_is_dropped() {
    let gate = Gate::new();
    let bench =
        Harness::new(Scripted::new().then(Script::new().say("x").gate(&gate).and(Action::Deaf)));
    bench.chat("one").await;
    bench.send("one", "a").await;
    gate.reached().await;
    gate.open();
    let info = bench.engine.runs().cancel("one").await.expect("cancelled");
    assert_eq!(info.session.state, Activity::Idle);
    assert_eq!(bench.endings("one").await, [turn::Status::Cancelled]);
}

#[tokio::test]
async fn a_persona_is_the_system_prompt_and_an_unknown_one_is_refused() {
    let bench = Harness::new(Scripted::new());
    bench
        .make(NewSession {
            label: Some("one".to_owned()),
            persona: Some("atlas".to_owned()),
            ..NewSession::default()
        })
        .await;
    bench.say("one", "a").await;
    assert_eq!(bench.provider.requests()[0].system.as_deref(), Some("You are Atlas."));
    let new = NewSession { persona: Some("nobody".to_owned()), ..NewSession::default() };
    assert_eq!(
        bench.engine.sessions().create(new, None, None).await.expect_err("unknown").code(),
        "unknown_persona"
    );
}

#[tokio::test]
async fn a_session_continues_with_another_provider() {
    // R14, R235, R237
    let bench = Harness::new(Scripted::new());
    bench
        .make(NewSession {
            label: Some("one".to_owned()),
            provider_id: Some("other".to_owned()),
            model: Some("m".to_owned()),
            ..NewSession::default()
        })
        .await;
    bench.say("one", "a").await;
    assert_eq!(bench.provider.requests()[0].model.as_deref(), Some("m"));
    let later = bench.another();
    later.messages().submit("one", NewMessage::text("b"), None).await.expect("taken");
    later.sessions().wait_until_settled("one", crate::harness::PATIENCE).await.expect("done");
    let again = &bench.provider.requests()[1];
    assert_eq!(
        (again.model.as_deref(), seen(&again.messages)),
        (Some("m"), vec!["user: a".to_owned(), "agent: ok".to_owned(), "user: b".to_owned()])
    );
}

#[tokio::test]
async fn retry_runs_the_last_message_again_and_the_first_try_stays_in_the_tree() {
    let bench = Harness::new(
        Scripted::new()
            .then(failing("boom", FailureClass::Permanent))
            .then(Script::new().say("better")),
    );
    bench.chat("one").await;
    bench.say("one", "a").await;
    bench.engine.runs().retry("one", Default::default()).await.expect("again");
    let done = bench.settled("one").await;
    assert_eq!(done.session.turn_count, 1);
    assert_eq!(bench.transcript("one").await, ["user: a", "agent: better"]);
    let tree = bench.engine.sessions().tree("one", 100).await.expect("a tree");
    // Both are roots, since the first message was run again.
    assert_eq!(tree.len(), 2);
    bench.verify().await;
}

#[tokio::test]
async fn rewind_moves_the_head_back_and_keeps_later_turns() {
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    bench.say("one", "a").await;
    bench.say("one", "b").await;
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 10)
        .await
        .expect("turns");
    let back = bench.engine.sessions().rewind("one", turns[1].id).await.expect("rewound");
    assert_eq!((back.session.head, back.session.turn_count), (Some(turns[1].id), 1));
    bench.say("one", "c").await;
    assert_eq!(seen(&bench.provider.requests()[2].messages), ["user: a", "agent: ok", "user: c"]);
    assert_eq!(bench.engine.sessions().tree("one", 100).await.expect("a tree").len(), 3);
    let other = bench
        .engine
        .sessions()
        .rewind("one", turns[0].id)
        .await
        .expect_err("on another branch now");
    assert_eq!(other.code(), "not_an_ancestor");
    bench.verify().await;
}

#[tokio::test]
async fn deleting_removes_history_except_turns_of_forks() {
    // R210, R244
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    bench.say("one", "a").await;
    bench.say("one", "secret words").await;
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 10)
        .await
        .expect("turns");
    bench.engine.sessions().fork("one", turns[1].id, Some("kept")).await.expect("forked");
    bench.engine.sessions().delete("one").await.expect("deleted");
    assert_eq!(bench.engine.sessions().get("one").await.expect_err("gone").code(), "no_session");
    assert!(bench.engine.messages().turn(turns[0].id).await.is_err(), "the turn is gone");
    assert_eq!(bench.transcript("kept").await, ["user: a", "agent: ok"]);
    let request = SearchRequest::new("secret", 10);
    assert_eq!(bench.engine.records().search(&request).await.expect("searched").hits, []);
    bench.verify().await;
}

#[tokio::test]
async fn a_running_session_can_be_deleted_and_archived() {
    // R198, R206, R207, R210, R244
    let gate = Gate::new();
    let waiting = |gate: &Gate| Script::new().say("x").gate(gate);
    let bench = Harness::new(Scripted::new().then(waiting(&gate)).then(waiting(&gate)));
    bench.chat("one").await;
    bench.chat("two").await;
    bench.send("one", "a").await;
    gate.reached().await;
    bench.engine.sessions().delete("one").await.expect("deleted");
    bench.send("two", "a").await;
    gate.reached().await;
    let put_away = bench.engine.sessions().archive("two").await.expect("archived");
    assert_eq!(
        (put_away.session.status, put_away.session.state),
        (Status::Archived, Activity::Idle)
    );
    assert_eq!(bench.transcript("two").await, ["user: a", "agent: x"], "still readable");
    let query = ctx_engine::SessionQuery {
        statuses: vec![Status::Active, Status::Suspended],
        limit: 10,
        ..Default::default()
    };
    let (listed, hidden) = bench.engine.sessions().list(&query).await.expect("listed");
    assert_eq!((listed.len(), hidden.archived), (0, 1));
    let back = bench.say("two", "b").await;
    assert_eq!(back.session.status, Status::Active, "a message takes it out again");
    bench.verify().await;
}

#[tokio::test]
async fn a_large_tool_result_is_stored_once_and_sent_to_the_model() {
    // R234
    let large = "r".repeat(10_000);
    let script = Script::new()
        .call("c1", "look", serde_json::json!({}))
        .and(Action::Result { id: "c1".to_owned(), content: large.clone(), is_error: false })
        .say("seen");
    let bench = Harness::new(Scripted::new().then(script));
    bench.chat("one").await;
    bench.say("one", "a").await;
    bench.say("one", "b").await;
    let shown = &bench.provider.requests()[1].messages;
    let result = shown.iter().flat_map(|message| &message.content).find_map(|part| match part {
        Part::ToolResult { content, .. } => content.text(),
        _ => None,
    });
    assert_eq!(result, Some(large.as_str()));
    assert_eq!(bench.engine.maintenance().health().await.expect("health").blobs, 1);
    bench.verify().await;
}

#[tokio::test]
async fn idle_sessions_have_no_actor_and_no_channel() {
    let bench = Harness::new(Scripted::new());
    for n in 0..20 {
        bench.chat(&format!("s{n}")).await;
        bench.say(&format!("s{n}"), "a").await;
    }
    let asleep = async || {
        bench.engine.background().awake_sessions() == 0
            && bench.engine.background().open_channels() == 0
    };
    until("no actor is awake and no channel is open", asleep).await;
}
