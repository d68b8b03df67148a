//! The context window: how it is assembled, compacted and pinned, asserted on requests to the
//! model.

use std::sync::Arc;

use ctx_core::compaction::{Compaction, Trigger, Type};
use ctx_core::message::{Message, Part, Role};
use ctx_core::session::{Activity, Status};
use ctx_core::turn::{Kind, Usage};
use ctx_engine::provider::{End, Failure, FailureClass, ProviderFeatures, Request};
use ctx_engine::{Engine, NewSession, Order, Providers, StoredTurn, Summariser};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};

use crate::harness::{Harness, TestStore, seen, short_timeouts};

/// Whether a request asks for a summary; such a request ends with the instruction.
pub(crate) fn is_summary(request: &Request) -> bool {
    line_of(request.messages.last()).starts_with("Summarise the conversation above")
}

fn line_of(message: Option<&Message>) -> String {
    message
        .map(|message| {
            message.content.iter().filter_map(Part::searchable_text).collect::<Vec<_>>().join("\n")
        })
        .unwrap_or_default()
}

/// Answers `ok`, and summarizes as `SUMMARY` with the number of messages in the request.
pub(crate) fn model(window: u64) -> Scripted {
    let script = |request: &Request| {
        if is_summary(request) {
            return Script::new().say(&format!("SUMMARY of {}", request.messages.len() - 1));
        }
        Script::new().say("ok")
    };
    Scripted::new().with_context_window(window).otherwise(script)
}

/// A text of about this many tokens with a mark at its end.
pub(crate) fn words(tokens: usize, name: &str) -> String {
    format!("{}{name}", "word ".repeat(tokens))
}

async fn compactions(bench: &Harness, session: &str) -> Vec<(StoredTurn, Compaction)> {
    let turns =
        bench.engine.messages().turns(session, Order::Desc, None, 1000).await.expect("there");
    turns
        .into_iter()
        .rev()
        .filter_map(|turn| turn.compaction.clone().map(|row| (turn, row)))
        .collect()
}

fn texts(request: &Request) -> Vec<String> {
    seen(&request.messages)
}

#[tokio::test]
async fn exactly_85_percent_is_sent_and_a_token_more_is_compacted_first() {
    // R168, R169: the compaction row has the token count of the request that caused it.
    let weigh = async |window: u64, last: &str| {
        let bench = Harness::new(model(window));
        bench.chat("one").await;
        bench.say("one", &words(300, "first")).await;
        bench.say("one", last).await;
        compactions(&bench, "one").await.pop().map(|(_, row)| row.tokens_before)
    };
    // Its token count is a multiple of 17, so that it fills a window of 20/17 of it to exactly 85
    // %.
    let mut last = words(100, "last");
    let mut weight = weigh(400, &last).await.expect("far too small a window");
    while weight % 17 != 0 {
        last.push_str(" word");
        weight = weigh(400, &last).await.expect("far too small a window");
    }
    let window = weight / 17 * 20;
    assert_eq!(weigh(window, &last).await, None, "exactly 85 % of {window}");
    assert_eq!(weigh(window - 1, &last).await, Some(weight), "strictly above");
}

#[tokio::test]
async fn a_compaction_before_the_run_is_a_turn_with_its_whole_row() {
    // R168, R172, R173, R174, R175, R176
    let bench = Harness::new(model(2000));
    bench.chat("one").await;
    for n in 0..4 {
        bench.say("one", &words(350, &format!("m{n}"))).await;
    }
    let before = bench.transcript("one").await;
    assert!(compactions(&bench, "one").await.is_empty());
    bench.say("one", &words(400, "m4")).await;
    let all = compactions(&bench, "one").await;
    let [(turn, row)] = all.as_slice() else { panic!("one compaction, not {}", all.len()) };
    assert_eq!(
        (turn.header.kind, row.trigger, row.kind),
        (Kind::Compaction, Trigger::ContextLimit, Type::Summary)
    );
    assert!(row.tokens_before * 100 > 2000 * 85, "the new message counts: {}", row.tokens_before);
    assert!(row.tokens_after * 100 <= 2000 * 60, "the target: {}", row.tokens_after);
    assert_eq!(
        (row.provider.as_deref(), row.model.as_deref()),
        (Some("main"), Some("scripted")),
        "the session's own model (R171)"
    );
    assert!(
        row.summary.contains("SUMMARY of") && row.summary.contains("Goals:\n- word"),
        "{}",
        row.summary
    );
    assert!(row.summary_tokens > 0 && row.tokens_after > row.summary_tokens);
    let turns = bench.engine.messages().turns("one", Order::Desc, None, 100).await.expect("there");
    let oldest_first: Vec<&StoredTurn> = turns.iter().rev().collect();
    let summarised = usize::try_from(row.turns_summarized).expect("a few");
    assert!((1..4).contains(&summarised));
    assert_eq!(row.summarized_through, Some(oldest_first[summarised - 1].id));
    assert_eq!(
        row.first_kept,
        Some(oldest_first[summarised].id),
        "kept turns lie before the compaction"
    );
    assert_eq!(
        oldest_first[4].id, turn.id,
        "it hangs under the head, before the turn that it was made for"
    );
    // Nothing is deleted: all messages are there, and the summary.
    let after = bench.transcript("one").await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()], format!("ctx: {}", row.summary));
    // The model got the summary, the kept turns, the later ones and the new message.
    let requests = bench.provider.requests();
    let last = texts(requests.last().expect("asked"));
    let mut expected = vec![format!("ctx: {}", row.summary)];
    expected.extend(before[2 * summarised..].iter().cloned());
    expected.push(format!("user: {}", words(400, "m4")));
    assert_eq!(last, expected);
    // The summarizing model got the messages and the instruction at the end.
    let asked = requests.iter().find(|request| is_summary(request)).expect("asked for a summary");
    assert_eq!(asked.messages.len(), 2 * summarised + 1);
    assert!(
        asked.tools.is_empty() && !texts(asked).iter().any(|line| line.contains("m4")),
        "not the user's message"
    );
    bench.verify().await;
}

#[tokio::test]
async fn overflow_compacts_and_retries_once() {
    // R150, R170, R174
    let overflow =
        || End::Failed(Failure::new("context_overflow", FailureClass::Overflow, "too long"));
    let bench = Harness::new(model(100_000));
    bench.chat("one").await;
    for n in 0..3 {
        bench.say("one", &format!("m{n}")).await;
    }
    let id = bench.engine.sessions().get("one").await.expect("there").session.id;
    bench.provider.push(Script::new().end(overflow()));
    bench.say("one", "too much").await;
    // By our count everything fits into 40 % of that window, so compaction gains nothing: the turn
    // gets an error.
    assert!(
        bench.transcript("one").await.last().is_some_and(|line| line.contains("!context_overflow"))
    );

    let bench = Harness::new(model(2000));
    bench.chat("one").await;
    let id_small = bench.engine.sessions().get("one").await.expect("there").session.id;
    assert_ne!(id, id_small);
    for n in 0..3 {
        bench.say("one", &words(350, &format!("m{n}"))).await;
    }
    bench.provider.push(Script::new().end(overflow()));
    let info = bench.say("one", "more").await;
    let (_, row) = compactions(&bench, "one").await.pop().expect("one");
    assert_eq!(row.trigger, Trigger::OverflowRecovery);
    assert!(row.tokens_after * 100 <= 2000 * 40, "{}", row.tokens_after);
    assert_eq!(
        bench.transcript("one").await.last().map(String::as_str),
        Some("agent: ok"),
        "tried again, and it fits"
    );
    let events = bench.engine.events().stored(info.session.id, 0, 1000).await.expect("there");
    let phases: Vec<String> = events
        .iter()
        .filter_map(|event| Some(event.event.json().get("phase")?.as_str()?.to_owned()))
        .collect();
    let tail: Vec<&str> =
        phases.iter().map(String::as_str).skip_while(|phase| *phase != "compacting").collect();
    assert_eq!(tail, ["compacting", "streaming"], "{phases:?}");
    assert!(events.iter().any(|event| event.event.name() == "compaction.completed"
        && event.event.json()["trigger"] == "overflow_recovery"));

    bench.provider.push(Script::new().end(overflow()));
    bench.provider.push(Script::new().say("SUMMARY"));
    bench.provider.push(Script::new().end(overflow()));
    let info = bench.say("one", &words(300, "again")).await;
    let told = bench.transcript("one").await;
    assert!(
        told.last().is_some_and(|line| line.contains("!context_overflow")),
        "the second is an error of the turn: {told:?}"
    );
    assert_eq!((info.session.state, info.session.status), (Activity::Idle, Status::Active));
    bench.verify().await;
}

#[tokio::test]
async fn a_configured_summary_model_writes_the_summaries() {
    // R171
    let store = TestStore::new();
    let (main, cheap) = (Arc::new(model(1000)), Arc::new(model(100_000)));
    let mut providers = Providers::only("main", main.clone());
    providers.all.insert("cheap".to_owned(), cheap.clone());
    providers.summariser =
        Some(Summariser { provider: "cheap".to_owned(), model: Some("small".to_owned()) });
    let engine = Engine::open(store.location(), ctx_engine::Options::default())
        .expect("a store")
        .with_providers(providers, short_timeouts());
    let bench = Harness::on(store, engine, main);
    bench.chat("one").await;
    for n in 0..4 {
        bench.say("one", &words(300, &format!("m{n}"))).await;
    }
    let (_, row) = compactions(&bench, "one").await.pop().expect("one");
    assert_eq!((row.provider.as_deref(), row.model.as_deref()), (Some("cheap"), Some("small")));
    assert!(
        cheap
            .requests()
            .iter()
            .all(|request| is_summary(request) && request.model.as_deref() == Some("small"))
    );
    assert!(!bench.provider.requests().iter().any(is_summary));
}

#[tokio::test]
async fn a_compaction_never_separates_a_tool_call_from_its_result() {
    // R172: in every request the result follows its call directly.
    let provider = Scripted::new()
        .with_context_window(1500)
        .can(ProviderFeatures { tools: true, ..ProviderFeatures::default() })
        .otherwise(|request| {
            if is_summary(request) {
                return Script::new().say("SUMMARY");
            }
            match request.messages.last().map(|message| message.role) {
                Some(Role::Tool) => Script::new().say(&words(60, "done")),
                _ => Script::new().call("c", "nothing", serde_json::json!({"x": words(80, "p")})),
            }
        });
    let bench = Harness::new(provider);
    bench.chat("one").await;
    for n in 0..12 {
        bench.say("one", &words(40 * (n % 3 + 1), &format!("m{n}"))).await;
    }
    assert!(compactions(&bench, "one").await.len() >= 2);
    for request in bench.provider.requests().iter().filter(|request| !is_summary(request)) {
        let mut open = false;
        for message in &request.messages {
            assert_eq!(open, message.role == Role::Tool, "{:?}", texts(request));
            open = message.content.iter().any(|part| matches!(part, Part::ToolCall { .. }));
        }
        assert!(!open);
    }
}

#[tokio::test]
async fn a_result_that_is_too_long_is_shortened_in_its_middle() {
    // R170: the open turn alone is too long; the stored result stays complete.
    let overflow =
        End::Failed(Failure::new("context_overflow", FailureClass::Overflow, "too long"));
    let bench = Harness::new(
        Scripted::new()
            .with_context_window(3000)
            .can(ProviderFeatures { tools: true, ..ProviderFeatures::default() }),
    );
    bench.chat("one").await;
    let long = words(20_000, "the end");
    bench.provider.push(Script::new().call("c", "look", serde_json::json!({})));
    bench.provider.push(Script::new().end(overflow));
    bench.provider.push(Script::new().say("seen"));
    bench
        .engine
        .messages()
        .submit("one", crate::harness::with_tool("look", "look"), None)
        .await
        .expect("taken");
    let info = bench.settled("one").await;
    let results = vec![crate::harness::result("c", &long)];
    let answer = ctx_core::suspension::Answer { results, ..Default::default() };
    bench.engine.runs().resume("one", info.suspensions[0].id, answer).await.expect("resumed");
    bench.settled("one").await;
    let told = bench.transcript("one").await;
    assert_eq!(told.last().map(String::as_str), Some("agent: seen"), "{told:?}");
    for request in bench.provider.requests().iter().skip(1) {
        let result =
            texts(request).into_iter().find(|line| line.starts_with("tool:")).expect("the result");
        assert!(
            result.contains("[shortened to fit the context")
                && result.ends_with("the end]")
                && result.len() < 3000,
            "{result}"
        );
    }
    let kept = bench.told("one").await;
    let blob = kept
        .iter()
        .flat_map(|told| &told.message.content)
        .find_map(Part::blob)
        .expect("kept as a blob");
    let stored = bench.engine.records().object(blob.0).await.expect("read").expect("there");
    assert_eq!(stored.bytes, long.as_bytes());
}

#[tokio::test]
async fn a_manual_compaction_is_a_message_with_or_without_a_focus() {
    // R177
    let bench = Harness::new(model(100_000));
    bench.chat("one").await;
    for n in 0..4 {
        bench.say("one", &format!("m{n}")).await;
    }
    bench.say("one", "/compact").await;
    let (turn, row) = compactions(&bench, "one").await.pop().expect("one");
    assert_eq!((row.trigger, row.metadata.focus.as_deref()), (Trigger::Manual, None));
    assert_eq!(turn.header.messages.len(), 2, "the wish and the summary are one turn");
    let asked = bench.provider.requests().into_iter().next_back().expect("asked");
    assert!(is_summary(&asked) && !line_of(asked.messages.last()).contains("most attention"));
    bench.say("one", "go on").await;
    let last = texts(&bench.provider.requests().into_iter().next_back().expect("asked"));
    assert!(
        last[0].starts_with("ctx: ") && !last.iter().any(|line| line.contains("/compact")),
        "{last:?}"
    );
    bench.engine.contexts().compact("one", Some("the boat")).await.expect("taken");
    bench.settled("one").await;
    let (_, row) = compactions(&bench, "one").await.pop().expect("another");
    assert_eq!((row.trigger, row.metadata.focus.as_deref()), (Trigger::Manual, Some("the boat")));
    let asked = bench.provider.requests().into_iter().next_back().expect("asked");
    assert!(line_of(asked.messages.last()).ends_with("the boat"));
    // Where compaction gains nothing, the message reports it.
    bench.say("one", "/compact").await;
    bench.say("one", "/compact").await;
    let told = bench.transcript("one").await;
    assert!(told.last().is_some_and(|line| line.contains("nothing to summarise")), "{told:?}");
    bench.chat("empty").await;
    assert_eq!(
        bench.engine.contexts().compact("empty", None).await.expect_err("empty").code(),
        "nothing_to_compact"
    );
    let long = "x".repeat(3000);
    assert_eq!(
        bench.engine.contexts().compact("one", Some(&long)).await.expect_err("long").code(),
        "bad_text"
    );
    bench.verify().await;
}

#[tokio::test]
async fn a_manual_compaction_waits_for_the_run_and_does_not_change_the_task() {
    // R177
    let gate = Gate::new();
    let bench = Harness::new(model(100_000).then(Script::new().say("a").gate(&gate)));
    bench.tracked("one").await;
    bench.send("one", "build a boat").await;
    gate.reached().await;
    let sent = bench.send("one", "/compact").await;
    assert_eq!(
        (sent.position, sent.intent),
        (Some(1), None),
        "it waits and is no part of the task"
    );
    let task = bench.engine.sessions().get("one").await.expect("there").task.expect("a task");
    gate.open();
    bench.settled("one").await;
    assert_eq!(compactions(&bench, "one").await.len(), 1);
    let after = bench.engine.sessions().get("one").await.expect("there").task.expect("a task");
    assert_eq!((after.id, after.description), (task.id, task.description));
    let (_, row) = compactions(&bench, "one").await.pop().expect("one");
    assert!(
        row.summary.contains("build a boat"),
        "the goal is kept by construction: {}",
        row.summary
    );
}

#[tokio::test]
async fn repeated_compactions_include_the_previous_summary() {
    // R178
    let bench = Harness::new(model(1500));
    bench.chat("one").await;
    for n in 0..20 {
        bench.say("one", &words(200, &format!("m{n}"))).await;
    }
    let all = compactions(&bench, "one").await;
    assert!(all.len() >= 3, "{}", all.len());
    for pair in all.windows(2) {
        let ((before, older), (_, newer)) = (&pair[0], &pair[1]);
        assert_eq!(newer.metadata.folds, Some(before.id));
        assert!(newer.turns_summarized > older.turns_summarized, "it replaces all earlier turns");
    }
    let folding: Vec<Request> = bench.provider.requests().into_iter().filter(is_summary).collect();
    for (request, (_, row)) in folding.iter().skip(1).zip(&all) {
        assert_eq!(
            texts(request)[0],
            format!("ctx: {}", row.summary),
            "the older summary is read first"
        );
    }
    let last = bench.provider.requests().into_iter().next_back().expect("asked");
    let summaries = last.messages.iter().filter(|message| message.role == Role::System).count();
    assert_eq!(summaries, 1, "only the newest is in the context: {:?}", texts(&last));
    bench.verify().await;
}

#[tokio::test]
async fn a_failed_summary_is_replaced_by_a_marked_extract() {
    let failing = |request: &Request| match is_summary(request) {
        true => {
            Script::new().end(End::Failed(Failure::new("broken", FailureClass::Permanent, "no")))
        }
        false => Script::new().say("ok"),
    };
    let bench = Harness::new(Scripted::new().with_context_window(1000).otherwise(failing));
    bench.chat("one").await;
    for n in 0..4 {
        bench.say("one", &format!("m{n} {}", words(250, "x"))).await;
    }
    let (_, row) = compactions(&bench, "one").await.pop().expect("one");
    assert_eq!((row.kind, row.provider.as_deref()), (Type::SlidingWindow, None));
    assert!(
        row.summary.contains("[No model was available for a summary.")
            && row.summary.contains("m0"),
        "{}",
        row.summary
    );
    assert!(row.metadata.failure.as_deref().is_some_and(|why| why.starts_with("broken")));
    assert_eq!(
        bench.transcript("one").await.last().map(String::as_str),
        Some("agent: ok"),
        "the message runs all the same"
    );
}

#[tokio::test]
async fn token_counts_of_the_provider_correct_the_estimate() {
    // The provider counts twice as many tokens as ctx: the window is full at half of ctx's count.
    let usage = |n: u64| {
        Action::Usage(Usage {
            input_tokens: Some(n),
            scope: "last_call".to_owned(),
            ..Usage::default()
        })
    };
    let run = async |told: Option<u64>| {
        let bench = Harness::new(model(3000));
        bench.chat("one").await;
        let script = told.map_or_else(Script::new, |told| Script::new().and(usage(told)));
        bench.provider.push(script.say("ok"));
        bench.say("one", &words(1000, "m0")).await;
        bench.say("one", &words(600, "m1")).await;
        compactions(&bench, "one").await.pop().map(|(_, row)| row.tokens_before)
    };
    assert_eq!(run(None).await, None, "by our own count it fits");
    assert!(run(Some(2010)).await.is_some_and(|before| before > 3000));
}

#[tokio::test]
async fn a_run_stopped_during_a_summary_leaves_no_partial_compaction() {
    let gate = Gate::new();
    let hold = gate.clone();
    let slow = move |request: &Request| match is_summary(request) {
        true => Script::new().say("SUM").gate(&hold).say("MARY"),
        false => Script::new().say("ok"),
    };
    let bench = Harness::new(Scripted::new().with_context_window(1000).otherwise(slow));
    bench.chat("one").await;
    for n in 0..3 {
        bench.say("one", &words(250, &format!("m{n}"))).await;
    }
    bench.send("one", &words(200, "cancelled")).await;
    gate.reached().await;
    let info = bench.engine.runs().cancel("one").await.expect("cancelled");
    assert_eq!(info.session.state, Activity::Idle);
    assert!(compactions(&bench, "one").await.is_empty());
    // The process stops in the middle while another message waits. That message runs after a
    // complete compaction.
    bench.send("one", &words(200, "cut off")).await;
    gate.reached().await;
    bench.send_as("one", "waited", "queue").await;
    bench.engine.background().shutdown().await;
    let next = bench.another();
    // The summary may take some calls.
    (0..6).for_each(|_| gate.open());
    next.background().start().await.expect("attends");
    next.sessions().wait_until_settled("one", crate::harness::PATIENCE).await.expect("there");
    let bench = Harness { engine: next, ..bench };
    assert_eq!(compactions(&bench, "one").await.len(), 1, "{:?}", bench.transcript("one").await);
    assert_eq!(
        bench.transcript("one").await.last().map(String::as_str),
        Some("agent: ok"),
        "the message that waited ran"
    );
    assert!(bench.turns("one").await.last().is_some_and(|said| said == &["waited"]));
    bench.verify().await;
}

#[tokio::test]
async fn the_projects_instructions_follow_the_persona() {
    let bench = Harness::new(Scripted::new());
    std::fs::write(bench.store.dir().join("AGENTS.md"), "Use tabs.").expect("written");
    let working_dir = Some(bench.store.dir().to_string_lossy().into_owned());
    let new = NewSession {
        label: Some("one".to_owned()),
        persona: Some("atlas".to_owned()),
        working_dir,
        ..NewSession::default()
    };
    bench.make(NewSession { track_tasks: Some(false), ..new }).await;
    bench.say("one", "a").await;
    let system = bench.provider.requests()[0].system.clone().expect("a prompt");
    assert!(
        system.starts_with("You are Atlas.") && system.ends_with("from AGENTS.md:\n\nUse tabs."),
        "{system}"
    );
}

#[tokio::test]
async fn a_pinned_turn_is_in_every_request_until_it_is_unpinned() {
    let bench = Harness::new(model(2000));
    bench.chat("one").await;
    bench.say("one", "the secret word is xyzzy").await;
    let pinned = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    let pins = bench.engine.contexts().pin("one", pinned).await.expect("pinned");
    assert_eq!(pins.iter().map(|pin| pin.turn).collect::<Vec<_>>(), [pinned]);
    assert_eq!(
        bench.engine.contexts().pin("one", pinned).await.expect("again").len(),
        1,
        "once is enough"
    );
    let asks = |request: &Request| {
        texts(request)
            .iter()
            .filter(|line| line.starts_with("user: the secret word is xyzzy"))
            .count()
    };
    for n in 0..12 {
        bench.say("one", &words(300, &format!("m{n}"))).await;
        let request = bench.provider.requests().into_iter().next_back().expect("asked");
        assert_eq!(asks(&request), 1, "message {n}: {:?}", texts(&request));
    }
    assert!(compactions(&bench, "one").await.len() >= 2);
    // A fork copies the pins; later changes are separate.
    let head = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    bench.engine.sessions().fork("one", head, Some("fork")).await.expect("forked");
    assert_eq!(bench.engine.contexts().pins("fork").await.expect("there").len(), 1);
    assert!(bench.engine.contexts().unpin("one", pinned).await.expect("let go").is_empty());
    assert_eq!(
        bench.engine.contexts().unpin("one", pinned).await.expect_err("not pinned").code(),
        "not_pinned"
    );
    bench.say("one", "m").await;
    bench.say("fork", "m").await;
    let requests = bench.provider.requests();
    assert_eq!(
        requests.iter().rev().take(2).map(asks).collect::<Vec<_>>(),
        [1, 0],
        "the fork's own is kept"
    );
    // Too many pins are refused, and nothing changes.
    bench.chat("two").await;
    bench.say("two", &words(600, "long")).await;
    let long = bench.engine.sessions().head("two").await.expect("there").expect("a turn");
    assert_eq!(
        bench.engine.contexts().pin("two", long).await.expect_err("too much").code(),
        "too_much_pinned"
    );
    assert_eq!(
        bench.engine.contexts().pin("two", pinned).await.expect_err("elsewhere").code(),
        "not_an_ancestor"
    );
    assert!(bench.engine.contexts().pins("two").await.expect("there").is_empty());
    bench.verify().await;
}

#[tokio::test]
async fn a_pin_after_the_rewound_head_is_gone() {
    let bench = Harness::new(model(2000));
    bench.chat("one").await;
    bench.say("one", "a").await;
    let first = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    bench.say("one", "b").await;
    let second = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    bench.engine.contexts().pin("one", first).await.expect("pinned");
    bench.engine.contexts().pin("one", second).await.expect("pinned");
    bench.engine.sessions().rewind("one", first).await.expect("back");
    assert_eq!(
        bench
            .engine
            .contexts()
            .pins("one")
            .await
            .expect("there")
            .iter()
            .map(|pin| pin.turn)
            .collect::<Vec<_>>(),
        [first]
    );
}

#[tokio::test]
async fn a_compaction_is_undone_by_a_fork_before_it() {
    let bench = Harness::new(model(100_000));
    bench.chat("one").await;
    for n in 0..3 {
        bench.say("one", &format!("m{n}")).await;
    }
    assert_eq!(
        bench.engine.contexts().newest_compaction("one").await.expect_err("none yet").code(),
        "no_compaction"
    );
    bench.say("one", "/compact").await;
    let (turn, _) = bench.engine.contexts().newest_compaction("one").await.expect("one");
    bench
        .engine
        .sessions()
        .fork("one", turn.header.parent.expect("turns before it"), Some("undone"))
        .await
        .expect("forked");
    bench.say("undone", "and now").await;
    let request = bench.provider.requests().into_iter().next_back().expect("asked");
    let expected = [
        "user: m0",
        "agent: ok",
        "user: m1",
        "agent: ok",
        "user: m2",
        "agent: ok",
        "user: and now",
    ];
    assert_eq!(texts(&request), expected);
}

#[tokio::test]
async fn the_messages_of_every_turn_stay_readable_in_order() {
    // R175: `ctx session show --full` reads these pages.
    let bench = Harness::new(model(1200));
    bench.chat("one").await;
    for n in 0..15 {
        bench.say("one", &words(150, &format!("m{n}"))).await;
    }
    assert!(!compactions(&bench, "one").await.is_empty());
    let said: Vec<String> = bench.turns("one").await.into_iter().flatten().collect();
    let expected: Vec<String> = (0..15).map(|n| words(150, &format!("m{n}"))).collect();
    assert_eq!(said, expected);
    let newest = bench
        .engine
        .messages()
        .page("one", Order::Desc, None, 1000)
        .await
        .expect("there")
        .messages
        .len();
    assert_eq!(newest, 30 + compactions(&bench, "one").await.len());
}

#[tokio::test]
async fn a_compacted_and_pinned_session_can_be_deleted_and_forks_keep_shared_turns() {
    let bench = Harness::new(model(1200));
    bench.chat("one").await;
    bench.say("one", "the secret word is xyzzy").await;
    let pinned = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    bench.engine.contexts().pin("one", pinned).await.expect("pinned");
    for n in 0..8 {
        bench.say("one", &words(150, &format!("m{n}"))).await;
    }
    let head = bench.engine.sessions().head("one").await.expect("there").expect("a turn");
    bench.engine.sessions().fork("one", head, Some("fork")).await.expect("forked");
    for n in 0..8 {
        bench.say("one", &words(150, &format!("n{n}"))).await;
    }
    assert!(compactions(&bench, "one").await.len() > compactions(&bench, "fork").await.len());
    bench.engine.sessions().delete("one").await.expect("deleted");
    bench.verify().await;
    bench.say("fork", "and now?").await;
    let request = bench.provider.requests().into_iter().next_back().expect("asked");
    assert!(
        texts(&request).iter().any(|line| line == "user: the secret word is xyzzy"),
        "{:?}",
        texts(&request)
    );
    bench.engine.sessions().delete("fork").await.expect("deleted");
    assert_eq!(
        bench.engine.maintenance().health().await.expect("looked at").turns,
        0,
        "nothing is left behind"
    );
    bench.verify().await;
}
