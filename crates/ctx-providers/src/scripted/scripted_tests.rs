//! The scripted provider does what it is told, and counts what it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use ctx_core::id::{MessageId, RunId};
use ctx_engine::provider::{DELTAS_MAX, STEERS_MAX, Steer};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::*;

const GUARD: Duration = Duration::from_secs(60);
const SESSION: SessionId = SessionId(Ulid(1));

fn request(run: u128) -> Request {
    Request {
        session: SESSION,
        run: RunId(Ulid(run)),
        working_dir: None,
        model: None,
        system: None,
        messages: Vec::new(),
        images: Default::default(),
        tools: Vec::new(),
        options: BTreeMap::new(),
        resumes: Vec::new(),
        open: 0,
        own: None,
    }
}

struct Run {
    heard: mpsc::Receiver<Delta>,
    steers: mpsc::Sender<Steer>,
    cancel: CancellationToken,
    end: JoinHandle<End>,
}

fn start(provider: &Arc<Scripted>, run: u128) -> Run {
    let (out, heard) = mpsc::channel(DELTAS_MAX);
    let (steers, inbox) = mpsc::channel(STEERS_MAX);
    let cancel = CancellationToken::new();
    let (link, provider) = (
        Link { out, cancel: cancel.clone(), steers: inbox, tools: mpsc::channel(1).0 },
        Arc::clone(provider),
    );
    let end = tokio::spawn(async move { provider.run(request(run), link).await });
    Run { heard, steers, cancel, end }
}

async fn finish(mut run: Run) -> (Vec<Delta>, End) {
    let mut deltas = Vec::new();
    while let Some(delta) = tokio::time::timeout(GUARD, run.heard.recv()).await.expect("it goes on")
    {
        deltas.push(delta);
    }
    (deltas, run.end.await.expect("no panic"))
}

fn text(words: &str) -> Delta {
    Delta::Text(words.to_owned())
}

#[tokio::test]
async fn scripts_are_played_in_order_and_then_it_says_ok() {
    let first = Script::new()
        .say("one")
        .call("a", "look", json!({}))
        .end(End::Done(Stop::ToolCalls))
        .say("never");
    let provider = Arc::new(Scripted::new().then(first).then(Script::new().say("two")));
    let (deltas, end) = finish(start(&provider, 1)).await;
    let call = Delta::ToolCall { id: "a".to_owned(), name: "look".to_owned(), params: json!({}) };
    assert_eq!((deltas, end), (vec![text("one"), call], End::Done(Stop::ToolCalls)));
    assert_eq!(finish(start(&provider, 2)).await, (vec![text("two")], End::Done(Stop::EndTurn)));
    assert_eq!(finish(start(&provider, 3)).await, (vec![text("ok")], End::Done(Stop::EndTurn)));
    assert_eq!(
        provider.requests().iter().map(|request| request.run.0.0).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!((provider.running(), provider.running_max(SESSION)), (0, 1));
}

#[tokio::test]
async fn a_script_may_be_made_from_the_request() {
    let provider =
        Arc::new(Scripted::new().otherwise(|request| Script::new().say(&request.run.to_string())));
    assert_eq!(finish(start(&provider, 9)).await.0, [text(&RunId(Ulid(9)).to_string())]);
}

#[tokio::test]
async fn a_gate_holds_a_run_and_runs_at_once_are_counted() {
    let gate = Gate::new();
    let script = Script::new().say("before").gate(&gate).say("after");
    let provider = Arc::new(Scripted::new().then(script.clone()).then(script));
    let (mut one, two) = (start(&provider, 1), start(&provider, 2));
    tokio::time::timeout(GUARD, async { (gate.reached().await, gate.reached().await) })
        .await
        .expect("both come to the gate");
    assert_eq!((provider.running(), provider.running_max(SESSION)), (2, 2));
    assert_eq!(one.heard.recv().await, Some(text("before")));
    assert!(one.heard.try_recv().is_err(), "nothing passes a closed gate");
    gate.open();
    gate.open();
    assert_eq!(finish(one).await.0, [text("after")]);
    assert_eq!(finish(two).await.0, [text("before"), text("after")]);
    assert_eq!((provider.running(), provider.running_max(SESSION)), (0, 2));
}

#[tokio::test]
async fn a_message_from_outside_goes_in() {
    let provider = Arc::new(
        Scripted::new()
            .then(vec![Action::InjectSteers].into())
            .can(Can { steer: true, ..Can::default() }),
    );
    assert!(provider.about().can.steer && !provider.about().can.tools);
    let run = start(&provider, 1);
    run.steers
        .send(Steer { message_id: MessageId(Ulid(5)), text: "left".to_owned() })
        .await
        .expect("it listens");
    assert_eq!(finish(run).await.0, [Delta::Injected(MessageId(Ulid(5))), text("heard: left")]);
}

#[tokio::test]
async fn it_stops_wherever_it_waits() {
    for action in [
        Action::Gate(Gate::new()),
        Action::InjectSteers,
        Action::Pause(Duration::from_secs(1_000_000)),
    ] {
        let provider = Arc::new(Scripted::new().then(Script::new().say("x").and(action)));
        let mut run = start(&provider, 1);
        run.heard.recv().await.expect("x");
        run.cancel.cancel();
        assert_eq!(
            tokio::time::timeout(GUARD, run.end).await.expect("in time").expect("no panic"),
            End::Cancelled
        );
    }
}

#[tokio::test]
async fn a_deaf_run_must_be_dropped_and_counts_no_more() {
    let provider = Arc::new(Scripted::new().then(Script::new().say("x").and(Action::Deaf)));
    let mut run = start(&provider, 1);
    run.heard.recv().await.expect("x");
    run.cancel.cancel();
    tokio::task::yield_now().await;
    assert!(!run.end.is_finished());
    run.end.abort();
    assert!(run.end.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(provider.running(), 0);
}
