//! Messages to a busy session: the six queue modes, and the order in which they run.

use std::sync::Arc;

use ctx_core::decide::{Patch, Settings};
use ctx_core::inbox::{self, Mode};
use ctx_core::message::Source;
use ctx_core::session::{Activity, Delivery};
use ctx_core::time::{Span, Timestamp};
use ctx_core::turn::Status;
use ctx_engine::provider::ProviderFeatures;
use ctx_engine::{ManualClock, NewMessage};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};

use crate::harness::{Harness, seen, until, with_tool};

/// A session whose run has answered `half` and is held at the gate.
async fn busy(bench: &Harness, gate: &Gate) {
    bench.provider.push(Script::new().say("half").gate(gate).say(" done"));
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
}

fn collecting(debounce: Span) -> Settings {
    Settings {
        inbox: inbox::Settings { debounce, ..inbox::Settings::default() },
        ..Settings::default()
    }
}

#[tokio::test]
async fn an_idle_session_runs_every_mode_at_once() {
    // R153, R155, R218, R241
    let bench = Harness::new(Scripted::new());
    for mode in Mode::ALL {
        bench.chat(mode.name()).await;
        let sent = bench.send_as(mode.name(), "m", mode.name()).await;
        assert_eq!((sent.state, sent.position), (Activity::Running, None), "{mode}");
        assert!(sent.run_id.is_some());
        bench.settled(mode.name()).await;
        assert_eq!(bench.transcript(mode.name()).await, ["user: m", "agent: ok"]);
    }
}

#[tokio::test]
async fn queued_messages_do_not_change_the_run_and_run_one_by_one_in_order() {
    // R145, R156, R158, R159, R161, R162, R164, R239
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new());
    busy(&bench, &gate).await;
    for (place, mode) in ["followup", "queue", "steer-backlog", "queue"].into_iter().enumerate() {
        let sent = bench.send_as("one", &format!("{mode}{place}"), mode).await;
        assert_eq!(
            (sent.state, sent.position, sent.run_id),
            (Activity::Running, Some(place + 1), None)
        );
    }
    assert_eq!(bench.waiting("one").await, ["followup0", "queue1", "steer-backlog2", "queue3"]);
    gate.open();
    let done = bench.settled("one").await;
    assert!(done.inbox.is_empty());
    assert_eq!(
        bench.turns("one").await,
        [["m"], ["followup0"], ["queue1"], ["steer-backlog2"], ["queue3"]]
    );
    assert_eq!(
        seen(&bench.provider.requests()[1].messages),
        ["user: m", "agent: half done", "user: followup0"]
    );
    assert_eq!(
        bench.provider.requests()[4].messages.len(),
        9,
        "each request has the whole history"
    );
    assert_eq!(bench.provider.running_max(done.session.id), 1);
    bench.verify().await;
}

#[tokio::test]
async fn a_steer_into_a_run_without_support_is_refused_and_changes_nothing() {
    // R155
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new());
    busy(&bench, &gate).await;
    let before = bench.engine.sessions().get("one").await.expect("there");
    let steer = NewMessage { mode: Some(Mode::Steer), ..NewMessage::text("left") };
    let refused =
        bench.engine.messages().submit("one", steer, None).await.expect_err("it cannot be steered");
    assert_eq!(refused.code(), "steer_unavailable");
    assert_eq!(bench.engine.sessions().get("one").await.expect("there"), before);
    gate.open();
    bench.settled("one").await;
    assert_eq!(bench.transcript("one").await, ["user: m", "agent: half done"]);
}

#[tokio::test]
async fn an_interrupt_keeps_the_partial_answer_and_runs_before_the_backlog() {
    // R154, R165
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new());
    busy(&bench, &gate).await;
    bench.send_as("one", "q1", "queue").await;
    bench.send_as("one", "q2", "queue").await;
    let sent = bench.send_as("one", "stop that", "interrupt").await;
    assert_eq!(sent.position, Some(1));
    let done = bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["stop that"], ["q1"], ["q2"]]);
    assert_eq!(
        bench.transcript("one").await[..4],
        ["user: m", "agent: half", "user: stop that", "agent: ok"]
    );
    assert_eq!(
        bench.endings("one").await,
        [Status::Interrupted, Status::Completed, Status::Completed, Status::Completed]
    );
    assert_eq!(
        seen(&bench.provider.requests()[1].messages),
        [
            "user: m",
            "agent: half",
            "user: [This answer is incomplete: a newer message of the user interrupted it.]",
            "user: stop that"
        ]
    );
    assert_eq!(bench.provider.running_max(done.session.id), 1);
    bench.verify().await;
}

#[tokio::test]
async fn interrupts_keep_their_order_among_themselves() {
    // R154, R165
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new());
    busy(&bench, &gate).await;
    bench.send_as("one", "q", "queue").await;
    for text in ["i1", "i2", "i3"] {
        bench.send_as("one", text, "interrupt").await;
    }
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["i1"], ["i2"], ["i3"], ["q"]]);
}

#[tokio::test]
async fn an_interrupt_of_an_interrupt_runs_before_queued_messages() {
    // Regression: while an interrupt ran, queued messages were placed among the interrupts.
    let (gate, second) = (Gate::new(), Gate::new());
    let bench = Harness::new(Scripted::new());
    busy(&bench, &gate).await;
    bench.provider.push(Script::new().say("again half").gate(&second));
    bench.send_as("one", "i1", "interrupt").await;
    second.reached().await;
    bench.send_as("one", "q", "queue").await;
    let sent = bench.send_as("one", "i2", "interrupt").await;
    assert_eq!(sent.position, Some(1));
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["i1"], ["i2"], ["q"]]);
}

#[tokio::test]
async fn a_steer_goes_into_the_running_turn() {
    // R155, R158
    for mode in ["steer", "steer-backlog"] {
        let gate = Gate::new();
        let bench = Harness::able();
        bench
            .provider
            .push(Script::new().say("working").gate(&gate).and(Action::InjectSteers).say(", yes"));
        bench.chat("one").await;
        bench.send("one", "m").await;
        gate.reached().await;
        let sent = bench.send_as("one", "left", mode).await;
        assert_eq!((sent.state, sent.position), (Activity::Running, None));
        gate.open();
        let done = bench.settled("one").await;
        assert_eq!(done.session.turn_count, 1);
        assert_eq!(
            bench.transcript("one").await,
            ["user: m", "agent: working", "user: left", "agent: heard: left, yes"]
        );
        assert_eq!(
            bench.told("one").await[2].message.id,
            sent.message_id,
            "under its own id always"
        );
        assert_eq!(bench.provider.requests().len(), 1);
        bench.verify().await;
    }
}

#[tokio::test]
async fn a_steer_that_was_not_delivered_goes_to_the_head_of_the_inbox() {
    // R155, R158
    let gate = Gate::new();
    let bench = Harness::able();
    busy(&bench, &gate).await;
    bench.send_as("one", "q", "queue").await;
    bench.send_as("one", "s1", "steer").await;
    bench.send_as("one", "s2", "steer-backlog").await;
    gate.open();
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["s1"], ["s2"], ["q"]]);
    assert_eq!(bench.endings("one").await, [Status::Completed; 4]);
}

#[tokio::test]
async fn consecutive_collected_messages_become_one_turn_of_several() {
    // R157, R163, R167
    let gate = Gate::new();
    let bench = Harness::with(Scripted::new(), collecting(Span(20)));
    busy(&bench, &gate).await;
    for (text, mode) in [("c1", "collect"), ("c2", "collect"), ("q", "queue"), ("c3", "collect")] {
        bench.send_as("one", text, mode).await;
    }
    gate.open();
    let done = bench.settled("one").await;
    assert_eq!(done.session.turn_count, 4);
    assert_eq!(bench.turns("one").await, [vec!["m"], vec!["c1", "c2"], vec!["q"], vec!["c3"]]);
    assert_eq!(
        seen(&bench.provider.requests()[1].messages),
        ["user: m", "agent: half done", "user: c1", "user: [Next message:]", "user: c2"]
    );
}

/// An idle session that collects messages; the clock does not advance.
async fn gathering() -> (Harness, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp(1_763_243_045_000)));
    let bench = Harness::with(Scripted::new(), collecting(Span::minutes(5))).with_clock(&clock);
    let gate = Gate::new();
    busy(&bench, &gate).await;
    bench.send_as("one", "c1", "collect").await;
    gate.open();
    until("the run ends", async || {
        bench.engine.sessions().get("one").await.expect("there").session.state == Activity::Idle
    })
    .await;
    (bench, clock)
}

#[tokio::test]
async fn collected_messages_run_after_a_pause_since_the_last_one() {
    // R157, R167
    let (bench, clock) = gathering().await;
    clock.advance(Span::minutes(4));
    let sent = bench.send_as("one", "c2", "collect").await;
    assert_eq!((sent.state, sent.position), (Activity::Idle, Some(2)));
    clock.advance(Span::minutes(4));
    bench.engine.sessions().update("one", Patch::default()).await.expect("woken");
    assert_eq!(bench.waiting("one").await, ["c1", "c2"]);
    clock.advance(Span::minutes(2));
    bench.engine.sessions().update("one", Patch::default()).await.expect("woken");
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [vec!["m"], vec!["c1", "c2"]]);
}

#[tokio::test]
async fn an_interrupt_runs_before_the_backlog_of_an_idle_session() {
    // R154, R241: an idle session runs it now; collected messages do not delay it.
    let (bench, clock) = gathering().await;
    bench.send_as("one", "now", "interrupt").await;
    until("it ran", async || bench.turns("one").await.len() == 2).await;
    assert_eq!(bench.turns("one").await, [["m"], ["now"]]);
    clock.advance(Span::minutes(6));
    bench.engine.sessions().update("one", Patch::default()).await.expect("woken");
    bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [["m"], ["now"], ["c1"]]);
}

#[tokio::test]
async fn the_source_of_a_message_decides_its_default_mode() {
    // R160
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new());
    let sources = [
        (Source::Agent, Mode::Followup),
        (Source::Timer, Mode::Followup),
        (Source::Trigger, Mode::Followup),
        (Source::Webhook, Mode::Queue),
    ];
    for tracked in [false, true] {
        let label = if tracked { "tracked" } else { "chat" };
        if tracked {
            bench.tracked(label).await
        } else {
            bench.chat(label).await
        };
        bench.provider.push(Script::new().say("x").gate(&gate));
        bench.send(label, "Add a parser").await;
        gate.reached().await;
        for (source, _) in sources {
            bench
                .engine
                .messages()
                .submit(label, NewMessage { source, ..NewMessage::text("m") }, None)
                .await
                .expect("taken");
        }
        let inbox = bench.engine.messages().inbox(label).await.expect("an inbox");
        assert_eq!(inbox.iter().map(|item| (item.source, item.mode)).collect::<Vec<_>>(), sources);
        bench.send(label, "also add logging").await;
        if tracked {
            gate.open();
        }
        bench.settled(label).await;
        let first = bench.endings(label).await[0];
        assert_eq!(first, if tracked { Status::Completed } else { Status::Interrupted });
    }
}

#[tokio::test]
async fn in_a_suspended_session_every_mode_but_interrupt_waits() {
    // R225, R239, R240
    let bench = Harness::able();
    for mode in Mode::ALL {
        let label = mode.name();
        bench.provider.push(Script::new().call("c1", "look", serde_json::json!({})));
        bench.chat(label).await;
        bench.engine.messages().submit(label, with_tool("m", "look"), None).await.expect("taken");
        assert_eq!(bench.settled(label).await.session.state, Activity::Suspended);
        let unnamed = bench.send(label, "unnamed").await;
        assert_eq!((unnamed.state, unnamed.position), (Activity::Suspended, Some(1)));
        let sent = bench.send_as(label, "named", label).await;
        if mode == Mode::Interrupt {
            bench.settled(label).await;
            assert_eq!(bench.turns(label).await, [["m"], ["named"], ["unnamed"]]);
            assert_eq!(
                bench.endings(label).await,
                [Status::Interrupted, Status::Completed, Status::Completed]
            );
        } else {
            assert_eq!((sent.state, sent.position), (Activity::Suspended, Some(2)), "{mode}");
            bench.engine.runs().cancel(label).await.expect("released");
            bench.settled(label).await;
            assert_eq!(bench.turns(label).await.concat(), ["m", "unnamed", "named"], "{mode}");
        }
    }
    bench.verify().await;
}

#[tokio::test]
async fn messages_to_a_paused_session_wait_until_delivery_resumes() {
    // R226: a pause is a policy; a message that is not delivered does not interrupt the run.
    let gate = Gate::new();
    let bench = Harness::new(
        Scripted::new().can(ProviderFeatures { steer: true, ..ProviderFeatures::default() }),
    );
    busy(&bench, &gate).await;
    let patch = |delivery| Patch { delivery: Some(delivery), ..Patch::default() };
    bench.engine.sessions().update("one", patch(Delivery::Hold)).await.expect("held");
    for (text, mode) in [("a", "queue"), ("b", "interrupt"), ("c", "steer-backlog")] {
        bench.send_as("one", text, mode).await;
    }
    gate.open();
    let idle = bench.settled("one").await;
    assert_eq!((idle.session.state, idle.inbox.len()), (Activity::Idle, 3));
    assert_eq!(bench.transcript("one").await, ["user: m", "agent: half done"]);
    assert_eq!(bench.endings("one").await, [Status::Completed]);
    assert_eq!(bench.send("one", "d").await.state, Activity::Idle);
    bench.engine.sessions().update("one", patch(Delivery::Refuse)).await.expect("shut");
    let refused = bench
        .engine
        .messages()
        .submit("one", NewMessage::text("e"), None)
        .await
        .expect_err("refused");
    assert_eq!(refused.code(), "delivery_refused");
    assert_eq!(
        bench.engine.sessions().get("one").await.expect("there").inbox.len(),
        4,
        "what came before waits on"
    );
    bench.engine.sessions().update("one", patch(Delivery::Open)).await.expect("open");
    assert_eq!(bench.settled("one").await.session.turn_count, 5);
    assert_eq!(bench.turns("one").await.concat().len(), 5);
}

#[tokio::test]
async fn another_process_can_steer_and_interrupt_a_run() {
    // R154, R155: whether a run can be steered is stored with it, so that any process can decide.
    let gate = Gate::new();
    let bench = Harness::able();
    bench.engine.background().start().await.expect("attends");
    let other = bench.another();
    bench.provider.push(
        Script::new().say("a").gate(&gate).and(Action::InjectSteers).gate(&gate).say(" never"),
    );
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    let send = async |text: &str, mode| {
        other
            .messages()
            .submit("one", NewMessage { mode: Some(mode), ..NewMessage::text(text) }, None)
            .await
    };
    assert_eq!(send("left", Mode::Steer).await.expect("taken").position, None);
    gate.open();
    gate.reached().await;
    send("q", Mode::Queue).await.expect("taken");
    send("now", Mode::Interrupt).await.expect("taken");
    let done = bench.settled("one").await;
    assert_eq!(bench.turns("one").await, [vec!["m", "left"], vec!["now"], vec!["q"]]);
    assert_eq!(bench.endings("one").await[0], Status::Interrupted);
    assert_eq!(bench.provider.running_max(done.session.id), 1);
    bench.engine.background().shutdown().await;
}
