//! The history that is kept between runs: whatever changed a session meanwhile, the next request
//! contains what the store contains.

use ctx_engine::provider::{End, Failure, FailureClass, Request};
use ctx_engine::{Branch, Engine, NewMessage};
use ctx_providers::Scripted;
use ctx_providers::scripted::Script;
use proptest::prelude::*;

use super::context_window::is_summary;
use crate::harness::{Harness, seen};

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
    /// A run of several calls, with a pin during the run.
    ToolRound,
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
    }
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
