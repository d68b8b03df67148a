//! The history that is kept between runs: whatever changed a session meanwhile, the next request
//! contains what the store contains.

use ctx_engine::provider::{End, Failure, FailureClass, Request};
use ctx_engine::{Branch, Engine, NewMessage};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Gate, Script};
use proptest::prelude::*;

use super::context_window::is_summary;
use crate::harness::{Harness, seen, until};

/// What happens to the session `one` between two messages.
#[derive(Debug, Clone, Copy)]
enum Between {
    Nothing,
    Rewind(usize),
    Pin(usize),
    Unpin,
    Compact,
    Retry,
    /// A fork, with a message in it.
    Fork(usize),
    /// A message that another process accepts and runs.
    MessageElsewhere,
    /// A message that fails.
    Failure,
    /// A run of several calls.
    ToolRound,
    /// A turn is pinned or unpinned while a run is open.
    PinDuringRun(usize),
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        2 => Just(Between::Nothing),
        2 => (0..4_usize).prop_map(Between::Rewind),
        2 => (0..4_usize).prop_map(Between::Pin),
        1 => Just(Between::Unpin),
        1 => Just(Between::Compact),
        1 => Just(Between::Retry),
        1 => (0..4_usize).prop_map(Between::Fork),
        2 => Just(Between::MessageElsewhere),
        1 => Just(Between::Failure),
        1 => Just(Between::ToolRound),
        2 => (0..6_usize).prop_map(Between::PinDuringRun),
    ]
}

async fn turn(bench: &Harness, back: usize) -> Option<ctx_core::id::TurnId> {
    let turns = bench.engine.messages().history("one", back + 1).await.expect("there");
    turns.last().map(|turn| turn.id)
}

async fn apply(bench: &Harness, other: &Engine, step: Between, n: usize) {
    let sessions = bench.engine.sessions();
    match step {
        Between::Nothing => {}
        Between::Rewind(back) => {
            if let Some(turn) = turn(bench, back).await {
                sessions.rewind("one", turn).await.expect("an ancestor");
            }
        }
        Between::Pin(back) => {
            if let Some(turn) = turn(bench, back).await {
                let _ = bench.engine.contexts().pin("one", turn).await;
            }
        }
        Between::Unpin => {
            let pins = bench.engine.contexts().pins("one").await.expect("there");
            if let Some(pin) = pins.first() {
                bench.engine.contexts().unpin("one", pin.turn).await.expect("pinned");
            }
        }
        Between::Compact => {
            if bench.engine.contexts().compact("one", None).await.is_ok() {
                bench.settled("one").await;
            }
        }
        Between::Retry => {
            if bench.engine.runs().retry("one", Default::default()).await.is_ok() {
                bench.settled("one").await;
            }
        }
        Between::Fork(back) => {
            let turn = turn(bench, back).await;
            let branch = Branch { turn, label: Some(format!("fork{n}")), ..Branch::default() };
            sessions.branch("one", branch).await.expect("forked");
            bench.say(&format!("fork{n}"), "in the fork").await;
        }
        Between::MessageElsewhere => {
            other.messages().submit("one", NewMessage::text("elsewhere"), None).await.expect("ok");
            bench.settled("one").await;
        }
        Between::Failure => {
            let failure = Failure::new("broken", FailureClass::Permanent, "it is broken");
            bench.provider.push(Script::new().end(End::Failed(failure)));
            bench.say("one", "fails").await;
        }
        Between::ToolRound => {
            bench.provider.push(Script::new().call("c1", "no_such_tool", serde_json::json!({})));
            bench.say("one", "with a tool").await;
        }
        Between::PinDuringRun(back) => pin_during_run(bench, back).await,
    }
}

/// Pins a turn during a run, or unpins it.
async fn pin_during_run(bench: &Harness, back: usize) {
    let Some(turn) = turn(bench, back).await else { return };
    let (gate, before) = (Gate::new(), bench.provider.requests().len());
    bench.provider.push(Script::new().gate(&gate).say("ok"));
    bench.send("one", "gated").await;
    until("the run is open", async || bench.provider.requests().len() > before).await;
    let contexts = bench.engine.contexts();
    if contexts.unpin("one", turn).await.is_err() {
        let _ = contexts.pin("one", turn).await;
    }
    gate.open();
    bench.settled("one").await;
}

#[tokio::test]
async fn a_turn_that_is_pinned_during_a_run_is_in_the_next_request() {
    check(&[Between::Nothing, Between::Compact, Between::Nothing, Between::PinDuringRun(5)]).await;
}

async fn check(steps: &[Between]) {
    let answer = |request: &Request| match is_summary(request) {
        true => Script::new().say("SUMMARY"),
        false => Script::new().say("ok"),
    };
    let bench = Harness::new(Scripted::new().otherwise(answer));
    let other = bench.another();
    bench.chat("one").await;
    bench.say("one", "first").await;
    for (n, step) in steps.iter().enumerate() {
        apply(&bench, &other, *step, n).await;
        let stored = bench.engine.contexts().next_request("one").await.expect("there");
        let text = format!("m{n}");
        bench.say("one", &text).await;
        let mut wanted = seen(&stored.messages);
        let sent = bench.provider.requests().pop().expect("a request");
        let mut sent = seen(&sent.messages);
        assert_eq!(sent.pop(), Some(format!("user: {text}")), "{step:?} of {steps:?}");
        // The new message separates an unanswered one from itself.
        if sent.len() > wanted.len() {
            wanted.push(sent[wanted.len()].clone());
        }
        assert_eq!(sent, wanted, "{step:?} of {steps:?}");
    }
    bench.verify().await;
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn a_request_contains_the_stored_history_after_any_change(
        steps in prop::collection::vec(between(), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(check(&steps));
    }
}
