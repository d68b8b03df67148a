//! Nodes and their leases, and sessions without an owner that need one.

use ctx_core::decide::{
    self, Accepted, Decision, Invocation, Needs, SessionView, Settings, TerminationCause,
    WorkerReport,
};
use ctx_core::id::{MessageId, NodeId, SessionId, TurnId};
use ctx_core::inbox::Mode;
use ctx_core::refusal::Refusal;
use ctx_core::session::{Activity, Delivery, New, Origin, Parent, Status};
use ctx_core::time::Span;
use ctx_core::worker::{End, WorkerState};
use ctx_store::{Error, PAGE_MAX, SessionQuery};
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    NODE, SessionWriter, at, awaited_calls, new_session, note, run_host, submission_in, verify,
};

const OTHER: NodeId = NodeId(Ulid(78));
/// A lease that does not end during a test.
const HOUR: Span = Span::hours(1);
/// A lease that has ended when its call returns. A database may have a clock of its own.
const NO_TIME: Span = Span(0);

pub(crate) async fn a_node_is_dead_once_its_lease_has_run_out(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    assert!(store.dead_nodes(at(0)).await.expect("nodes").is_empty());
    assert!(store.keep_alive(NODE, at(0), HOUR).await.expect("registered"));
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.open_run("hello", 1).await;
    assert!(other.dead_nodes(at(1)).await.expect("nodes").is_empty());
    assert!(store.keep_alive(NODE, at(1), NO_TIME).await.expect("renewed"));
    assert_eq!(other.dead_nodes(at(2)).await.expect("nodes"), [NODE]);
    assert!(store.keep_alive(NODE, at(2), HOUR).await.expect("renewed"));
    assert!(other.dead_nodes(at(3)).await.expect("nodes").is_empty());
}

pub(crate) async fn a_node_without_sessions_is_not_taken_over(backend: &impl Backend) {
    let store = backend.open().await;
    assert!(store.keep_alive(NODE, at(100), NO_TIME).await.expect("registered"));
    assert!(store.dead_nodes(at(500)).await.expect("nodes").is_empty(), "there is nothing to take");
    assert!(store.keep_alive(NODE, at(600), NO_TIME).await.expect("renewed"));
    store.remove_node(NODE).await.expect("left");
    store.remove_node(NODE).await.expect("leaving twice does no harm");
    store.remove_node(OTHER).await.expect("nor does leaving without a registration");
    assert!(store.dead_nodes(at(700)).await.expect("nodes").is_empty());
    assert!(store.keep_alive(NODE, at(800), NO_TIME).await.expect("registered again"));
    assert!(store.keep_alive(NODE, at(900), NO_TIME).await.expect("renewed"));
}

pub(crate) async fn a_node_that_owns_a_session_stays_until_it_is_taken_over(
    backend: &impl Backend,
) {
    // R238
    let (store, other) = (backend.open().await, backend.open().await);
    assert!(store.keep_alive(NODE, at(100), NO_TIME).await.expect("registered"));
    assert!(other.keep_alive(OTHER, at(100), HOUR).await.expect("registered"));
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let id = writer.id().await;
    other.remove_node(NODE).await.expect("a node with sessions stays");
    assert!(other.unattended(&[], 9).await.expect("sessions").is_empty());
    assert!(other.unattended(&[OTHER], 9).await.expect("sessions").is_empty());
    let dead = other.dead_nodes(at(200)).await.expect("nodes");
    assert_eq!(other.unattended(&dead, 9).await.expect("sessions"), [id]);
    let taker = writer.through(&other);
    taker.cut_off(opened.run.id, TerminationCause::ProcessLost, 201).await.expect("cut off");
    let late = writer.cut_off(opened.run.id, TerminationCause::ProcessLost, 202).await;
    assert!(matches!(late, Err(Error::Refused(Refusal::StaleWriter))), "{late:?}");
    assert!(other.unattended(&dead, 9).await.expect("sessions").is_empty());
    other.remove_node(NODE).await.expect("it owns nothing any more");
    assert!(
        !store.keep_alive(NODE, at(300), NO_TIME).await.expect("registered anew"),
        "it learns that it was taken over"
    );
    assert!(other.dead_nodes(at(400)).await.expect("nodes").is_empty());
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn an_owner_that_never_registered_is_dead(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.open_run("hello", 1).await;
    assert_eq!(store.dead_nodes(at(1)).await.expect("nodes"), [NODE]);
}

pub(crate) async fn sessions_with_messages_to_deliver_are_unattended(backend: &impl Backend) {
    let store = backend.open().await;
    let unattended =
        async || -> Vec<SessionId> { store.unattended(&[], PAGE_MAX).await.expect("sessions") };
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    writer.send(submission_in(Mode::Queue, "next"), 2).await;
    assert!(unattended().await.is_empty(), "a run is open");
    writer.suspend(&opened.run, vec![], vec![awaited_calls(&["c"])], 3).await.expect("suspended");
    assert!(unattended().await.is_empty(), "it waits for something else");
    writer.cancel(4).await;
    assert_eq!(unattended().await, [writer.id().await]);
    for (status, delivery, due) in [
        (Status::Active, Delivery::Hold, false),
        (Status::Active, Delivery::Refuse, false),
        (Status::Archived, Delivery::Open, false),
        (Status::Error, Delivery::Open, false),
        (Status::Suspended, Delivery::Open, true),
        (Status::Active, Delivery::Open, true),
    ] {
        writer
            .put_session(|session| (session.status, session.delivery) = (status, delivery), 5)
            .await;
        assert_eq!(!unattended().await.is_empty(), due, "{status:?} {delivery:?}");
    }
    writer.deliver(6).await.expect("delivered");
    assert!(unattended().await.is_empty());
    assert!(store.unattended(&[], 0).await.expect("sessions").is_empty());
}

pub(crate) async fn a_worker_is_unattended_until_its_manager_was_told(backend: &impl Backend) {
    // R186, R190, R193
    let store = backend.open().await;
    let manager = SessionWriter::create(&store, "manager", 0).await;
    let label = format!("worker:{}", Ulid(5));
    let parent =
        Parent { session: "manager".to_owned(), turn: None, tool_call: Some("call".to_owned()) };
    let new = New { origin: Origin::Subagent, parent: Some(parent), ..new_session(&label, 1) };
    let worker = SessionWriter::create_as(&store, new).await;
    let of_manager = SessionQuery { parent: Some("manager".to_owned()), ..SessionQuery::newest(9) };
    let listed = store.sessions(&of_manager).await.expect("sessions");
    assert_eq!(listed.iter().map(|session| session.id).collect::<Vec<_>>(), [worker.id().await]);
    worker.exchange("do it", "done", 2).await;
    assert!(worker.session().await.unreported);
    assert_eq!(store.unattended(&[], 9).await.expect("sessions"), [worker.id().await]);
    let head = worker.session().await.head;
    for (known, unreported) in [(None, true), (head, false)] {
        worker
            .decide(3, vec![], move |view, invocation| {
                decide::mark_reported(view, known, invocation)
            })
            .await
            .expect("told");
        assert_eq!(worker.session().await.unreported, unreported);
    }
    assert!(store.unattended(&[], 9).await.expect("sessions").is_empty());

    // The manager's turn that started the worker becomes known with that turn.
    assert_eq!(worker.session().await.parent.expect("a parent").turn, None);
    let turn = started_worker(&manager, &label, 4).await;
    assert_eq!(worker.session().await.parent.expect("a parent").turn, Some(turn));

    // The next end is reported by a message of the manager, which is stored once.
    assert!(unfinished(&manager).await.is_empty());
    worker.exchange("more", "done", 5).await;
    let head = worker.session().await.head.expect("a turn");
    let found = unfinished(&manager).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].head), (worker.id().await, Some(head)));
    assert!(found[0].unreported && found[0].state == Activity::Idle && !found[0].has_messages);
    for opens_run in [true, false] {
        let accepted = report(&manager, &worker, head, 6).await;
        assert_eq!(accepted.is_some_and(|accepted| accepted.opened_run.is_some()), opens_run);
        assert!(!worker.session().await.unreported);
    }
    assert_eq!(manager.view().await.inbox.len(), 1);
}

async fn unfinished(manager: &SessionWriter) -> Vec<WorkerState> {
    let rule = |view: &SessionView, _: &Invocation| Ok(Decision::unchanged(view.workers.clone()));
    manager.decide_on(Needs::COLLECT, 3, vec![], rule).await.expect("read").reply
}

/// Reports the newest turn of a worker to its manager.
pub(crate) async fn report(
    manager: &SessionWriter,
    worker: &SessionWriter,
    head: TurnId,
    ms: i64,
) -> Option<Accepted> {
    let session = worker.session().await;
    let report = WorkerReport {
        worker: session.id,
        label: session.label,
        head,
        end: End::Completed,
        text: "done".to_owned(),
    };
    let message = MessageId(Ulid::new());
    let rule = move |view: &SessionView, invocation: &Invocation| {
        let (host, settings) = (run_host(NODE), Settings::default());
        decide::collect_reports(
            view,
            std::slice::from_ref(&report),
            message,
            &host,
            &settings,
            invocation,
        )
    };
    manager.decide_on(Needs::COLLECT, ms, vec![], rule).await.expect("reported").reply
}

/// A turn of a manager in which a tool call started a worker.
pub(crate) async fn started_worker(
    manager: &SessionWriter,
    label: &str,
    ms: i64,
) -> ctx_core::id::TurnId {
    use ctx_core::message::{Message, Part, Role, ToolStatus};
    use ctx_core::stored_content::Content;
    use ctx_core::turn::{About, Ready};
    let call = Part::ToolCall {
        id: "call".to_owned(),
        name: "dispatch_to_agent".to_owned(),
        params: serde_json::json!({"task": "do it"}),
        status: ToolStatus::Completed,
    };
    let result = Part::ToolResult {
        tool_call_id: "call".to_owned(),
        content: Content::Text(label.to_owned()),
        is_error: false,
    };
    let said = |role, part| Message {
        role,
        source: None,
        content: vec![part],
        ..crate::harness::message("", ms)
    };
    let messages = vec![said(Role::Assistant, call), said(Role::Tool, result)];
    let (ready, body) = Ready::new(About::at(at(ms)), messages);
    let added = manager
        .decide(ms, vec![body], move |view, _| decide::append_turn(view, None, &ready))
        .await;
    added.expect("appended").reply
}

pub(crate) async fn sessions_without_activity_are_idle(backend: &impl Backend) {
    // R209
    let store = backend.open().await;
    let idle = async |since: i64, limit| -> Vec<SessionId> {
        let mut ids = store.idle_sessions(at(since), limit).await.expect("sessions");
        ids.sort();
        ids
    };
    assert!(idle(1000, 9).await.is_empty());
    let old = SessionWriter::create(&store, "old", 0).await;
    let new = SessionWriter::create(&store, "new", 500).await;
    let running = SessionWriter::create(&store, "running", 0).await;
    let opened = running.open_run("hello", 0).await;
    assert_eq!(idle(0, 9).await, [], "active at that moment is active since then");
    assert_eq!(idle(1, 9).await, [old.id().await]);
    let mut both = vec![old.id().await, new.id().await];
    both.sort();
    assert_eq!(idle(1000, 9).await, both, "a running session is not idle");
    assert_eq!(idle(1000, 1).await.len(), 1);
    assert!(idle(1000, 0).await.is_empty());
    running.send(submission_in(Mode::Queue, "waits"), 1).await;
    running.end_run(&opened, "answer", 2).await;
    assert_eq!(idle(1000, 9).await, both, "one with messages to deliver is not idle");
    let since = at(1000);
    old.decide(2000, vec![], move |view, invocation| decide::archive_idle(view, since, invocation))
        .await
        .expect("archived");
    assert_eq!(idle(1000, 9).await, [new.id().await], "an archived one is not in use");
    assert_eq!(store.hidden().await.expect("hidden").archived, 1);
    new.start("a task", 3000).await;
    new.observe(vec![note("active")], vec![], 3000).await.expect("observed");
    assert!(idle(1000, 9).await.is_empty());
}
