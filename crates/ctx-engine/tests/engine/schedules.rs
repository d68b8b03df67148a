//! Schedules: each tick gives one message, after downtime, with several processes and after a
//! crash.

use ctx_core::decide::Patch;
use ctx_core::id::ObjectId;
use ctx_core::message::Source;
use ctx_core::schedule::{Rule, system_label};
use ctx_core::session::Delivery;
use ctx_core::time::{Span, Timestamp};
use ctx_engine::{Engine, Key, NewMessage, NewSession, Schedule};
use ctx_providers::scripted::{Gate, Script};

use crate::harness::{Harness, NOON, until};

const LABEL: &str = "system:beat";

/// A schedule every ten minutes.
fn every_ten_minutes(name: &str) -> Schedule {
    Schedule {
        name: name.to_owned(),
        rule: Rule::Every(Span::minutes(10)),
        text: format!("tick of {name}"),
        session: NewSession { label: Some(system_label(name)), ..NewSession::default() },
    }
}

fn scheduled(engine: Engine) -> Engine {
    engine.with_schedules(vec![every_ten_minutes("beat")])
}

/// The messages of the timer in a session and its inbox.
async fn ticks(bench: &Harness, label: &str) -> usize {
    let Ok(info) = bench.engine.sessions().get(label).await else { return 0 };
    let timed = |source: &Option<Source>| *source == Some(Source::Timer);
    let told = bench.told(label).await.iter().filter(|told| timed(&told.message.source)).count();
    told + info.inbox.len()
}

#[tokio::test]
async fn a_due_schedule_sends_one_message_to_its_session() {
    // R124, R160
    let bench = Harness::at_noon();
    let engine = scheduled(bench.engine());
    assert_eq!(engine.schedules().run_due().await.expect("checked"), 0, "not at once");
    bench.clock.advance(Span::minutes(9));
    assert_eq!(engine.schedules().run_due().await.expect("checked"), 0);
    assert!(bench.engine.sessions().get(LABEL).await.is_err(), "no session before the first tick");
    bench.clock.advance(Span::minutes(1));
    assert_eq!(engine.schedules().run_due().await.expect("checked"), 1);
    assert_eq!(engine.schedules().run_due().await.expect("checked"), 0, "the tick is over");
    let message = &bench.told(LABEL).await[0].message;
    assert_eq!(message.source, Some(Source::Timer));
    until("it is answered", async || bench.told(LABEL).await.len() == 2).await;
    bench.verify().await;
}

#[tokio::test]
async fn ticks_missed_in_a_downtime_run_once() {
    let bench = Harness::at_noon();
    let first = scheduled(bench.engine());
    first.schedules().run_due().await.expect("seen");
    first.background().shutdown().await;
    drop(first);
    bench.clock.advance(Span::days(3));
    let second = scheduled(bench.engine());
    second.background().start().await.expect("started");
    until("the newest missed tick is carried out", async || ticks(&bench, LABEL).await == 1).await;
    until("the tick is over", async || {
        second.schedules().list().await.expect("a list")[0].last_tick.is_some()
    })
    .await;
    assert_eq!(second.schedules().run_due().await.expect("checked"), 0);
    let listed = second.schedules().list().await.expect("a list").remove(0);
    let after = |by: Span| Some(Timestamp(NOON.0 + by.0 as i64));
    assert_eq!(listed.last_tick, after(Span::days(3)));
    assert_eq!(listed.next_tick, after(Span(Span::days(3).0 + Span::minutes(10).0)));
    assert_eq!(ticks(&bench, LABEL).await, 1, "none of the 431 older ticks");
}

#[tokio::test]
async fn two_processes_on_one_store_send_one_message_for_each_tick() {
    let bench = Harness::at_noon();
    let engines = [scheduled(bench.engine()), scheduled(bench.engine())];
    for engine in &engines {
        engine.schedules().run_due().await.expect("seen");
    }
    for round in 1..=20 {
        bench.clock.advance(Span::minutes(10));
        let both = engines.clone().map(|engine| {
            tokio::spawn(async move { engine.schedules().run_due().await.expect("checked") })
        });
        let mut sent = 0;
        for one in both {
            sent += one.await.expect("no panic");
        }
        assert_eq!(sent, 1, "round {round}");
        bench.settled(LABEL).await;
    }
    assert_eq!(ticks(&bench, LABEL).await, 20);
    bench.verify().await;
}

#[tokio::test]
async fn a_crash_before_the_tick_is_stored_does_not_repeat_its_message() {
    let bench = Harness::at_noon();
    let engine = scheduled(bench.engine());
    engine.schedules().run_due().await.expect("seen");
    bench.clock.advance(Span::minutes(10));
    // As a crash leaves it: the message is stored under the key of its tick, the tick is not. The
    // text has changed since.
    let key = format!("schedule beat {}", engine.now());
    let key = Key { request: ObjectId::of(&[key.as_bytes()]), key };
    let session = every_ten_minutes("beat").session;
    let message = NewMessage { source: Source::Timer, ..NewMessage::text("the text before") };
    engine.messages().submit_to_label(session, message, Some(key)).await.expect("stored");
    bench.settled(LABEL).await;
    let restarted = scheduled(bench.engine());
    assert_eq!(restarted.schedules().list().await.expect("a list")[0].last_tick, None);
    assert_eq!(restarted.schedules().run_due().await.expect("repeated"), 0);
    assert!(restarted.schedules().list().await.expect("a list")[0].last_tick.is_some());
    assert_eq!(ticks(&bench, LABEL).await, 1);
}

#[tokio::test]
async fn a_tick_of_a_busy_session_waits_and_a_refused_one_is_over() {
    let bench = Harness::at_noon();
    let gate = Gate::new();
    bench.provider.push(Script::new().say("slow").gate(&gate));
    let engine = bench
        .engine
        .clone()
        .with_schedules(vec![every_ten_minutes("beat"), every_ten_minutes("other")]);
    engine.schedules().run_due().await.expect("seen");
    bench.chat(LABEL).await;
    bench.chat("system:other").await;
    engine
        .sessions()
        .update("system:other", Patch { delivery: Some(Delivery::Refuse), ..Patch::default() })
        .await
        .expect("closed");
    bench.send(LABEL, "work").await;
    gate.reached().await;
    bench.clock.advance(Span::minutes(10));
    assert_eq!(engine.schedules().run_due().await.expect("checked"), 1, "the other was refused");
    assert_eq!(bench.waiting(LABEL).await, ["tick of beat"]);
    let listed = engine.schedules().list().await.expect("a list");
    assert!(listed.iter().all(|one| one.last_tick.is_some()), "both ticks are over");
    assert_eq!(engine.schedules().run_due().await.expect("checked"), 0);
    gate.open();
    bench.settled(LABEL).await;
}
