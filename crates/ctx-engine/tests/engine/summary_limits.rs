//! After a compaction the request is within its target, even if the model ignores the limit of its
//! summary.

use ctx_core::compaction::Compaction;
use ctx_core::turn::Usage;
use ctx_engine::provider::{End, Failure, FailureClass, Request};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Script};

use crate::context_window::{is_summary, words};
use crate::harness::Harness;

const WINDOW: u64 = 2000;

/// Answers `ok`, and summarises at a length that no limit allows.
fn verbose_model(sentence: &'static str) -> Scripted {
    let script = move |request: &Request| {
        let text = if is_summary(request) { sentence.repeat(500) } else { "ok".to_owned() };
        Script::new().say(&text)
    };
    Scripted::new().with_context_window(WINDOW).otherwise(script)
}

async fn newest_compaction(bench: &Harness) -> Compaction {
    bench.engine.contexts().newest_compaction("one").await.expect("a compaction").1
}

/// The row's numbers are those of the request that the model received after the compaction.
fn last_request(bench: &Harness) -> String {
    let request = bench.provider.requests().pop().expect("asked");
    crate::harness::seen(&request.messages).join("\n")
}

#[tokio::test]
async fn a_summary_that_is_too_long_leaves_at_most_60_percent() {
    // R168
    for sentence in ["We built a boat. ", "nospaces", "我们造了一条船。", "a\n\nb "] {
        let bench = Harness::new(verbose_model(sentence));
        bench.chat("one").await;
        for n in 0..3 {
            bench.say("one", &words(250, &format!("m{n}"))).await;
        }
        // The new message alone takes half of the window.
        bench.say("one", &words(1020, "large")).await;
        let row = newest_compaction(&bench).await;
        assert!(row.tokens_before * 100 > WINDOW * 85, "{}", row.tokens_before);
        assert!(row.tokens_after * 100 <= WINDOW * 60, "{sentence}: {}", row.tokens_after);
        assert!(row.summary.contains("[The summary was shortened here.]"), "{}", row.summary);
        assert!(last_request(&bench).contains(&row.summary), "the model gets the short one");
        if sentence.contains(". ") {
            let text = row.summary.split("[The summary").next().unwrap_or_default().trim_end();
            assert!(text.ends_with("We built a boat."), "cut between sentences: {text}");
        }
        bench.verify().await;
    }
}

#[tokio::test]
async fn a_summary_that_is_too_long_leaves_at_most_40_percent_after_an_overflow() {
    // R170
    let bench = Harness::new(verbose_model("We built a boat. "));
    bench.chat("one").await;
    for n in 0..3 {
        bench.say("one", &words(350, &format!("m{n}"))).await;
    }
    let overflow = Failure::new("context_overflow", FailureClass::Overflow, "too long");
    bench.provider.push(Script::new().end(End::Failed(overflow)));
    bench.say("one", &words(600, "large")).await;
    let row = newest_compaction(&bench).await;
    assert!(row.tokens_after * 100 <= WINDOW * 40, "{}", row.tokens_after);
    assert!(last_request(&bench).contains(&row.summary));
}

#[tokio::test]
async fn a_second_compaction_is_within_the_target_too() {
    // R168, R178
    let bench = Harness::new(verbose_model("We built a boat. "));
    bench.chat("one").await;
    let mut compactions = 0;
    let mut newest = None;
    for n in 0..16 {
        bench.say("one", &words(300, &format!("m{n}"))).await;
        if let Ok((turn, row)) = bench.engine.contexts().newest_compaction("one").await
            && newest != Some(turn.id)
        {
            newest = Some(turn.id);
            compactions += 1;
            assert!(row.tokens_after * 100 <= WINDOW * 60, "{n}: {}", row.tokens_after);
        }
    }
    assert!(compactions >= 2, "{compactions}");
}

#[tokio::test]
async fn the_limit_holds_for_the_tokens_that_the_provider_counts() {
    // R168: the provider counts half as many tokens again as ctx.
    let bench = Harness::new(verbose_model("We built a boat. "));
    bench.chat("one").await;
    let usage =
        Usage { input_tokens: Some(405), scope: "last_call".to_owned(), ..Usage::default() };
    for n in 0..3 {
        let script =
            if n == 0 { Script::new().and(Action::Usage(usage.clone())) } else { Script::new() };
        bench.provider.push(script.say("ok"));
        bench.say("one", &words(270, &format!("m{n}"))).await;
    }
    bench.say("one", &words(600, "large")).await;
    let row = newest_compaction(&bench).await;
    assert!(row.metadata.correction.is_some_and(|ratio| ratio > 1300), "{:?}", row.metadata);
    assert!(row.tokens_after * 100 <= WINDOW * 60, "{}", row.tokens_after);
}
