//! Deliveries to channels: in order, again after a failure, and by one process at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::id::OutgoingId;
use ctx_core::identity::{Envelope, PeerKind};
use ctx_core::inbox::Overrides;
use ctx_core::outbox::{ATTEMPTS_MAX, Kind, NO_CHANNEL, Outgoing, Status};
use ctx_core::suspension::{self, Answer, Awaited, Offer};
use ctx_core::time::Span;
use ctx_engine::provider::End;
use ctx_engine::{Courier, DeliveryError, Engine, NewMessage, OutboxQuery};
use ctx_providers::Scripted;
use ctx_providers::scripted::Script;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use crate::harness::{Harness, on_postgres, until};

/// Records what is delivered, and fails or waits as a test wants.
struct FakeCourier {
    /// Recipient, id and text of each finished delivery.
    delivered: Mutex<Vec<(String, OutgoingId, String)>>,
    /// Every delivery that was begun.
    begun: Mutex<Vec<(OutgoingId, u64)>>,
    under_way: Mutex<HashSet<String>>,
    /// How the next deliveries end; an empty list delivers.
    failures: Mutex<VecDeque<DeliveryError>>,
    /// Recipients whose deliveries wait for a permit.
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl FakeCourier {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            delivered: Mutex::default(),
            begun: Mutex::default(),
            under_way: Mutex::default(),
            failures: Mutex::default(),
            gates: Mutex::default(),
        })
    }

    /// Makes deliveries to a recipient wait.
    fn hold(&self, recipient: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.gates.lock().expect("no panic").insert(recipient.to_owned(), gate.clone());
        gate
    }

    fn fail(&self, count: u64) {
        let failure = || DeliveryError::Failed("status 500".to_owned());
        self.failures.lock().expect("no panic").extend((0..count).map(|_| failure()));
    }

    fn texts(&self) -> Vec<String> {
        let delivered = self.delivered.lock().expect("no panic");
        delivered.iter().map(|(to, _, text)| format!("{to}: {text}")).collect()
    }

    fn begun(&self) -> Vec<(OutgoingId, u64)> {
        self.begun.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl Courier for FakeCourier {
    fn channels(&self) -> Vec<String> {
        vec!["irc".to_owned()]
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn deliver(&self, outgoing: &Outgoing) -> Result<(), DeliveryError> {
        let to = outgoing.to.peer_id.clone();
        let alone = self.under_way.lock().expect("no panic").insert(to.clone());
        assert!(alone, "two deliveries to {to} at the same time");
        self.begun.lock().expect("no panic").push((outgoing.id, outgoing.attempts));
        let gate = self.gates.lock().expect("no panic").get(&to).cloned();
        if let Some(gate) = gate {
            gate.acquire().await.expect("open").forget();
        }
        self.under_way.lock().expect("no panic").remove(&to);
        if let Some(failure) = self.failures.lock().expect("no panic").pop_front() {
            return Err(failure);
        }
        let delivery = (to, outgoing.id, outgoing.body.text.clone());
        self.delivered.lock().expect("no panic").push(delivery);
        Ok(())
    }
}

fn from(channel: &str, sender: &str, text: &str) -> NewMessage {
    let envelope = Some(Envelope {
        channel: channel.to_owned(),
        account_id: None,
        sender_id: sender.to_owned(),
        sender_name: None,
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: None,
        reply_to_id: None,
    });
    NewMessage {
        overrides: Overrides { envelope, ..Overrides::default() },
        ..NewMessage::text(text)
    }
}

/// A provider that repeats the last message.
fn echo() -> Scripted {
    Scripted::new().otherwise(|request| {
        let last = request.messages.last().map(crate::harness::line).unwrap_or_default();
        Script::new().say(last.trim_start_matches("user: "))
    })
}

/// A harness with a manual clock, and an engine of it that delivers.
async fn serving(bench: &Harness, courier: &Arc<FakeCourier>) -> Engine {
    let engine = bench.engine().with_courier(courier.clone());
    engine.background().start().await.expect("started");
    engine
}

/// Sends a message to the session of its sender and waits for the end of its turn.
async fn ask(bench: &Harness, engine: &Engine, sender: &str, text: &str) {
    if engine.sessions().get(sender).await.is_err() {
        bench.chat(sender).await;
    }
    engine.messages().submit(sender, from("irc", sender, text), None).await.expect("taken");
    let patience = crate::harness::PATIENCE;
    engine.sessions().wait_until_settled(sender, patience).await.expect("there");
}

async fn rows(engine: &Engine) -> Vec<Outgoing> {
    let query = OutboxQuery { limit: 100, ..OutboxQuery::default() };
    let mut rows = engine.outbox().list(&query).await.expect("an outbox");
    rows.reverse();
    rows.into_iter().map(|stored| stored.outgoing).collect()
}

fn bench() -> Harness {
    let bench = Harness::new(echo());
    let clock = bench.clock.clone();
    bench.with_clock(&clock)
}

#[tokio::test]
async fn answers_of_one_conversation_arrive_in_order() {
    let (bench, courier) = (bench(), FakeCourier::new());
    let gate = courier.hold("mom");
    let engine = serving(&bench, &courier).await;
    ask(&bench, &engine, "mom", "one").await;
    ask(&bench, &engine, "mom", "two").await;
    ask(&bench, &engine, "dad", "three").await;
    until("another conversation is not held up", async || courier.texts() == ["dad: three"]).await;
    gate.add_permits(2);
    let expected = ["dad: three", "mom: one", "mom: two"];
    until("the rest follows in order", async || courier.texts() == expected).await;
    until("it is stored", async || {
        rows(&engine).await.iter().all(|row| row.status == Status::Delivered)
    })
    .await;
    let turn = engine.sessions().get("dad").await.expect("there").session.head;
    assert_eq!(rows(&engine).await[2].body.turn, turn);
    engine.background().shutdown().await;
}

#[tokio::test]
async fn a_failed_delivery_is_repeated_with_its_id_until_it_is_dead() {
    let (bench, courier) = (bench(), FakeCourier::new());
    courier.fail(1);
    let engine = serving(&bench, &courier).await;
    ask(&bench, &engine, "mom", "one").await;
    let first = async || rows(&engine).await.remove(0);
    until("it has failed", async || first().await.last_error.is_some()).await;
    let row = first().await;
    assert_eq!((row.status, row.attempts), (Status::Pending, 1));
    assert_eq!(row.next_attempt_at.since(bench.engine.now()), Span(1000));
    bench.clock.advance(Span(1000));
    until("it is delivered", async || courier.texts() == ["mom: one"]).await;
    until("it is stored", async || first().await.status == Status::Delivered).await;
    assert_eq!(courier.begun(), [(row.id, 1), (row.id, 2)]);
    // It fails for good, and the next row is not held up.
    courier.fail(ATTEMPTS_MAX);
    ask(&bench, &engine, "mom", "two").await;
    ask(&bench, &engine, "mom", "three").await;
    until("it is dead", async || {
        let row = rows(&engine).await.remove(1);
        if row.claimed_by.is_none() && row.status == Status::Pending {
            bench.clock.advance(row.next_attempt_at.since(bench.engine.now()));
        }
        row.status == Status::Dead
    })
    .await;
    until("the next one goes", async || courier.texts() == ["mom: one", "mom: three"]).await;
    let dead = rows(&engine).await.remove(1);
    assert_eq!(dead.attempts, ATTEMPTS_MAX);
    let again = engine.outbox().retry(dead.id).await.expect("retried");
    assert_eq!((again.status, again.attempts), (Status::Pending, 0));
    until("it is delivered", async || courier.texts().contains(&"mom: two".to_owned())).await;
    until("it is stored", async || {
        engine.outbox().get(dead.id).await.expect("there").status == Status::Delivered
    })
    .await;
    let refused = engine.outbox().retry(dead.id).await.expect_err("it is delivered");
    assert_eq!(refused.code(), "not_dead");
    engine.background().shutdown().await;
    bench.verify().await;
}

#[tokio::test]
async fn a_channel_that_is_gone_is_not_tried_again() {
    let (bench, courier) = (bench(), FakeCourier::new());
    let gone = DeliveryError::Gone("status 410".to_owned());
    courier.failures.lock().expect("no panic").push_back(gone);
    let engine = serving(&bench, &courier).await;
    ask(&bench, &engine, "mom", "one").await;
    until("it is dead", async || rows(&engine).await[0].status == Status::Dead).await;
    assert_eq!(rows(&engine).await[0].last_error.as_deref(), Some("status 410"));
    assert_eq!(courier.begun().len(), 1);
    engine.background().shutdown().await;
}

#[tokio::test]
async fn a_row_of_a_channel_without_configuration_waits() {
    let (bench, courier) = (bench(), FakeCourier::new());
    let engine = serving(&bench, &courier).await;
    bench.chat("fax").await;
    engine.messages().submit("fax", from("fax", "mom", "one"), None).await.expect("taken");
    ask(&bench, &engine, "mom", "two").await;
    until("the other is delivered", async || courier.texts() == ["mom: two"]).await;
    let row = rows(&engine).await.into_iter().find(|row| row.to.channel == "fax").expect("a row");
    assert_eq!((row.status, row.attempts), (Status::Pending, 0));
    assert_eq!(row.last_error.as_deref(), Some(NO_CHANNEL));
    engine.background().shutdown().await;
}

#[tokio::test]
async fn a_process_that_dies_during_a_delivery_leaves_it_to_another() {
    let (bench, courier) = (bench(), FakeCourier::new());
    courier.hold("mom");
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let dying = bench.engine().with_courier(courier.clone());
    bench.chat("mom").await;
    let engine = dying.clone();
    let started = runtime.spawn(async move {
        engine.background().start().await.expect("started");
        engine.messages().submit("mom", from("irc", "mom", "one"), None).await.expect("taken");
    });
    started.await.expect("no panic");
    until("the delivery is under way", async || courier.begun().len() == 1).await;
    let end = move || {
        runtime.shutdown_timeout(Duration::from_secs(10));
        drop(dying);
    };
    tokio::task::spawn_blocking(end).await.expect("dead");
    let second = FakeCourier::new();
    // In a directory the clock stands still: the lease has not ended, but its process has.
    if on_postgres() {
        bench.clock.advance(Span::hours(1));
    }
    let engine = serving(&bench, &second).await;
    until("it is delivered", async || second.texts() == ["mom: one"]).await;
    let (first, again) = (courier.begun()[0], second.begun()[0]);
    assert_eq!((again.0, again.1), (first.0, 2), "the same id");
    engine.background().shutdown().await;
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_deliver_each_row_once() {
    let (bench, courier) = (bench(), FakeCourier::new());
    for n in 0..10 {
        ask(&bench, &bench.engine, &format!("sender {n}"), "one").await;
        ask(&bench, &bench.engine, &format!("sender {n}"), "two").await;
    }
    // One fake for both: it refuses two deliveries of one recipient at the same time.
    let engines = [serving(&bench, &courier).await, serving(&bench, &courier).await];
    until("all are delivered", async || courier.texts().len() >= 20).await;
    until("all are stored", async || {
        rows(&engines[0]).await.iter().all(|row| row.status == Status::Delivered)
    })
    .await;
    let begun = courier.begun();
    let ids: HashSet<_> = begun.iter().map(|(id, _)| *id).collect();
    assert_eq!((begun.len(), ids.len()), (20, 20));
    for engine in engines {
        engine.background().shutdown().await;
    }
}

#[tokio::test]
async fn shutdown_returns_a_delivery_that_is_under_way() {
    let (bench, courier) = (bench(), FakeCourier::new());
    courier.hold("mom");
    let engine = serving(&bench, &courier).await;
    ask(&bench, &engine, "mom", "one").await;
    until("the delivery is under way", async || courier.begun().len() == 1).await;
    engine.background().shutdown().await;
    let row = rows(&bench.engine).await.remove(0);
    assert_eq!((row.claimed_by, row.next_attempt_at), (None, bench.engine.now()));
}

#[tokio::test]
async fn a_permission_is_asked_on_the_channel_and_answered_from_it() {
    let (bench, courier) = (bench(), FakeCourier::new());
    let offer = |id: &str| Offer { id: id.to_owned(), label: id.to_owned(), kind: None };
    let awaited = Awaited {
        kind: suspension::Kind::Permission,
        tool_calls: Vec::new(),
        options: vec![offer("allow"), offer("reject")],
        question: Some("May I?".to_owned()),
        provider_state: None,
    };
    bench.provider.push(Script::new().say("I look.").end(End::Suspended(vec![awaited.clone()])));
    bench.provider.push(Script::new().say("Again.").end(End::Suspended(vec![awaited])));
    bench.provider.push(Script::new().say("Done."));
    let engine = serving(&bench, &courier).await;
    ask(&bench, &engine, "mom", "look").await;
    until("it is asked", async || courier.texts() == ["mom: I look.\n\nMay I?"]).await;
    ask(&bench, &engine, "mom", "allow").await;
    until("it is asked again", async || courier.texts().len() == 2).await;
    // The second answer comes from another place.
    let info = engine.sessions().get("mom").await.expect("there");
    let answer = Answer { choice: Some("reject".to_owned()), ..Answer::default() };
    engine.runs().resume("mom", info.suspensions[0].id, answer).await.expect("resumed");
    let expected = ["mom: I look.\n\nMay I?", "mom: Again.\n\nMay I?", "mom: Done."];
    until("the answer has only what is new", async || courier.texts() == expected).await;
    let kinds: Vec<Kind> = rows(&engine).await.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [Kind::Permission, Kind::Permission, Kind::Reply]);
    engine.background().shutdown().await;
}
