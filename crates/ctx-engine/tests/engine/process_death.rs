//! Processes that die, sleep or stop: nothing stored is lost, nothing runs twice, no session is
//! stuck.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::{Event, RECOVERIES_MAX, Settings};
use ctx_core::inbox::{self, Mode};
use ctx_core::session::{Activity, Status};
use ctx_core::time::{Span, Timestamp};
use ctx_core::turn;
use ctx_engine::provider::{ProviderFeatures, Request};
use ctx_engine::{Engine, ManualClock, NewMessage, NewSession};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::harness::{Harness, PATIENCE, seen, until};

/// A simulated process: a runtime and an engine with its own lock.
struct Process {
    runtime: Runtime,
    engine: Engine,
}

impl Process {
    fn start(bench: &Harness) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        Self { runtime, engine: bench.another() }
    }

    async fn send(&self, session: &'static str, text: &'static str, mode: Mode) {
        let engine = self.engine.clone();
        let message = NewMessage { mode: Some(mode), ..NewMessage::text(text) };
        self.runtime
            .spawn(async move { engine.messages().submit(session, message, None).await })
            .await
            .expect("sent")
            .expect("taken");
    }

    /// Stops all its tasks where they are. The kernel releases its lock, or its lease ends.
    async fn die(self, bench: &Harness) {
        let Self { runtime, engine } = self;
        let dying = move || {
            runtime.shutdown_timeout(Duration::from_secs(10));
            drop(engine);
        };
        tokio::task::spawn_blocking(dying).await.expect("dead");
        bench.store.end_leases();
    }
}

/// A process that dies in the middle of an answer.
async fn dead_in_the_middle(bench: &Harness, backlog: &[&'static str]) {
    let gate = Gate::new();
    bench.provider.push(
        Script::new().say("half").call("c1", "shell", json!({"rm": "x"})).gate(&gate).say(" never"),
    );
    bench.chat("one").await;
    let process = Process::start(bench);
    process.send("one", "m", Mode::Queue).await;
    gate.reached().await;
    for text in backlog {
        process.send("one", text, Mode::Queue).await;
    }
    until("it is stored", async || {
        bench.transcript("one").await.iter().any(|line| line.contains("shell"))
    })
    .await;
    process.die(bench).await;
    assert_eq!(bench.provider.running(), 0);
    assert_eq!(
        bench.engine.sessions().get("one").await.expect("there").session.state,
        Activity::Running,
        "no process has looked yet"
    );
}

#[tokio::test]
async fn a_run_whose_process_died_becomes_an_interrupted_turn_with_its_text() {
    // R197, R200, R231, R233, R238
    let bench = Harness::able();
    dead_in_the_middle(&bench, &[]).await;
    let next = bench.another();
    next.background().start().await.expect("recovered");
    let found = next.sessions().get("one").await.expect("there");
    assert_eq!((found.session.state, found.session.status), (Activity::Idle, Status::Suspended));
    assert_eq!(
        bench.transcript("one").await,
        ["user: m", "agent: half [shell Unknown]", "ctx: !interrupted"]
    );
    assert_eq!(bench.endings("one").await, [turn::Status::Interrupted]);
    assert_eq!(bench.provider.requests().len(), 1, "the message is not sent again automatically");
    next.messages().submit("one", NewMessage::text("go on"), None).await.expect("taken");
    let done = next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!((done.session.state, done.session.status), (Activity::Idle, Status::Active));
    let request = seen(&bench.provider.requests()[1].messages);
    assert_eq!(request[..2], ["user: m", "agent: half [shell Unknown]"]);
    assert!(request[2].contains("unknown"), "{request:?}");
    assert!(request[3].starts_with("user: [This answer is incomplete: a restart"), "{request:?}");
    assert_eq!(request[4], "user: go on");
    next.background().shutdown().await;
    bench.verify().await;
}

#[tokio::test]
async fn the_backlog_of_a_dead_process_is_run_by_another() {
    // R166, R238
    let bench = Harness::able();
    dead_in_the_middle(&bench, &["a", "b"]).await;
    let next = bench.another();
    next.background().start().await.expect("recovered");
    let done = next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!(done.session.status, Status::Active);
    assert_eq!(bench.turns("one").await, [["m"], ["a"], ["b"]]);
    next.background().shutdown().await;
}

#[tokio::test]
async fn a_message_to_a_dead_process_does_not_wait_for_a_sweep() {
    // R200, R238: no background tasks run here.
    let bench = Harness::able();
    dead_in_the_middle(&bench, &[]).await;
    let done = bench.say("one", "hello?").await;
    assert_eq!((done.session.state, done.session.turn_count), (Activity::Idle, 2));
    assert_eq!(bench.turns("one").await, [["m"], ["hello?"]]);
}

#[tokio::test]
async fn a_run_of_a_dead_process_can_be_cancelled() {
    // R223, R248
    let bench = Harness::able();
    dead_in_the_middle(&bench, &[]).await;
    let info = bench.engine.runs().cancel("one").await.expect("cancelled");
    assert_eq!(info.session.state, Activity::Idle);
    assert_eq!(bench.endings("one").await, [turn::Status::Cancelled]);
}

#[tokio::test]
async fn late_output_of_a_cancelled_process_adds_no_turn() {
    // R144, R145, R227: another process cancels, and the running one is not notified.
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(Script::new().say("half").gate(&gate).say(" late"));
    bench.chat("one").await;
    let other = bench.another();
    bench.send("one", "m").await;
    gate.reached().await;
    until("it is stored", async || {
        bench.transcript("one").await.contains(&"agent: half".to_owned())
    })
    .await;
    let cancelled = other.runs().cancel("one").await.expect("cancelled");
    assert_eq!(cancelled.session.state, Activity::Idle);
    other.messages().submit("one", NewMessage::text("n"), None).await.expect("taken");
    other.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    gate.open();
    until("the late one gives up", async || {
        bench.engine.background().awake_sessions() == 0 && bench.provider.running() == 0
    })
    .await;
    assert_eq!(bench.transcript("one").await, ["user: m", "agent: half", "user: n", "agent: ok"]);
    assert_eq!(bench.engine.sessions().tree("one", 10).await.expect("a tree").len(), 2);
    bench.verify().await;
}

#[tokio::test]
async fn a_process_that_slept_past_its_lease_is_fenced_and_continues_with_a_new_lease() {
    // R144, R238
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(Script::new().say("half").gate(&gate).say(" late"));
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    until("it is stored", async || {
        bench.transcript("one").await.contains(&"agent: half".to_owned())
    })
    .await;
    let other = bench.after_all_leases();
    other.background().recover().await.expect("recovered");
    assert_eq!(bench.endings("one").await, [turn::Status::Interrupted]);
    gate.open();
    until("the late one gives up", async || bench.engine.background().awake_sessions() == 0).await;
    assert_eq!(bench.transcript("one").await, ["user: m", "agent: half", "ctx: !interrupted"]);
    assert_eq!(bench.say("one", "n").await.session.turn_count, 2);
    bench.verify().await;
}

#[tokio::test]
async fn a_graceful_stop_ends_all_runs_and_keeps_their_text() {
    // R197, R233
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(Script::new().say("every word").gate(&gate));
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    assert_eq!(bench.store.nodes(), 1);
    bench.engine.background().shutdown().await;
    let info = bench.engine.sessions().get("one").await.expect("there");
    assert_eq!(
        (info.session.state, info.session.status, info.session.owner),
        (Activity::Idle, Status::Suspended, None)
    );
    assert_eq!((bench.engine.background().awake_sessions(), bench.provider.running()), (0, 0));
    assert_eq!(
        bench.transcript("one").await,
        ["user: m", "agent: every word", "ctx: !interrupted"]
    );
    assert_eq!(bench.store.nodes(), 0);
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_four_sessions_and_each_message_runs_once() {
    // R144, R145, R146
    let settings = Settings {
        inbox: inbox::Settings { cap: 1000, ..inbox::Settings::default() },
        ..Settings::default()
    };
    let bench = Harness::with(
        Scripted::new()
            .otherwise(|_| Script::new().and(Action::Pause(Duration::from_millis(1))).say("ok")),
        settings,
    );
    let engines = [bench.engine.clone(), bench.another()];
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(bench.chat(&format!("s{n}")).await.session.id);
    }
    for engine in &engines {
        engine.background().start().await.expect("attends");
    }
    let mut sending = tokio::task::JoinSet::new();
    for (n, engine) in engines.iter().cloned().enumerate() {
        sending.spawn(async move {
            for m in 0..100 {
                let message =
                    NewMessage { mode: Some(Mode::Queue), ..NewMessage::text(format!("{n}-{m}")) };
                engine
                    .messages()
                    .submit(&format!("s{}", m % 4), message, None)
                    .await
                    .expect("taken");
            }
        });
    }
    sending.join_all().await;
    for (n, id) in ids.into_iter().enumerate() {
        let label = format!("s{n}");
        let done = bench
            .engine
            .sessions()
            .wait_until_settled(&label, Duration::from_secs(60))
            .await
            .expect("there");
        assert_eq!((done.session.turn_count, done.inbox.len()), (50, 0), "{label}");
        assert_eq!(bench.provider.running_max(id), 1, "{label}");
        let said = bench.turns(&label).await.concat();
        for sender in ["0-", "1-"] {
            let own: Vec<u32> =
                said.iter().filter_map(|text| text.strip_prefix(sender)?.parse().ok()).collect();
            assert_eq!(own.len(), 25);
            assert!(own.is_sorted_by(|a, b| a < b), "in the order in which each was sent: {own:?}");
        }
    }
    for engine in engines {
        engine.background().shutdown().await;
    }
    bench.verify().await;
}

#[tokio::test]
async fn a_session_is_archived_after_thirty_idle_days() {
    // R198, R209
    let clock = Arc::new(ManualClock::at(Timestamp(1_763_243_045_000)));
    let bench = Harness::able().with_clock(&clock);
    bench.chat("used").await;
    bench.chat("old").await;
    bench.say("old", "m").await;
    clock.advance(Span::days(29));
    bench.chat("new").await;
    bench.say("used", "m").await;
    clock.advance(Span::hours(25));
    assert_eq!(bench.engine.background().archive_idle(Span::days(30)).await.expect("looked"), 1);
    assert_eq!(bench.engine.background().archive_idle(Span::days(30)).await.expect("looked"), 0);
    let status =
        async |label: &str| bench.engine.sessions().get(label).await.expect("there").session.status;
    assert_eq!((status("old").await, status("new").await), (Status::Archived, Status::Active));
    assert_eq!(status("used").await, Status::Active, "what counts is when it was used last");
    assert_eq!(bench.transcript("old").await, ["user: m", "agent: ok"]);
    bench.say("old", "back").await;
    assert_eq!(status("old").await, Status::Active);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_leaves_no_run_without_an_owner() {
    // R238: a client that hangs up drops the future of its request at any moment, also right after
    // the transaction.
    let bench = Harness::able();
    for round in 0..5 {
        let mut sending = tokio::task::JoinSet::new();
        for n in 0..40 {
            let label = format!("s{round}-{n}");
            bench.chat(&label).await;
            let engine = bench.engine.clone();
            sending.spawn(async move {
                engine.messages().submit(&label, NewMessage::text("m"), None).await.map(drop)
            });
        }
        // Some requests are done by then, the others are dropped wherever they are.
        for _ in 0..8 * round {
            sending.join_next().await.expect("a request").expect("no panic").expect("taken");
        }
        sending.shutdown().await;
        for n in 0..40 {
            let label = format!("s{round}-{n}");
            let info = bench
                .engine
                .sessions()
                .wait_until_settled(&label, Duration::from_secs(3))
                .await
                .expect("there");
            assert_eq!(info.session.state, Activity::Idle, "{label} is stuck");
            assert!(info.inbox.is_empty());
        }
    }
}

#[tokio::test]
async fn deleting_a_session_ends_a_silent_run() {
    // R244
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(Script::new().gate(&gate));
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    bench.engine.sessions().delete("one").await.expect("deleted");
    until("the provider is stopped", async || bench.provider.running() == 0).await;
}

#[tokio::test]
async fn an_archived_session_keeps_its_backlog_until_a_new_message() {
    // R165, R198, R206
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(Script::new().say("x").gate(&gate));
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    bench.send_as("one", "q", "queue").await;
    let archived = bench.engine.sessions().archive("one").await.expect("archived");
    assert_eq!(
        (archived.session.status, archived.session.state),
        (Status::Archived, Activity::Idle)
    );
    bench.engine.background().recover().await.expect("looked around");
    until("all sleep", async || bench.engine.background().awake_sessions() == 0).await;
    assert_eq!(
        bench.engine.sessions().get("one").await.expect("there").session.status,
        Status::Archived
    );
    assert_eq!(bench.waiting("one").await, ["q"]);
    bench.say("one", "back").await;
    assert_eq!(bench.turns("one").await.concat().len(), 3);
}

#[tokio::test]
async fn a_run_that_lost_its_lease_does_not_change_the_task() {
    // R144: calls of ctx's own tools are writes, and the fence applies to all writes.
    let gate = Gate::new();
    let bench = Harness::able();
    bench
        .provider
        .push(Script::new().call("c1", "finish_task", json!({"summary": "I am done"})).gate(&gate));
    bench.tracked("one").await;
    bench.send("one", "Add retry logic to the client").await;
    gate.reached().await;
    until("it is stored", async || {
        bench.transcript("one").await.iter().any(|line| line.contains("finish_task"))
    })
    .await;
    bench.another().runs().cancel("one").await.expect("cancelled");
    gate.open();
    until("the late one gives up", async || bench.engine.background().awake_sessions() == 0).await;
    let task = bench.engine.sessions().get("one").await.expect("there").task.expect("a task");
    assert_eq!(task.state.name(), ctx_core::task::StateName::Running);
}

/// A provider whose requests have no effects, and a process that dies before its first word.
async fn dead_before_the_first_word(bench: &Harness, backlog: &[&'static str]) {
    let gate = Gate::new();
    bench.provider.push(Script::new().gate(&gate).say("never"));
    let process = Process::start(bench);
    process.send("one", "m", Mode::Queue).await;
    gate.reached().await;
    for text in backlog {
        process.send("one", text, Mode::Queue).await;
    }
    process.die(bench).await;
}

fn model() -> Harness {
    let can = ProviderFeatures { tools: true, ..ProviderFeatures::default() };
    Harness::new(Scripted::new().can(can).repeatable())
}

/// `recovered` of each started run, oldest first.
async fn started_runs(bench: &Harness, session: &str) -> Vec<bool> {
    let id = bench.engine.sessions().get(session).await.expect("there").session.id;
    let events = bench.engine.events().stored(id, 0, 1000).await.expect("events");
    let started = |event: &ctx_engine::FeedEvent| match event.event {
        Event::RunStarted { recovered, .. } => Some(recovered),
        _ => None,
    };
    events.iter().filter_map(started).collect()
}

#[tokio::test]
async fn a_run_without_a_stored_word_is_run_again_by_the_next_process() {
    // R238
    let bench = model();
    bench.chat("one").await;
    dead_before_the_first_word(&bench, &["a", "b"]).await;
    bench.provider.push(Script::new().say("the answer"));
    let next = bench.another();
    next.background().start().await.expect("recovered");
    let info = next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!((info.session.state, info.session.status), (Activity::Idle, Status::Active));
    assert_eq!(bench.turns("one").await, [["m"], ["a"], ["b"]], "the backlog follows in order");
    assert_eq!(bench.transcript("one").await[..2], ["user: m", "agent: the answer"]);
    assert_eq!(bench.endings("one").await, [turn::Status::Completed; 3]);
    assert_eq!(started_runs(&bench, "one").await, [false, true, false, false]);
    next.background().shutdown().await;
    bench.verify().await;
}

#[tokio::test]
async fn each_crash_gives_one_more_run_up_to_a_limit() {
    let bench = model();
    bench.chat("one").await;
    dead_before_the_first_word(&bench, &[]).await;
    for _ in 0..RECOVERIES_MAX {
        let gate = Gate::new();
        bench.provider.push(Script::new().gate(&gate).say("never"));
        let process = Process::start(&bench);
        let engine = process.engine.clone();
        let started = process.runtime.spawn(async move { engine.background().start().await });
        started.await.expect("started").expect("recovered");
        gate.reached().await;
        process.die(&bench).await;
    }
    let next = bench.another();
    next.background().start().await.expect("recovered");
    let info = next.sessions().get("one").await.expect("there");
    assert_eq!((info.session.state, info.session.status), (Activity::Idle, Status::Suspended));
    assert_eq!(bench.transcript("one").await, ["user: m", "ctx: !interrupted"]);
    let count = usize::try_from(RECOVERIES_MAX).expect("small") + 1;
    assert_eq!(bench.provider.requests().len(), count);
    next.runs().retry("one", Default::default()).await.expect("a retry works at once");
    next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!(bench.transcript("one").await, ["user: m", "agent: ok"]);
    next.background().shutdown().await;
}

#[tokio::test]
async fn a_run_that_the_user_cancelled_before_the_crash_is_not_repeated() {
    let bench = model();
    bench.chat("one").await;
    let gate = Gate::new();
    bench.provider.push(Script::new().gate(&gate).say("never"));
    let process = Process::start(&bench);
    process.send("one", "m", Mode::Queue).await;
    gate.reached().await;
    process.die(&bench).await;
    bench.engine.runs().cancel("one").await.expect("cancelled");
    let next = bench.another();
    next.background().start().await.expect("recovered");
    assert_eq!(bench.endings("one").await, [turn::Status::Cancelled]);
    assert_eq!(bench.provider.requests().len(), 1);
    next.background().shutdown().await;
}

#[tokio::test]
async fn a_process_that_stops_leaves_an_unanswered_message_to_the_next_start() {
    let bench = model();
    bench.chat("one").await;
    let gate = Gate::new();
    bench.provider.push(Script::new().gate(&gate).say("never"));
    let stopping = bench.another();
    stopping.messages().submit("one", NewMessage::text("m"), None).await.expect("taken");
    gate.reached().await;
    stopping.background().shutdown().await;
    assert_eq!(bench.endings("one").await, [], "its turn is still open");
    let next = bench.another();
    next.background().start().await.expect("recovered");
    next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!(bench.transcript("one").await, ["user: m", "agent: ok"]);
    assert_eq!(started_runs(&bench, "one").await, [false, true]);
    next.background().shutdown().await;
}

#[tokio::test]
async fn recovery_is_complete_for_more_sessions_than_one_page() {
    // R238
    const SESSIONS: usize = 520;
    let hang = |_: &Request| Script::new().gate(&Gate::new()).say("never");
    let bench = Harness::new(Scripted::new().otherwise(hang));
    let process = Process::start(&bench);
    let engine = process.engine.clone();
    let sent = process.runtime.spawn(async move {
        for n in 0..SESSIONS {
            let label = Some(format!("s{n}"));
            let new = NewSession { label, ..NewSession::default() };
            engine.sessions().create(new, Some(NewMessage::text("m")), None).await.expect("made");
        }
    });
    sent.await.expect("sent");
    until("every run waits for the provider", async || bench.provider.requests().len() == SESSIONS)
        .await;
    process.die(&bench).await;
    let next = bench.another();
    assert_eq!(next.background().recover().await.expect("recovered"), SESSIONS);
    for n in 0..SESSIONS {
        let info = next.sessions().get(&format!("s{n}")).await.expect("there");
        assert_eq!(info.session.state, Activity::Idle, "s{n}");
    }
}
