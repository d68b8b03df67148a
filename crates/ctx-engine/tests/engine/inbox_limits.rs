//! The inbox: it can be edited, is bounded and durable, and takes each message once.

use ctx_core::decide::{Patch, Settings};
use ctx_core::id::{MessageId, ObjectId};
use ctx_core::inbox::{self, ItemState, Mode, OverflowPolicy, Overrides};
use ctx_core::message::Part;
use ctx_core::session::{Activity, Delivery};
use ctx_engine::{Key, NewMessage, NewSession};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Gate, Script};

use crate::harness::{Harness, PATIENCE, tool};

/// A session with a running turn, in which all messages wait.
async fn held(bench: &Harness) {
    bench.chat("one").await;
    let patch = Patch { delivery: Some(Delivery::Hold), ..Patch::default() };
    bench.engine.sessions().update("one", patch).await.expect("held");
}

async fn release(bench: &Harness) {
    let patch = Patch { delivery: Some(Delivery::Open), ..Patch::default() };
    bench.engine.sessions().update("one", patch).await.expect("open");
    bench.settled("one").await;
}

fn capped(cap: usize, at_cap: OverflowPolicy) -> Settings {
    Settings {
        inbox: inbox::Settings { cap, at_cap, ..inbox::Settings::default() },
        ..Settings::default()
    }
}

fn queued(text: &str) -> NewMessage {
    NewMessage { mode: Some(Mode::Queue), ..NewMessage::text(text) }
}

fn key(key: &str, body: &str) -> Option<Key> {
    Some(Key { key: key.to_owned(), request: ObjectId::of(&[body.as_bytes()]) })
}

#[tokio::test]
async fn waiting_messages_can_be_edited_moved_and_withdrawn() {
    let bench = Harness::new(Scripted::new());
    held(&bench).await;
    let mut ids = Vec::new();
    for text in ["a", "b", "c", "d"] {
        ids.push(bench.send_as("one", text, "queue").await.message_id);
    }
    bench.engine.messages().edit("one", ids[1], "B").await.expect("edited");
    bench.engine.messages().reorder("one", ids[3], 1).await.expect("moved");
    bench.engine.messages().reorder("one", ids[0], 99).await.expect("moved to the end");
    bench.engine.messages().withdraw("one", ids[2]).await.expect("withdrawn");
    assert_eq!(bench.waiting("one").await, ["d", "B", "a"]);
    for refused in [
        bench.engine.messages().edit("one", ids[2], "x").await,
        bench.engine.messages().reorder("one", ids[2], 1).await,
        bench.engine.messages().withdraw("one", MessageId(ulid())).await,
    ] {
        assert_eq!(refused.expect_err("gone").code(), "no_item");
    }
    assert_eq!(
        bench.engine.messages().edit("one", ids[1], " \n").await.expect_err("empty").code(),
        "bad_text"
    );
    release(&bench).await;
    assert_eq!(bench.turns("one").await, [["d"], ["B"], ["a"]]);
    assert_eq!(bench.told("one").await[2].message.id, ids[1], "edited, it keeps its id");
}

fn ulid() -> ulid::Ulid {
    ulid::Ulid::new()
}

#[tokio::test]
async fn a_running_message_cannot_be_changed() {
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().then(Script::new().gate(&gate)));
    bench.chat("one").await;
    let sent = bench.send("one", "m").await;
    gate.reached().await;
    let refused =
        bench.engine.messages().edit("one", sent.message_id, "x").await.expect_err("it runs");
    assert_eq!(refused.code(), "not_waiting");
    assert_eq!(
        bench.engine.messages().withdraw("one", sent.message_id).await.expect_err("it runs").code(),
        "not_waiting"
    );
    gate.open();
    bench.settled("one").await;
    assert_eq!(
        bench.engine.messages().edit("one", sent.message_id, "x").await.expect_err("done").code(),
        "no_item"
    );
}

#[tokio::test]
async fn a_full_inbox_refuses_messages_and_holds_twenty_by_default() {
    // R167
    let bench = Harness::new(Scripted::new());
    held(&bench).await;
    for n in 0..20 {
        bench.send_as("one", &format!("m{n}"), "queue").await;
    }
    let refused =
        bench.engine.messages().submit("one", queued("one more"), None).await.expect_err("full");
    assert_eq!(refused.code(), "inbox_full");
    assert_eq!(bench.waiting("one").await.len(), 20);
}

#[tokio::test]
async fn the_cap_drops_the_oldest_or_the_newest_and_dropped_messages_stay_readable() {
    // R167
    for (at_cap, kept, gone) in
        [(OverflowPolicy::Old, ["b", "c"], "a"), (OverflowPolicy::New, ["a", "b"], "c")]
    {
        let bench = Harness::with(Scripted::new(), capped(2, at_cap));
        held(&bench).await;
        for text in ["a", "b", "c"] {
            bench.send_as("one", text, "queue").await;
        }
        assert_eq!(bench.waiting("one").await, kept);
        let all = bench.engine.messages().inbox("one").await.expect("an inbox");
        let dropped: Vec<_> = all
            .iter()
            .filter(|item| item.state == ItemState::Dropped)
            .map(inbox::Item::text)
            .collect();
        assert_eq!(dropped, [gone]);
        release(&bench).await;
        assert_eq!(bench.turns("one").await.concat(), kept);
    }
}

#[tokio::test]
async fn the_cap_can_summarize_the_oldest_messages_and_holds_at_any_size() {
    // R167
    for cap in [1, 2, 3] {
        let bench = Harness::with(Scripted::new(), capped(cap, OverflowPolicy::Summarize));
        held(&bench).await;
        for text in ["first", "second", "third", "fourth", "fifth"] {
            bench.send_as("one", text, "queue").await;
        }
        let waiting = bench.waiting("one").await;
        assert_eq!(waiting.len(), cap, "{waiting:?}");
        for text in ["first", "second", "third", "fourth", "fifth"] {
            assert_eq!(
                waiting.iter().filter(|words| words.contains(text)).count(),
                1,
                "{text} in {waiting:?}"
            );
        }
        assert!(waiting[cap - 1].ends_with("fifth"));
        let lines: Vec<&str> = waiting[0].lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(
            lines,
            ["- first", "- second", "- third", "- fourth"][..5 - cap],
            "each is one line"
        );
    }
}

#[tokio::test]
async fn the_inbox_survives_the_process() {
    // R166
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().then(Script::new().say("half").gate(&gate)));
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    for text in ["a", "b"] {
        bench.send_as("one", text, "queue").await;
    }
    bench.engine.background().shutdown().await;
    assert_eq!(bench.provider.running(), 0);
    let next = bench.another();
    assert_eq!(next.sessions().get("one").await.expect("there").inbox.len(), 2);
    next.background().start().await.expect("recovered");
    next.sessions().wait_until_settled("one", PATIENCE).await.expect("there");
    assert_eq!(bench.turns("one").await, [["m"], ["a"], ["b"]]);
    next.background().shutdown().await;
}

#[tokio::test]
async fn the_same_idempotency_key_runs_once_and_is_refused_with_another_body() {
    let bench = Harness::new(Scripted::new());
    bench.chat("one").await;
    let mut sending = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { bench.engine.clone() } else { bench.another() };
        sending.spawn(async move {
            engine.messages().submit("one", queued("m"), key("k", "m")).await.expect("taken")
        });
    }
    let answers = sending.join_all().await;
    assert!(
        answers.iter().all(
            |sent| sent.message_id == answers[0].message_id && sent.run_id == answers[0].run_id
        )
    );
    assert_eq!(answers.iter().filter(|sent| !sent.replayed).count(), 1);
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"]]);
    let refused = bench
        .engine
        .messages()
        .submit("one", queued("other"), key("k", "other"))
        .await
        .expect_err("another body");
    assert_eq!(refused.code(), "idempotency_mismatch");
    bench.engine.messages().submit("one", queued("n"), key("k2", "n")).await.expect("another key");
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["n"]]);
}

#[tokio::test]
async fn a_session_created_twice_with_one_key_is_created_once() {
    let bench = Harness::new(Scripted::new());
    let make = async || {
        bench
            .engine
            .sessions()
            .create(NewSession::default(), Some(NewMessage::text("m")), key("k", "m"))
            .await
            .expect("made")
    };
    let (first, again) = (make().await, make().await);
    assert_eq!(first.0, again.0);
    assert!(again.1.expect("a message").replayed);
    bench.settled(&first.0.to_string()).await;
    assert_eq!(bench.engine.sessions().newest(10).await.expect("listed").len(), 1);
    assert_eq!(bench.provider.requests().len(), 1);
}

#[tokio::test]
async fn a_refused_message_does_not_consume_its_key() {
    let bench = Harness::with(Scripted::new(), capped(0, OverflowPolicy::Reject));
    held(&bench).await;
    let send = async || bench.engine.messages().submit("one", queued("m"), key("k", "m")).await;
    assert_eq!(send().await.expect_err("full").code(), "inbox_full");
    release(&bench).await;
    assert!(!send().await.expect("taken now").replayed);
    bench.settled("one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_first_messages_to_one_label_make_one_session() {
    // R130, R133, R144, R145
    let bench = Harness::with(Scripted::new(), capped(100, OverflowPolicy::Reject));
    let mut sending = tokio::task::JoinSet::new();
    let engines = [bench.engine.clone(), bench.another()];
    for n in 0..50 {
        let engine = engines[n % 2].clone();
        let new = NewSession { label: Some("inbound:x".to_owned()), ..NewSession::default() };
        sending.spawn(async move {
            engine
                .messages()
                .submit_to_label(new, queued(&format!("m{n}")), None)
                .await
                .expect("taken")
                .session
        });
    }
    let sessions = sending.join_all().await;
    assert!(sessions.iter().all(|session| *session == sessions[0]));
    assert_eq!(bench.engine.sessions().newest(10).await.expect("listed").len(), 1);
    let done = bench.settled("inbound:x").await;
    assert_eq!(done.session.turn_count, 50);
    let mut said = bench.turns("inbound:x").await.concat();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 50, "each exactly once");
    assert_eq!(bench.provider.running_max(sessions[0]), 1);
    bench.verify().await;
}

#[tokio::test]
async fn empty_messages_are_refused_and_change_nothing() {
    let bench = Harness::new(Scripted::new());
    let before = bench.chat("one").await;
    let wanting = |overrides| NewMessage { overrides, ..NewMessage::text("m") };
    let table = [
        (NewMessage::text(""), "bad_text"),
        (NewMessage::text(" \n\t"), "bad_text"),
        (NewMessage { content: Vec::new(), ..NewMessage::default() }, "bad_text"),
        (NewMessage::text("a\0b"), "bad_text"),
        (NewMessage::text("x".repeat(1_000_001)), "bad_text"),
        (
            wanting(Overrides { provider_id: Some("nobody".to_owned()), ..Overrides::default() }),
            "unknown_provider",
        ),
        (
            wanting(Overrides { tools: vec![tool("t")], ..Overrides::default() }),
            "tools_unsupported",
        ),
        (wanting(Overrides { tools: vec![tool("t"); 129], ..Overrides::default() }), "too_many"),
    ];
    for (message, code) in table {
        let refused = bench.engine.messages().submit("one", message, None).await.expect_err(code);
        assert_eq!(refused.code(), code);
    }
    assert_eq!(bench.engine.sessions().get("one").await.expect("there"), before);
    assert_eq!(
        bench
            .engine
            .messages()
            .submit("nobody", NewMessage::text("m"), None)
            .await
            .expect_err("none")
            .code(),
        "no_session"
    );
    let most = NewMessage {
        content: vec![Part::Text { text: "x".repeat(1_000_000) }],
        ..NewMessage::default()
    };
    bench.engine.messages().submit("one", most, None).await.expect("as much as is taken");
    assert_eq!(bench.settled("one").await.session.state, Activity::Idle);
    let new = NewSession { label: Some(" bad".to_owned()), ..NewSession::default() };
    assert_eq!(
        bench
            .engine
            .messages()
            .submit_to_label(new, NewMessage::text("m"), None)
            .await
            .expect_err("no label")
            .code(),
        "bad_label"
    );
}

#[tokio::test]
async fn the_number_of_interrupts_is_bounded() {
    // R167
    let gate = Gate::new();
    let bench = Harness::new(
        Scripted::new().then(Script::new().gate(&gate).and(ctx_providers::scripted::Action::Deaf)),
    );
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    gate.open();
    let mut sending = tokio::task::JoinSet::new();
    for n in 0..30 {
        let engine = bench.engine.clone();
        sending.spawn(async move {
            engine
                .messages()
                .submit("one", NewMessage::text(format!("i{n}")), None)
                .await
                .map(drop)
                .is_ok()
        });
    }
    let taken = sending.join_all().await.into_iter().filter(|taken| *taken).count();
    assert!(taken <= 21, "{taken} were taken, and 20 may wait");
    bench.settled("one").await;
}

#[tokio::test]
async fn a_key_means_the_same_under_the_label_and_under_the_id() {
    let bench = Harness::new(Scripted::new());
    let id = bench.chat("one").await.session.id.to_string();
    bench.engine.messages().submit("one", queued("m"), key("k", "m")).await.expect("taken");
    assert!(
        bench
            .engine
            .messages()
            .submit(&id, queued("m"), key("k", "m"))
            .await
            .expect("taken")
            .replayed
    );
}
