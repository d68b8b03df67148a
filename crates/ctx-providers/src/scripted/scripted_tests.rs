//! The scripted provider plays scripts and counts runs.

use std::time::Duration;

use ctx_core::id::{MessageId, RunId};
use ctx_engine::provider::Steer;
use serde_json::json;
use ulid::Ulid;

use super::*;
use crate::test_harness::{self, Run, TEST_TIMEOUT, finish, request};

const SESSION: SessionId = SessionId(Ulid(1));

fn start(provider: &Arc<Scripted>, run: u128) -> Run {
    let request = Request { session: SESSION, run: RunId(Ulid(run)), ..request(Vec::new()) };
    test_harness::start(provider, request)
}

fn text(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

#[tokio::test]
async fn scripts_are_played_in_order_and_then_the_answer_is_ok() {
    let first = Script::new()
        .say("one")
        .call("a", "look", json!({}))
        .end(End::Done(Stop::ToolCalls))
        .say("never");
    let provider = Arc::new(Scripted::new().then(first).then(Script::new().say("two")));
    let (deltas, end) = finish(start(&provider, 1)).await;
    let call = Delta::ToolCall { id: "a".to_owned(), name: "look".to_owned(), params: json!({}) };
    assert_eq!((deltas, end), (vec![text("one"), call], End::Done(Stop::ToolCalls)));
    assert_eq!(finish(start(&provider, 2)).await, (vec![text("two")], End::Done(Stop::EndTurn)));
    assert_eq!(finish(start(&provider, 3)).await, (vec![text("ok")], End::Done(Stop::EndTurn)));
    assert_eq!(
        provider.requests().iter().map(|request| request.run.0.0).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!((provider.running(), provider.running_max(SESSION)), (0, 1));
}

#[tokio::test]
async fn script_can_be_created_from_the_request() {
    let provider =
        Arc::new(Scripted::new().otherwise(|request| Script::new().say(&request.run.to_string())));
    assert_eq!(finish(start(&provider, 9)).await.0, [text(&RunId(Ulid(9)).to_string())]);
}

#[tokio::test]
async fn gate_holds_runs_and_simultaneous_runs_are_counted() {
    let gate = Gate::new();
    let script = Script::new().say("before").gate(&gate).say("after");
    let provider = Arc::new(Scripted::new().then(script.clone()).then(script));
    let (mut one, two) = (start(&provider, 1), start(&provider, 2));
    tokio::time::timeout(TEST_TIMEOUT, async { (gate.reached().await, gate.reached().await) })
        .await
        .expect("both runs reach the gate");
    assert_eq!((provider.running(), provider.running_max(SESSION)), (2, 2));
    assert_eq!(one.deltas.recv().await, Some(text("before")));
    assert!(one.deltas.try_recv().is_err(), "nothing passes a closed gate");
    gate.open();
    gate.open();
    assert_eq!(finish(one).await.0, [text("after")]);
    assert_eq!(finish(two).await.0, [text("before"), text("after")]);
    assert_eq!((provider.running(), provider.running_max(SESSION)), (0, 2));
}

#[tokio::test]
async fn steering_message_is_injected() {
    let provider = Arc::new(
        Scripted::new()
            .then(vec![Action::InjectSteers].into())
            .can(ProviderFeatures { steer: true, ..ProviderFeatures::default() }),
    );
    assert!(provider.about().can.steer && !provider.about().can.tools);
    let run = start(&provider, 1);
    run.steers
        .send(Steer { message_id: MessageId(Ulid(5)), text: "left".to_owned() })
        .await
        .expect("the run reads steering messages");
    assert_eq!(finish(run).await.0, [Delta::Injected(MessageId(Ulid(5))), text("heard: left")]);
}

#[tokio::test]
async fn every_waiting_action_ends_on_cancellation() {
    for action in [
        Action::Gate(Gate::new()),
        Action::InjectSteers,
        Action::Pause(Duration::from_secs(1_000_000)),
    ] {
        let provider = Arc::new(Scripted::new().then(Script::new().say("x").and(action)));
        let mut run = start(&provider, 1);
        run.deltas.recv().await.expect("x");
        run.cancel.cancel();
        assert_eq!(
            tokio::time::timeout(TEST_TIMEOUT, run.end).await.expect("in time").expect("no panic"),
            End::Cancelled
        );
    }
}

#[tokio::test]
async fn deaf_run_ignores_cancellation_and_is_not_counted_after_a_drop() {
    let provider = Arc::new(Scripted::new().then(Script::new().say("x").and(Action::Deaf)));
    let mut run = start(&provider, 1);
    run.deltas.recv().await.expect("x");
    run.cancel.cancel();
    tokio::task::yield_now().await;
    assert!(!run.end.is_finished());
    run.end.abort();
    assert!(run.end.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(provider.running(), 0);
}
