//! Usage: the sums of a turn's calls, reports, and budgets that warn and stop.

use std::collections::BTreeMap;

use ctx_core::budget::{Budget, Limits};
use ctx_core::message::{Part, Role};
use ctx_core::prices::{Price, Prices};
use ctx_core::session::Activity;
use ctx_core::turn::{Status, Usage};
use ctx_core::usage::{By, Dollars};
use ctx_core::usage_query::UsageQuery;
use ctx_engine::{Order, Spending, UsageKey};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Script};
use serde_json::json;

use crate::harness::{Harness, open};

/// A dollar for a million tokens of any kind: a token costs a millionth of a dollar.
const PRICE: Price = Price { input: 1_000_000, cached: 1_000_000, output: 1_000_000 };

fn tokens(input: u64, output: u64) -> Action {
    Action::Usage(Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        scope: "last_call".to_owned(),
        ..Usage::default()
    })
}

fn costing(dollars: &str) -> Action {
    Action::Usage(Usage {
        cost: Some(format!("{dollars} USD")),
        scope: "turn".to_owned(),
        ..Usage::default()
    })
}

fn limits(session: &str, day: &str, provider: &str) -> Limits {
    let parse = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a limit"));
    let providers: BTreeMap<_, _> =
        parse(provider).map(|limit| ("main".to_owned(), limit)).into_iter().collect();
    Limits { session: parse(session), day: parse(day), providers }
}

fn with_budget(bench: &mut Harness, warn: Limits, stop: Limits) {
    let budget = Budget { warn, stop };
    bench.engine = bench.engine.clone().with_spending(Spending { budget, ..Spending::default() });
}

/// The codes of the error parts of the newest turn, and its status.
async fn newest(bench: &Harness, session: &str) -> (Vec<String>, Status) {
    let turns = bench.engine.messages().turns(session, Order::Desc, None, 1).await.expect("turns");
    let messages = turns[0].messages().expect("readable").expect("a body");
    let parts = messages.into_iter().flat_map(|message| message.content);
    let codes = parts.filter_map(|part| match part {
        Part::Error { code, .. } => Some(code),
        _ => None,
    });
    (codes.collect(), turns[0].header.status)
}

#[tokio::test]
async fn all_calls_of_a_turn_count_and_the_last_one_gives_the_size_of_the_request() {
    let bench = Harness::able();
    bench.chat("one").await;
    let note = json!({"to": "nobody"});
    bench.provider.push(Script::new().call("c1", "no_such_tool", note).and(tokens(100, 5)));
    bench.provider.push(Script::new().say("done").and(tokens(130, 7)));
    bench.say("one", "go").await;
    assert_eq!(bench.provider.requests().len(), 2, "two calls of the model");
    let turns = bench.engine.messages().turns("one", Order::Desc, None, 1).await.expect("turns");
    let usage = turns[0].header.usage.clone().expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(230), Some(12)));
    assert_eq!((usage.scope.as_str(), usage.last_call_input()), ("turn", Some(130)));
    let report = bench.engine.usage().report(&UsageQuery::by(By::Day)).await.expect("a report");
    assert_eq!(report.total.tally.input.value(), Some(230));
    assert_eq!((report.total.tally.turns, report.total.tally.tool_calls), (1, 1));
    bench.verify().await;
}

#[tokio::test]
async fn a_report_has_the_reported_cost_or_the_price_or_says_that_it_is_unknown() {
    let mut bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    for script in [
        Script::new().say("a").and(costing("0.25")),
        Script::new().say("b").and(tokens(1_000_000, 500_000)),
        Script::new().say("c"),
    ] {
        bench.provider.push(script);
        bench.say("one", "x").await;
    }
    let cost = async |bench: &Harness| {
        let total = bench
            .engine
            .usage()
            .report(&UsageQuery::by(By::Session))
            .await
            .expect("a report")
            .total;
        (total.cost, total.unpriced_turns)
    };
    let quarter = Dollars(250_000_000);
    assert_eq!(cost(&bench).await, (Some(quarter), 2), "no price is known");
    let model = bench.engine.messages().turns("one", Order::Desc, None, 1).await.expect("turns")[0]
        .header
        .model
        .clone();
    if let Some(model) = model {
        let prices = Prices::new(BTreeMap::from([(model, PRICE)]));
        let spending = Spending { prices, ..Spending::default() };
        bench.engine = bench.engine.clone().with_spending(spending);
        assert_eq!(cost(&bench).await, (Some(Dollars(quarter.0 + 1_500_000_000)), 1));
    }
    let report = bench.engine.usage().report(&UsageQuery::by(By::Session)).await.expect("a report");
    assert!(matches!(&report.rows[0].key, UsageKey::Session { label, .. } if label == "one"));
}

#[tokio::test]
async fn a_limit_stops_the_next_request_and_leaves_the_session_usable() {
    for (n, stop) in [limits("1 USD", "", ""), limits("", "1 USD", ""), limits("", "", "1 USD")]
        .into_iter()
        .enumerate()
    {
        let mut bench = Harness::new(Scripted::new());
        with_budget(&mut bench, Limits::default(), stop.clone());
        bench.chat("one").await;
        for _ in 0..2 {
            bench.provider.push(Script::new().say("ok").and(costing("0.6")));
            bench.say("one", "spend").await;
        }
        assert_eq!(bench.provider.requests().len(), 2, "0.6 of 1 is below the limit");
        bench.say("one", "more").await;
        assert_eq!(bench.provider.requests().len(), 2, "no request was sent: case {n}");
        let (codes, status) = newest(&bench, "one").await;
        assert_eq!(
            (codes.as_slice(), status),
            (&["budget_exceeded".to_owned()][..], Status::Failed)
        );
        let info = bench.engine.sessions().get("one").await.expect("there");
        assert_eq!(info.session.state, Activity::Idle);

        // It is kept over a restart: the sums are in the store.
        let restarted = open(&bench.store, &bench.provider, Default::default());
        let budget = Budget { warn: Limits::default(), stop };
        bench.engine = restarted.with_spending(Spending { budget, ..Spending::default() });
        bench.say("one", "still?").await;
        assert_eq!(newest(&bench, "one").await.0, ["budget_exceeded"]);
        assert_eq!(bench.provider.requests().len(), 2);

        // With a higher limit the session continues.
        with_budget(&mut bench, Limits::default(), limits("9 USD", "9 USD", "9 USD"));
        bench.provider.push(Script::new().say("on we go"));
        bench.say("one", "again").await;
        assert_eq!(newest(&bench, "one").await, (Vec::new(), Status::Completed));
        bench.verify().await;
    }
}

#[tokio::test]
async fn a_limit_of_tokens_stops_a_turn_between_two_calls() {
    let mut bench = Harness::able();
    with_budget(&mut bench, Limits::default(), limits("150 tokens", "", ""));
    bench.chat("one").await;
    for n in 0..3 {
        let call = Script::new().call(&format!("c{n}"), "no_such_tool", json!({}));
        bench.provider.push(call.and(tokens(90, 10)));
    }
    bench.say("one", "go").await;
    assert_eq!(bench.provider.requests().len(), 2, "100 of 150 tokens, then 200");
    assert_eq!(newest(&bench, "one").await.0, ["budget_exceeded"]);
}

#[tokio::test]
async fn a_turn_that_reaches_a_limit_has_a_notice_and_the_next_has_none() {
    let mut bench = Harness::new(Scripted::new());
    with_budget(&mut bench, limits("1 USD", "", ""), Limits::default());
    bench.chat("one").await;
    let mut notices = Vec::new();
    for _ in 0..4 {
        bench.provider.push(Script::new().say("ok").and(costing("0.6")));
        bench.say("one", "spend").await;
        let turns =
            bench.engine.messages().turns("one", Order::Desc, None, 1).await.expect("turns");
        let messages = turns[0].messages().expect("readable").expect("a body");
        let system = messages.into_iter().filter(|message| message.role == Role::System);
        let texts: Vec<Part> = system.flat_map(|message| message.content).collect();
        notices.push(texts.len());
        if let Some(Part::Text { text }) = texts.first() {
            assert_eq!(text, "Budget: the budget of this session is 1 USD, and 1.2 USD are used.");
        }
    }
    assert_eq!(notices, [0, 1, 0, 0]);
    let request = bench.provider.requests().pop().expect("a request");
    let said: Vec<_> = request.messages.iter().map(|message| message.role).collect();
    assert!(!said.contains(&Role::System), "a notice is not sent to the model: {said:?}");
}
