//! One long story that calls every method of a store, writes every kind of change, and leaves rows
//! of everything that a store can hold.

use std::collections::BTreeMap;

use ctx_core::agent_session::AgentSession;
use ctx_core::compaction::By;
use ctx_core::decide::{
    self, Change, Checkpoint, Decision, EndedRun, Fork, HistoryKey, Invocation, Needs,
    SessionToImport, SessionView, Settings, SubmitTarget, TurnNeed,
};
use ctx_core::exchange::PathQuery;
use ctx_core::id::{MessageId, ObjectId, SessionId, TokenId, TurnId};
use ctx_core::inbox::Mode;
use ctx_core::intent::Intent;
use ctx_core::object::{Named, Object};
use ctx_core::outbox::Status;
use ctx_core::refusal::Refusal;
use ctx_core::session::{New, Origin, Parent};
use ctx_core::suspension::Kind;
use ctx_core::time::Span;
use ctx_core::token::{Scope, Token, digest};
use ctx_core::usage_query::UsageQuery;
use ctx_store::{CommitQuery, Once, OnceKey, SessionQuery, Target, UlidKind};
use serde_json::json;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    EVERYTHING, FeedCursor, NODE, PROVIDER, SessionWriter, Snapshot, StoreHandle, assistant_text,
    at, awaited_calls, awaited_choice, compaction, create, ended, label, new_session, note,
    results, submission_in, text_of, turn, verify,
};
use crate::identities;
use crate::interface::{changes, methods};

/// A conversation with a compaction, pins, an agent's own session, a rewind and a fork.
async fn conversation(store: &StoreHandle) {
    let chat = SessionWriter::create(store, "chat", 0).await;
    let first = chat.exchange("a needle", "answer", 1).await;
    let second = chat.exchange("more", "answer", 2).await;
    let opened = chat.open_run("even more", 3).await;
    let agent = AgentSession {
        provider_id: PROVIDER.to_owned(),
        host: "here".to_owned(),
        working_dir: None,
        id: "agent 1".to_owned(),
        synced_turn: None,
        clean: false,
    };
    let new = Checkpoint {
        entries: assistant_text("half", 4),
        agent: Some(agent.clone()),
        ..Checkpoint::default()
    };
    chat.checkpoint(&opened.run, new, vec![], 4).await.expect("a checkpoint");
    let row = compaction(Some(first), Some(second), By::Ctx);
    chat.compact(&opened, Some(second), row, 5).await.expect("compacted");
    let (end, body) = ended(&opened, "answer", 6);
    chat.end_run_as(EndedRun { agent: Some(agent), ..end }, body, 6).await.expect("ended");
    chat.pin(first, 10, 7).await.expect("pinned");
    chat.pin(second, 10, 7).await.expect("pinned");
    chat.unpin(second, 8).await.expect("unpinned");
    let fork = Fork {
        id: SessionId(Ulid::new()),
        label: "fork".to_owned(),
        turn: Some(second),
        title: None,
        working_dir: None,
    };
    let turn = Some(TurnNeed::ForkPoint(second));
    let needs = Needs { turn, label: Some("fork".to_owned()), ..EVERYTHING };
    chat.decide_on(needs, 9, vec![], move |view, invocation| decide::fork(view, &fork, invocation))
        .await
        .expect("forked");
    SessionWriter::of(store, "fork").say("a fork", 10).await;
    chat.say("to be left", 11).await;
    let kept = store.turns(chat.head().await, 2).await.expect("turns")[1].id;
    chat.rewind(kept, 12).await.expect("rewound");
}

/// Work with sealed, abandoned and open tasks, files and an open question.
async fn work(store: &StoreHandle) {
    let work = SessionWriter::create(store, "work", 20).await;
    work.start("the first task", 21).await;
    work.write("a.rs", text_of(1, 9000), 22).await;
    work.seal("done", 23).await.expect("sealed");
    work.start("the second task", 24).await;
    work.decide(25, vec![], |view, invocation| decide::abort(view, None, invocation))
        .await
        .expect("given up");
    work.start("the third task", 26).await;
    work.observe(vec![note("a needle")], vec![], 27).await.expect("observed");
    let settings = Settings::default();
    work.decide(28, vec![], move |view, invocation| {
        decide::message(view, "something else", Intent::NewTask, &settings, invocation)
    })
    .await
    .expect("asked");
}

pub(crate) fn key(request: &str) -> OnceKey {
    let request = ObjectId::of(&[request.as_bytes()]);
    OnceKey { scope: "story".to_owned(), key: "k".to_owned(), request, max_age: None }
}

/// A session that waits for two things, has drafts and messages of every kind in its inbox.
async fn waiting(store: &StoreHandle) {
    let busy = SessionWriter::create(store, "waiting", 30).await;
    let opened = busy.open_run("hello", 31).await;
    let new = Checkpoint { entries: assistant_text("half", 32), ..Checkpoint::default() };
    busy.checkpoint(&opened.run, new, vec![], 32).await.expect("a checkpoint");
    let awaited = vec![awaited_calls(&["c"]), awaited_choice(Kind::Permission, "Really?")];
    busy.suspend(&opened.run, vec![], awaited, 33).await.expect("suspended");
    let open = busy.view().await.suspensions;
    busy.resume(open[0].id, results(&[("c", "done")]), 34).await.expect("answered");
    let answer = |_: SessionId, accepted: &decide::Accepted| json!({"position": accepted.position});
    let once = Some(Once { key: key("body"), answer });
    let submit = submission_in(Mode::Queue, "next");
    busy.submit_once(SubmitTarget::Existing, submit, &Settings::default(), vec![], once, 35)
        .await
        .expect("queued");
    let gone = busy.send(submission_in(Mode::Queue, "withdrawn"), 36).await.message_id;
    busy.decide(37, vec![], move |view, invocation| decide::withdraw_item(view, gone, invocation))
        .await
        .expect("withdrawn");
}

/// An imported session, one that is deleted, one that runs on a node, a token and a schedule.
async fn others(store: &StoreHandle) {
    let waiting = SessionWriter::of(store, "waiting");
    let key = HistoryKey {
        scope: "token".to_owned(),
        key: "key".to_owned(),
        message: MessageId(Ulid(5)),
    };
    let rule = move |_: &SessionView, _: &Invocation| {
        let changes = vec![Change::PutHistoryKey(Box::new(key.clone()))];
        Ok(Decision { changes, ..Decision::unchanged(()) })
    };
    waiting.decide(59, vec![], rule).await.expect("a history key");
    let (ready, body) = turn("imported", 40);
    let new = New { origin: Origin::Import, ..new_session("imported", 40) };
    let options = BTreeMap::from([("mode".to_owned(), "plan".to_owned())]);
    let adopt =
        SessionToImport { new, options, expected: None, turns: vec![ready.with_parent(None)] };
    let target = SessionWriter { store: store.clone(), target: label("imported") };
    let rule = move |found: Option<&_>, _: &_| decide::import_session(found, &adopt);
    target.write_with(Needs::NOTHING, 40, vec![body], rule).await.expect("imported");
    let deleted = SessionWriter::create(store, "deleted", 41).await;
    deleted.start("a task", 42).await;
    deleted.seal("done", 43).await.expect("sealed");
    deleted.say("gone", 44).await;
    deleted.delete(45).await.expect("deleted");
    let running = SessionWriter::create(store, "running", 46).await;
    running.open_run("hello", 47).await;
    let archived = SessionWriter::create(store, "archived", 48).await;
    archived.archive(49).await.expect("archived");
    let token = Token::new(TokenId(Ulid(1)), Some("laptop".to_owned()), Scope::Write, at(50));
    store.insert_token(&token.expect("a token"), digest("secret")).await.expect("kept");
    let other = Token::new(TokenId(Ulid(2)), None, Scope::Read, at(50)).expect("a token");
    store.insert_token(&other, digest("other")).await.expect("kept");
    assert_eq!(store.delete_token(other.id).await.expect("removed"), Some(other));
    store.see_schedule("daily", at(50)).await.expect("stored");
    store.set_last_tick("daily", at(51)).await.expect("stored");
}

/// A session that started a worker and has received its report.
async fn manager(store: &StoreHandle) {
    let manager = SessionWriter::create(store, "manager", 51).await;
    let worker = format!("worker:{}", Ulid(5));
    let parent = Parent { session: "manager".to_owned(), turn: None, tool_call: None };
    let new = New { origin: Origin::Subagent, parent: Some(parent), ..new_session(&worker, 52) };
    let done = SessionWriter::create_as(store, new).await;
    crate::leases::started_worker(&manager, &worker, 53).await;
    let head = done.exchange("do it", "done", 54).await;
    crate::leases::report(&manager, &done, head, 55).await.expect("reported");
}

pub(crate) async fn tell(store: &StoreHandle) {
    assert!(store.keep_alive(NODE, at(0), Span::hours(1)).await.expect("registered"));
    assert!(store.keep_alive(NODE, at(0), Span::hours(1)).await.expect("renewed"));
    conversation(store).await;
    work(store).await;
    waiting(store).await;
    others(store).await;
    manager(store).await;
    crate::outbox::story(store).await;
}

/// Asserts that there is a row of everything, through the methods that read it.
async fn has_a_row_of_everything(store: &StoreHandle) {
    let snapshot = Snapshot::of(store).await;
    let page = store.sessions(&SessionQuery::newest(99)).await.expect("sessions");
    assert_eq!(store.newest_sessions(99).await.expect("sessions"), page);
    let view = async |name: &str| SessionWriter::of(store, name).view().await;
    let (chat, work, waiting) = (view("chat").await, view("work").await, view("waiting").await);
    // sessions, turns, steps, commits, blobs
    let counts = snapshot.counts;
    assert_eq!((counts.sessions, snapshot.sessions.len()), (10, 10));
    assert!(counts.turns >= 7 && counts.steps >= 8, "{counts:?}");
    assert_eq!((counts.commits, counts.blobs, snapshot.commits.len()), (3, 1, 3));
    // session_history, events, tasks, deleted_sessions
    let moves = store.head_moves(chat.session.id, None, 99).await.expect("moves");
    assert_eq!(moves.len(), 6);
    assert!(snapshot.feed.iter().any(|told| told.3.name() == "session.deleted"));
    let tasks = store.tasks(work.session.id, true, None, 9).await.expect("tasks");
    assert_eq!(tasks.len(), 3);
    assert_eq!(store.task(tasks[2].id).await.expect("a read").as_ref(), Some(&tasks[2]));
    // compactions, pins, agent_sessions
    let head = chat.session.head.expect("a head");
    let context = store.context(chat.session.id, head, usize::MAX).await.expect("a context");
    assert!(context.turns.iter().any(|turn| turn.compaction.is_some()));
    assert_eq!((context.pins.len(), context.pinned.len(), chat.pins.len()), (1, 1, 1));
    assert_eq!(view("fork").await.pins.len(), 1, "a fork takes the pins over");
    let agent = store.agent_session(chat.session.id, PROVIDER, "here").await.expect("a read");
    assert!(agent.expect("an agent's session").clean);
    // an exchange asks for heads, turns of a path and tasks
    let heads = store.session_heads().await.expect("heads");
    let of_chat = heads.iter().find(|it| it.session == chat.session.id).expect("a head");
    assert_eq!(
        (heads.len(), of_chat.head, of_chat.turns),
        (10, Some(head), chat.session.turn_count)
    );
    let depths =
        store.turn_depths(vec![head, TurnId(ObjectId::from_bytes([9; 32]))]).await.expect("depths");
    assert_eq!(depths, [Some(of_chat.turns), None]);
    let query = PathQuery { head, depths: vec![of_chat.turns, of_chat.turns + 1] };
    assert_eq!(store.path_turns(vec![query]).await.expect("turns"), [vec![Some(head), None]]);
    let marks = store.tasks_of_sessions(vec![work.session.id]).await.expect("tasks").remove(0);
    assert_eq!((marks.len(), marks.iter().filter(|mark| !mark.ended).count()), (3, 1));
    let found = store.task_marks(vec![marks[0].task]).await.expect("tasks");
    assert_eq!(found, [Some(marks[0].clone())]);
    // refs: the project's head and the session's open task
    assert_eq!(work.project_head, Some(snapshot.commits[0].0));
    assert!(work.task.is_some() && work.prompt.is_some());
    // nodes, runs, inbox, drafts, suspensions
    let run = view("running").await.run.expect("an open run");
    assert!(store.run(run.id).await.expect("a read").is_some());
    let inbox = store.inbox(waiting.session.id).await.expect("an inbox");
    assert_eq!((inbox.len(), waiting.inbox.len()), (2, 2));
    assert_eq!((waiting.suspensions.len(), waiting.answered.len()), (1, 1));
    assert!(!waiting.drafts.is_empty());
    assert!(store.dead_nodes(at(2000)).await.expect("nodes").is_empty());
    assert!(store.is_alive(NODE, at(2000)).await.expect("a node"));
    assert!(store.keep_alive(NODE, at(2000), Span(0)).await.expect("renewed for no time"));
    assert_eq!(store.dead_nodes(at(2001)).await.expect("nodes"), [NODE]);
    assert!(!store.is_alive(NODE, at(2001)).await.expect("a node"));
    // outbox
    let statuses: Vec<_> = snapshot.outbox.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [Status::Pending, Status::Dead, Status::Delivered]);
    // schedules, tokens, idempotency
    assert_eq!(store.schedules().await.expect("schedules").len(), 1);
    assert_eq!(store.tokens().await.expect("tokens").len(), 1);
    assert!(store.token(digest("secret")).await.expect("a read").is_some());
    let other = Some(Once { key: key("another body"), answer: |_, (): &()| json!(null) });
    let refused = SessionWriter::of(store, "waiting")
        .write_once(Needs::NOTHING, 60, vec![], other, |_, _| Err(Refusal::NoTask))
        .await;
    let code = refused.expect_err("the key is known").code();
    assert_eq!(code, "idempotency_mismatch");
}

/// Calls the methods that the story and the snapshot have no use for.
async fn reads_of_the_rest(store: &StoreHandle) {
    let chat = SessionWriter::of(store, "chat");
    let head = chat.head().await;
    let fork = SessionWriter::of(store, "fork").head().await;
    let query = UsageQuery::by(ctx_core::usage::By::Session);
    assert!(!store.usage(query).await.expect("usage").is_empty());
    let keys = ["key".to_owned()];
    assert_eq!(store.histories("token", &keys, 9).await.expect("histories").len(), 1);
    assert!(!store.newest_tasks(9).await.expect("tasks").is_empty());
    store.relation_steps(9).await.expect("steps");
    let unused = OnceKey {
        scope: "unused".to_owned(),
        key: "k".to_owned(),
        request: ObjectId::of(&[b"r"]),
        max_age: None,
    };
    assert_eq!(store.answer_of(&unused, at(1)).await.expect("a read"), None);
    let scopes = store.usage_of_scopes(chat.id().await, i64::MIN).await.expect("usage");
    assert!(scopes.day.is_empty() && !scopes.session.is_empty());
    let shared = store.common_ancestor(head, fork).await.expect("a read").expect("an ancestor");
    assert!(store.turn_ids(head, 99).await.expect("turns").contains(&shared));
    assert!(!store.turns_from(head, 2, 9).await.expect("turns").is_empty());
    assert!(store.object(head.0).await.expect("a read").is_some());
    assert_eq!(store.resolve(&head.to_string(), 9).await.expect("resolved").len(), 1);
    assert_eq!(store.short_hashes(vec![head.0]).await.expect("short ids").len(), 1);
    let id = chat.id().await;
    let short = store.short_ids(UlidKind::Session, vec![id.0]).await.expect("short ids").remove(0);
    assert_eq!(store.sessions_named(&short, &short, 9).await.expect("a read"), [id]);
    assert_eq!(store.ids_beginning(UlidKind::Session, &short, 9).await.expect("a read"), [id.0]);
    let all = SessionQuery::newest(1);
    assert!(store.count_sessions(&all).await.expect("a count") > 1);
    assert!(store.count_commits(&CommitQuery::default()).await.expect("a count") > 0);
    assert!(!store.tasks_between(at(0), at(100_000), 9).await.expect("tasks").is_empty());
    assert_eq!(store.sessions_in("/nowhere", 9).await.expect("a list"), []);
    let unknown = Target::Label("nobody".to_owned());
    assert!(store.relabel_session(&unknown, "x", at(1)).await.is_err());
    store.rebuild_index().await.expect("rebuilt");
    assert!(store.lag().await.expect("a read") > 0);
    store.catch_up().await;
    assert_eq!(store.lag().await.expect("a read"), 0);
    assert_eq!(store.search("needle", 9).await.expect("searched").len(), 2);
    let page = store.search_from("needle", None, 1).await.expect("searched");
    assert_eq!((page.hits.len(), page.next.is_some()), (1, true));
    assert!(!store.unattended(&[NODE], 9).await.expect("sessions").is_empty());
    assert!(!store.idle_sessions(at(1000), 9).await.expect("sessions").is_empty());
    assert_eq!(store.idle_tasks(at(1000), 9).await.expect("sessions").len(), 1);
    store.check_writer().await.expect("this program may write");
    assert!(store.newest_feed_row().await.expect("a row") > FeedCursor::START);
    let waiting = SessionQuery { waiting: true, ..SessionQuery::newest(9) };
    assert_eq!(store.sessions(&waiting).await.expect("sessions").len(), 2);
}

pub(crate) async fn the_story_reads_the_same_from_every_handle_and_copy<B: Backend>(backend: &B) {
    // R231, R234
    let store = backend.open().await;
    tell(&store).await;
    has_a_row_of_everything(&store).await;
    let told = Snapshot::of(&store).await;
    assert_eq!(verify(&store).await.findings, []);
    let other = backend.open().await;
    assert_eq!(Snapshot::of(&other).await, told, "another handle");
    let copy = backend.copy(&store).await;
    let copied = copy.open().await;
    assert_eq!(Snapshot::of(&copied).await, told, "a copy");
    assert_eq!(verify(&copied).await.findings, []);
    store.catch_up().await;
    assert_eq!(Snapshot::of(&store).await, told, "indexing changes nothing");
    drop((store, other));
    let store = backend.open().await;
    assert_eq!(Snapshot::of(&store).await, told, "after reopening");

    // A copy and its original go separate ways.
    SessionWriter::of(&copied, "chat").say("only in the copy", 100).await;
    create(&copied, new_session("only in the copy", 101)).await.expect("created");
    assert_eq!(Snapshot::of(&store).await, told);
    store.purge_all(at(200)).await;
    store.gc(at(200), Span(0)).await.expect("collected");
    let repaired = store.verify(true, &|_, _| {}).await.expect("verified");
    assert_eq!(repaired.findings, []);
    let purged = Snapshot::of(&store).await;
    assert_eq!(purged.counts.turns + 1, told.counts.turns, "the turn of the deleted session");
    assert_eq!(purged.details, told.details, "nothing else is missing");
    assert_eq!(verify(&copied).await.findings, []);
}

pub(crate) async fn every_method_is_called_and_every_change_written<B: Backend>(backend: &B) {
    let store = backend.open().await;
    tell(&store).await;
    has_a_row_of_everything(&store).await;
    reads_of_the_rest(&store).await;
    identities::tell(&store).await;
    backend.copy(&store).await;
    verify(&store).await;
    store.gc(at(200), Span(0)).await.expect("collected");
    store.purge_all(at(200)).await;
    drop(store.listen(NODE).await);
    store.remove_node(NODE).await.expect("left");
    let picture = Named::from(Object::blob(text_of(9, 5000)));
    assert_eq!(store.object(picture.id()).await.expect("a read"), None);

    let (called, expected) = (backend.calls().methods.lock().expect("no panic").clone(), methods());
    assert!(expected.len() > 20, "the methods were found: {expected:?}");
    let missed: Vec<&String> = expected.difference(&called).collect();
    assert!(missed.is_empty(), "methods that the suite never calls: {missed:?}");
    let (written, expected) =
        (backend.calls().changes.lock().expect("no panic").clone(), changes());
    assert!(expected.len() > 15, "the kinds of changes were found: {expected:?}");
    let missed: Vec<&String> = expected.difference(&written).collect();
    assert!(missed.is_empty(), "changes that the suite never writes: {missed:?}");
}
