//! Deletion: a deleted session is gone at once, its turns after a purge;
//! forks keep the turns that they share.

use ctx_core::compaction::By;
use ctx_core::decide::{self, Change, Checkpoint, Decision};
use ctx_core::id::TurnId;
use ctx_core::object::{Named, Object};
use ctx_core::refusal::Refusal;
use ctx_core::time::Span;
use ctx_core::turn::{About, Ready};
use ctx_store::{CommitQuery, Error, SessionQuery};

use crate::Backend;
use crate::harness::{
    SessionWriter, StoreHandle, assistant_text, at, awaited_calls, compaction, create, feed_after,
    fork_at, image, message, new_session, submission_in, text_of, turn, verify, whole_feed,
};

/// A turn that shows a picture.
async fn show(writer: &SessionWriter, picture: &Object, ms: i64) -> TurnId {
    let mut shown = message("look", ms);
    shown.content.push(image(picture));
    let (ready, body) = Ready::new(About::at(at(ms)), vec![shown]);
    let objects = vec![Named::from(picture.clone()), body];
    let added = writer
        .decide(ms, objects, move |view, _| decide::append_turn(view, view.session.head, &ready))
        .await;
    added.expect("appended").reply
}

fn not_found<T: std::fmt::Debug>(read: Result<T, Error>) {
    assert!(matches!(read, Err(Error::NotFound { .. })), "{read:?}");
}

pub(crate) async fn a_deleted_session_is_gone_at_once(backend: &impl Backend) {
    // R244
    let (store, other) = (backend.open().await, backend.open().await);
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let commit = writer.seal("done", 2).await.expect("sealed").reply.id;
    let open = writer.start("another task", 3).await;
    writer.exchange("needle", "answer", 4).await;
    let opened = writer.open_run("more", 5).await;
    writer.send(submission_in(ctx_core::inbox::Mode::Queue, "waits"), 6).await;
    let id = writer.id().await;
    let cursor = store.newest_feed_row().await.expect("a mark");
    let deleted = writer.delete(7).await.expect("deleted");
    assert_eq!(deleted.session, id);

    for store in [&store, &other] {
        assert_eq!(writer.through(store).try_view().await, None);
        assert!(store.sessions(&SessionQuery::newest(9)).await.expect("sessions").is_empty());
        assert_eq!(store.run(opened.run.id).await.expect("a read"), None);
        assert_eq!(store.counts().await.sessions, 0);
        not_found(store.tasks(id, true, None, 9).await);
        not_found(store.head_moves(id, None, 9).await);
        not_found(store.tree(id, 9).await);
        not_found(store.files_written(id, at(0), 9).await);
        assert!(store.feed(id, 0, 9).await.expect("a feed").is_empty());
        assert!(store.unattended(&[], 9).await.expect("sessions").is_empty());
        assert!(store.idle_tasks(at(1000), 9).await.expect("sessions").is_empty());
        let told = feed_after(store, cursor, 9).await;
        assert_eq!((told.len(), told[0].session), (1, id));
        assert_eq!(told[0].event.name(), "session.deleted");
        assert_eq!(told[0].event.json()["label"], "main");
        // Commits and their tasks survive.
        let all = CommitQuery { limit: 9, ..CommitQuery::default() };
        let commits = store.commits(&all).await.expect("commits");
        assert_eq!(commits.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [commit]);
        for task in [task, open] {
            let task = store.task(task).await.expect("a read").expect("a task");
            assert!(task.ended_at.is_some() && task.session == id);
        }
        store.catch_up().await;
        let hits = store.search("needle", 9).await.expect("searched");
        assert_eq!(hits, [], "hidden before the purge");
    }
    let late = writer.checkpoint(&opened.run, Checkpoint::default(), vec![], 8).await;
    assert!(matches!(late, Err(Error::Refused(Refusal::NoSession))), "{late:?}");
    create(&store, new_session("main", 9)).await.expect("the label is free again");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_session_is_deleted_from_any_state(backend: &impl Backend) {
    // R244
    let store = backend.open().await;
    for state in ["idle", "running", "suspended", "archived"] {
        let writer = SessionWriter::create(&store, state, 0).await;
        writer.exchange("hello", "answer", 1).await;
        if matches!(state, "running" | "suspended") {
            let opened = writer.open_run("more", 2).await;
            let new = Checkpoint { entries: assistant_text("half", 3), ..Checkpoint::default() };
            writer.checkpoint(&opened.run, new, vec![], 3).await.expect("a checkpoint");
            if state == "suspended" {
                let awaited = vec![awaited_calls(&["c"])];
                writer.suspend(&opened.run, vec![], awaited, 4).await.expect("suspended");
            }
        }
        if state == "archived" {
            writer.archive(5).await.expect("archived");
        }
        writer.delete(6).await.expect("deleted");
        assert_eq!(writer.try_view().await, None, "{state}");
    }
    store.purge_all(at(1000)).await;
    let counts = store.counts().await;
    assert_eq!((counts.sessions, counts.turns), (0, 0));
    let hidden = store.hidden().await.expect("hidden sessions");
    assert_eq!((hidden.archived, hidden.error), (0, 0));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn forks_keep_the_turns_they_share(backend: &impl Backend) {
    // R181, R182
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let mut turns = Vec::new();
    for n in 0..6 {
        turns.push(main.say(&format!("turn {n}"), 1 + n).await);
    }
    let fork = SessionWriter::create_as(&store, fork_at(turns[2], 3, "fork", 10)).await;
    let own = fork.say("only here", 11).await;
    main.delete(12).await.expect("deleted");
    store.purge_all(at(1000)).await;
    let kept = store.turns(own, 99).await.expect("turns");
    let ids: Vec<TurnId> = kept.iter().map(|turn| turn.id).collect();
    assert_eq!(ids, [own, turns[2], turns[1], turns[0]]);
    assert!(kept.iter().all(|turn| turn.body.is_some()));
    for gone in &turns[3..] {
        not_found(store.turns(*gone, 1).await);
        assert_eq!(store.object(gone.0).await.expect("a read"), None);
    }
    assert_eq!(store.counts().await.turns, 4);
    fork.delete(13).await.expect("deleted");
    store.purge_all(at(1000)).await;
    assert_eq!(store.counts().await.turns, 0);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn search_hides_deleted_turns_unless_a_session_shares_them(
    backend: &impl Backend,
) {
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let mut turns = Vec::new();
    for n in 0..6 {
        turns.push(main.say(&format!("needle {n}"), 1 + n).await);
    }
    let fork = SessionWriter::create_as(&store, fork_at(turns[2], 3, "fork", 10)).await;
    // An equal turn in two sessions: one of them is deleted, the one that stored it last.
    let (ready, body) = turn("needle twice", 11);
    let twice = ready.with_parent(None).id;
    for name in ["kept", "deleted"] {
        let (ready, body) = (ready.clone(), body.clone());
        let writer = SessionWriter::create(&store, name, 11).await;
        writer
            .decide(11, vec![body], move |view, _| decide::append_turn(view, None, &ready))
            .await
            .expect("appended");
    }
    let found = async || -> Vec<TurnId> {
        let hits = store.search("needle", 99).await.expect("searched");
        hits.into_iter().filter_map(|hit| hit.turn).collect()
    };
    store.catch_up().await;
    assert_eq!(found().await.len(), 7);
    main.delete(12).await.expect("deleted");
    SessionWriter::of(&store, "deleted").delete(12).await.expect("deleted");
    let expected = [twice, turns[2], turns[1], turns[0]];
    assert_eq!(found().await, expected, "before the purge");
    store.purge_all(at(1000)).await;
    assert_eq!(found().await, expected, "after the purge");
    fork.delete(13).await.expect("deleted");
    assert_eq!(found().await, [twice]);
}

pub(crate) async fn turns_that_were_rewound_go_with_their_session(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let first = writer.say("first", 1).await;
    let second = writer.say("second", 2).await;
    writer.rewind(first, 3).await.expect("rewound");
    writer.say("another second", 4).await;
    writer.pin(first, 5, 5).await.expect("pinned");
    let opened = writer.open_run("third", 6).await;
    let head = writer.head().await;
    let row = compaction(Some(first), Some(head), By::Ctx);
    writer.compact(&opened, Some(head), row, 7).await.expect("compacted");
    writer.delete(8).await.expect("deleted");
    store.purge_all(at(1000)).await;
    assert_eq!(store.counts().await.turns, 0, "the abandoned branch too");
    not_found(store.turns(second, 1).await);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_turn_that_two_sessions_wrote_survives_one_of_them(backend: &impl Backend) {
    let store = backend.open().await;
    let (ready, body) = turn("imported twice", 1);
    let id = ready.with_parent(None).id;
    for name in ["one", "two"] {
        let (ready, body) = (ready.clone(), body.clone());
        let writer = SessionWriter::create(&store, name, 0).await;
        writer
            .decide(1, vec![body], move |view, _| decide::append_turn(view, None, &ready))
            .await
            .expect("appended");
    }
    SessionWriter::of(&store, "one").delete(2).await.expect("deleted");
    store.purge_all(at(1000)).await;
    let two = SessionWriter::of(&store, "two");
    assert_eq!(two.session().await.head, Some(id));
    assert!(store.turns(id, 1).await.expect("turns")[0].body.is_some());
    assert!(store.object(id.0).await.expect("a read").is_some());
    assert_eq!(verify(&store).await.findings, []);
}

/// Adds a chain of equal turns in one transaction.
async fn long_chain(writer: &SessionWriter, count: u64, ms: i64) -> TurnId {
    let (ready, body) = turn("the same words each time", ms);
    let added = writer.decide(ms, vec![body], move |view, _| {
        let mut head = view.session.head;
        let changes = (0..count).map(|_| {
            let record = ready.with_parent(head);
            head = Some(record.id);
            Change::AppendTurn(Box::new(record))
        });
        Ok(Decision { changes: changes.collect(), ..Decision::unchanged(()) })
    });
    added.await.expect("appended");
    writer.head().await
}

pub(crate) async fn a_long_history_is_purged_in_several_batches(backend: &impl Backend) {
    const TURNS: u64 = 2500;
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let head = long_chain(&writer, TURNS, 1).await;
    let kept = SessionWriter::create(&store, "kept", 2).await.say("kept", 3).await;
    writer.delete(4).await.expect("deleted");
    let (mut batches, mut before) = (1, store.counts().await.turns);
    assert_eq!(before, TURNS + 1);
    while store.purge(at(1000)).await.expect("purged") {
        let now = store.counts().await.turns;
        assert!(now <= before);
        (batches, before) = (batches + 1, now);
        assert_eq!(verify(&store).await.findings, [], "also between two batches");
    }
    assert!(batches > 1);
    assert_eq!(store.counts().await.turns, 1);
    not_found(store.turns(head, 1).await);
    assert_eq!(store.turns(kept, 9).await.expect("turns").len(), 1);
    assert!(!store.purge(at(1000)).await.expect("purged"), "nothing is left to do");
}

/// A store in which one session of two, each with a picture of its own, is deleted and purged.
async fn with_an_unreferenced_picture(store: &StoreHandle) -> (Object, Object) {
    let (gone, kept) = (Object::blob(text_of(1, 6000)), Object::blob(text_of(2, 6000)));
    let deleted = SessionWriter::create(store, "gone", 0).await;
    show(&deleted, &gone, 1000).await;
    show(&SessionWriter::create(store, "kept", 0).await, &kept, 1000).await;
    deleted.delete(1001).await.expect("deleted");
    store.purge_all(at(1002)).await;
    (gone, kept)
}

pub(crate) async fn gc_removes_unreferenced_blobs_after_the_grace(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    let (gone, kept) = with_an_unreferenced_picture(&store).await;
    let hour = Span::hours(1);
    let due = 1000 + hour.0 as i64;
    assert_eq!(
        store.gc(at(due), hour).await.expect("collected").blobs_removed,
        0,
        "a blob that is exactly as old as the grace stays"
    );
    assert!(store.object(gone.id()).await.expect("a read").is_some());
    let report = store.gc(at(due + 1), hour).await.expect("collected");
    assert_eq!((report.blobs_removed, report.blobs_kept), (1, 1));
    assert!(report.bytes_removed > 0);
    for store in [&store, &other] {
        assert_eq!(store.object(gone.id()).await.expect("a read"), None);
        assert_eq!(store.object(kept.id()).await.expect("a read").as_ref(), Some(&kept));
        assert_eq!(store.counts().await.blobs, 1);
    }
    let again = store.gc(at(due + 1), hour).await.expect("collected");
    assert_eq!((again.blobs_removed, again.bytes_removed), (0, 0));
    // The same content can be stored again.
    show(&SessionWriter::create(&other, "again", 2000).await, &gone, 2001).await;
    assert_eq!(store.object(gone.id()).await.expect("a read"), Some(gone));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn the_feed_keeps_the_events_of_deleted_sessions(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let turn = writer.exchange("hello", "answer", 1).await;
    let before = whole_feed(&store).await;
    assert!(before.iter().any(|told| told.event.json()["turn"] == turn.to_string()));
    writer.delete(2).await.expect("deleted");
    store.purge_all(at(1000)).await;
    let after = whole_feed(&store).await;
    assert_eq!(after.len(), before.len() + 1);
    for (told, was) in after.iter().zip(&before) {
        assert_eq!((told.session, told.seq, told.at), (was.session, was.seq, was.at));
        assert_eq!(told.event.name(), was.event.name());
    }
}
