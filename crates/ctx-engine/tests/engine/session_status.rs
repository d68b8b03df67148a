//! The status of a session: what changes it, what does not, and the state after a failed write.

use std::sync::Arc;

use ctx_core::id::{ObjectId, TurnId};
use ctx_core::session::{Activity, Status};
use ctx_core::time::{Span, Timestamp};
use ctx_core::turn;
use ctx_engine::ManualClock;
use ctx_engine::provider::{End, Failure, FailureClass, Stop};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};

use crate::harness::{Harness, PATIENCE, until};

/// Every way in which the process of an agent can end.
fn deaths() -> Vec<(&'static str, Scripted)> {
    let ending = |end: End| Scripted::new().then(Script::new().say("half").end(end));
    vec![
        ("exit 0", ending(End::Done(Stop::EndTurn))),
        (
            "exit 1",
            ending(End::Failed(Failure::new("exit_1", FailureClass::Permanent, "exit status: 1"))),
        ),
        (
            "killed",
            ending(End::Failed(Failure::new("signal_9", FailureClass::RetryLater, "signal: 9"))),
        ),
        ("gone without a word", ending(End::Cancelled)),
        (
            "panic",
            Scripted::new().otherwise(|request| {
                assert!(request.messages.len() > 1, "a provider's bug at the first message");
                Script::new().say("back")
            }),
        ),
    ]
}

#[tokio::test]
async fn an_active_session_takes_messages_whether_an_agent_runs_or_not() {
    // R199
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().then(Script::new().say("x").gate(&gate)));
    let status = async || bench.engine.sessions().get("one").await.expect("there").session.status;
    assert_eq!(bench.chat("one").await.session.status, Status::Active);
    assert_eq!(bench.provider.running(), 0, "no agent runs, and it is active");
    bench.send("one", "a").await;
    gate.reached().await;
    assert_eq!((status().await, bench.provider.running()), (Status::Active, 1));
    bench.send_as("one", "b", "queue").await;
    gate.open();
    let done = bench.settled("one").await;
    assert_eq!((done.session.status, bench.provider.running()), (Status::Active, 0));
    assert_eq!(
        bench.turns("one").await,
        [["a"], ["b"]],
        "taken beside a running agent and without one"
    );
}

#[tokio::test]
async fn however_an_agent_ends_the_status_stays_and_the_next_message_starts_it_again() {
    // R202, R204, R205
    for (how, provider) in deaths() {
        let bench = Harness::new(provider);
        bench.chat("one").await;
        until("nothing is awake", async || bench.engine.background().awake_sessions() == 0).await;
        assert_eq!(
            (bench.provider.requests().len(), bench.provider.running()),
            (0, 0),
            "{how}: nothing starts before a message"
        );
        let dead = bench.say("one", "a").await;
        assert_eq!(
            (dead.session.status, dead.session.state),
            (Status::Active, Activity::Idle),
            "{how}"
        );
        assert_eq!(
            (bench.provider.requests().len(), bench.provider.running()),
            (1, 0),
            "{how}: it is gone"
        );
        let again = bench.say("one", "b").await;
        assert_eq!((again.session.status, again.session.turn_count), (Status::Active, 2), "{how}");
        assert_eq!(
            (bench.provider.requests().len(), bench.provider.running()),
            (2, 0),
            "{how}: one start for each message"
        );
        assert_eq!(
            bench.endings("one").await[1],
            turn::Status::Completed,
            "{how}: the message was sent to the new one"
        );
        let seen = bench.engine.events().stored(again.session.id, 0, 1000).await.expect("events");
        let names: Vec<String> = seen.iter().map(|event| event.event.name().to_owned()).collect();
        assert!(
            !names.iter().any(|name| name.contains("session.updated")),
            "{how}: no event with another status: {names:?}"
        );
    }
}

#[tokio::test]
async fn an_agent_that_ends_does_not_unarchive_its_session() {
    // R202
    let gate = Gate::new();
    let bench =
        Harness::new(Scripted::new().then(Script::new().say("x").gate(&gate).and(Action::Deaf)));
    bench.chat("one").await;
    bench.send("one", "a").await;
    gate.reached().await;
    gate.open();
    bench.engine.sessions().archive("one").await.expect("archived");
    until("it is gone", async || {
        bench.provider.running() == 0 && bench.engine.background().awake_sessions() == 0
    })
    .await;
    assert_eq!(
        bench.engine.sessions().get("one").await.expect("there").session.status,
        Status::Archived
    );
}

#[tokio::test]
async fn messages_waiting_for_a_dead_agent_start_it_again() {
    // R205
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().then(
        Script::new().gate(&gate).end(End::Failed(Failure::new(
            "exit_1",
            FailureClass::Permanent,
            "no",
        ))),
    ));
    bench.chat("one").await;
    bench.send("one", "a").await;
    gate.reached().await;
    bench.send_as("one", "b", "queue").await;
    gate.open();
    let done = bench.engine.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!((done.session.status, done.session.turn_count), (Status::Active, 2));
    assert_eq!(
        bench.transcript("one").await,
        ["user: a", "agent: !exit_1", "user: b", "agent: ok"]
    );
}

#[tokio::test]
async fn a_failed_move_of_the_head_changes_nothing() {
    // R152: one is refused, the other finds nothing, while others write concurrently.
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    bench.chat("two").await;
    bench.say("one", "a").await;
    bench.say("one", "b").await;
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 10)
        .await
        .expect("turns");
    bench.engine.sessions().rewind("one", turns[1].id).await.expect("back");
    bench.say("one", "c").await;
    let look = async || {
        (
            bench.engine.sessions().get("one").await.expect("there"),
            bench.engine.sessions().head_moves("one", None, 100).await.expect("moves"),
        )
    };
    let before = look().await;
    assert_eq!(before.1.len(), 4);
    let unknown = TurnId(ObjectId::of(&[b"nothing"]));
    for (to, code) in [(turns[0].id, "not_an_ancestor"), (unknown, "not_found")] {
        let (failed, beside) = tokio::join!(
            bench.engine.sessions().rewind("one", to),
            bench.engine.messages().submit("two", ctx_engine::NewMessage::text("m"), None)
        );
        assert_eq!(failed.expect_err("no such way back").code(), code);
        beside.expect("no other write fails");
        assert_eq!(look().await, before, "{code}");
    }
    assert_eq!(bench.settled("two").await.session.turn_count, 2);
    assert_eq!(bench.say("one", "d").await.session.turn_count, 3);
    bench.verify().await;
}

#[tokio::test]
async fn a_provider_is_stopped_after_five_idle_minutes_and_the_session_is_unchanged() {
    // R204, R205, R208
    let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
    let bench = Harness::new(Scripted::new()).with_clock(&clock);
    let id = bench.chat("one").await.session.id;
    let before = bench.say("one", "a").await.session;
    until("no actor is awake", async || bench.engine.background().awake_sessions() == 0).await;
    clock.advance(Span::minutes(4));
    bench.engine.background().release_idle().await;
    assert!(bench.provider.rested().is_empty(), "not yet");
    clock.advance(Span::minutes(1));
    bench.engine.background().release_idle().await;
    bench.engine.background().release_idle().await;
    assert_eq!(bench.provider.rested(), [id], "told once");
    let after = bench.engine.sessions().get("one").await.expect("there").session;
    assert_eq!((after.status, after.state, after.head), (before.status, before.state, before.head));
    assert_eq!(
        bench.say("one", "b").await.session.turn_count,
        2,
        "the next message starts it again"
    );
}

#[tokio::test]
async fn the_result_of_a_provider_never_sets_a_state() {
    // R202, R203, R215: providers cannot set states; a failed process is an error part of its turn.
    let exited = Failure::new(
        "process_exited",
        FailureClass::Permanent,
        "the agent's process exited with code 3",
    );
    let ends = [
        End::Done(Stop::EndTurn),
        End::Done(Stop::MaxTokens),
        End::Done(Stop::Refused),
        End::Failed(exited),
        End::Failed(Failure::new("auth_required", FailureClass::Auth, "log in")),
        End::Failed(Failure::new("context_overflow", FailureClass::Overflow, "too long")),
        End::Cancelled,
    ];
    for end in ends {
        let bench = Harness::new(Scripted::new().then(Script::new().say("x").end(end.clone())));
        bench.chat("one").await;
        let after = bench.say("one", "a").await.session;
        assert_eq!(
            (after.status, after.state, after.turn_count),
            (Status::Active, Activity::Idle, 1),
            "{end:?}"
        );
        if let End::Failed(failure) = &end {
            let told = bench.transcript("one").await;
            assert!(told[1].contains(&format!("!{}", failure.code)), "{told:?}");
        }
    }
}
