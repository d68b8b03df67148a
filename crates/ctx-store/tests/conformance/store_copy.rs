//! Copying a store into another one, from and to every database.

use ctx_core::decide::{self, Needs, TerminationCause};
use ctx_core::refusal::Refusal;
use ctx_core::time::Span;
use ctx_store::{CopyReport, Error, Once};
use serde_json::json;

use crate::Backend;
use crate::harness::{
    NODE, SessionWriter, Snapshot, StoreHandle, at, create, fork_at, image, message, new_session,
    text_of, verify,
};
use crate::postgres_backend::Postgres;
use crate::sqlite_backend::Sqlite;
use crate::{identities, story};

async fn copy(from: &StoreHandle, to: &StoreHandle) -> CopyReport {
    let report = from.copy_into(to, false).await.expect("copied");
    assert_eq!(verify(to).await.findings, []);
    report
}

async fn merge(from: &StoreHandle, to: &StoreHandle) -> CopyReport {
    let report = from.copy_into(to, true).await.expect("merged");
    assert_eq!(verify(to).await.findings, []);
    report
}

fn copied(report: &CopyReport, table: &str) -> u64 {
    report.tables.iter().find(|rows| rows.table == table).expect("a table").copied
}

/// Rows of everything, a picture and a large body included.
async fn everything<B: Backend>(backend: &B) -> StoreHandle {
    let store = backend.open().await;
    story::tell(&store).await;
    identities::tell(&store).await;
    store.add_alias("talk", &crate::harness::label("chat"), at(80)).await.expect("an alias");
    let chat = SessionWriter::of(&store, "chat");
    let large = String::from_utf8(text_of(5, 90_000)).expect("text");
    chat.say(&large, 81).await;
    let picture = ctx_core::object::Object::blob(text_of(7, 6000));
    let mut shown = message("look", 82);
    shown.content.push(image(&picture));
    let about = ctx_core::turn::About::at(at(82));
    let (ready, body) = ctx_core::turn::Ready::new(about, vec![shown]);
    chat.decide(82, vec![body, picture.into()], move |view, _| {
        decide::append_turn(view, view.session.head, &ready)
    })
    .await
    .expect("a turn with a picture");
    store
}

async fn same(copied: &StoreHandle, told: &Snapshot, source: &StoreHandle) {
    assert_eq!(Snapshot::of(copied).await, *told);
    assert_eq!(copied.project(), source.project());
    let hits = source.search("needle", 99).await.expect("searched");
    assert!(!hits.is_empty());
    assert_eq!(copied.search("needle", 99).await.expect("searched"), hits);
    for of in [source, copied] {
        assert_eq!(of.lag().await.expect("a read"), 0);
    }
    let entities = source.entities(None, 99).await.expect("entities");
    assert!(!entities.is_empty());
    assert_eq!(copied.entities(None, 99).await.expect("entities"), entities);
    for entity in &entities {
        let identities = source.identities(entity.id).await.expect("identities");
        assert_eq!(copied.identities(entity.id).await.expect("identities"), identities);
    }
    let aliases = source.aliases(None, None, 99).await.expect("aliases");
    assert!(aliases.len() >= 2);
    assert_eq!(copied.aliases(None, None, 99).await.expect("aliases"), aliases);
}

pub(crate) async fn a_copy_reads_the_same_in_every_database<B: Backend>(backend: &B) {
    // R231, R234
    let store = everything(backend).await;
    let mut told = Snapshot::of(&store).await;
    let source = told.clone();
    // A delivery that a process has begun is begun anew by a process of the target.
    told.outbox.iter_mut().for_each(|outgoing| outgoing.claimed_by = None);
    let sqlite = Sqlite::fresh().await;
    let postgres = Postgres::fresh().await;
    let back = B::fresh().await;
    let (sqlite, postgres, back) = (sqlite.open().await, postgres.open().await, back.open().await);
    let report = copy(&store, &sqlite).await;
    assert!(report.tables.iter().all(|rows| rows.skipped == 0), "{report:?}");
    let empty = report.tables.iter().filter(|rows| rows.copied == 0).map(|rows| rows.table);
    let empty: Vec<_> = empty.collect();
    assert!(empty.is_empty(), "the story has no row of {empty:?}");
    same(&sqlite, &told, &store).await;
    assert_eq!(copy(&sqlite, &postgres).await, report);
    same(&postgres, &told, &store).await;
    assert_eq!(copy(&postgres, &back).await, report);
    same(&back, &told, &store).await;
    assert_eq!(Snapshot::of(&store).await, source, "the source is not changed");
}

pub(crate) async fn a_copy_goes_on_where_the_source_was<B: Backend>(backend: &B) {
    let store = everything(backend).await;
    let (sqlite, postgres) = (Sqlite::fresh().await, Postgres::fresh().await);
    for target in [sqlite.open().await, postgres.open().await] {
        copy(&store, &target).await;
        // The key of a request is known, so it is not executed again.
        let other =
            Some(Once { key: story::key("another body"), answer: |_, (): &()| json!(null) });
        let refused = SessionWriter::of(&target, "waiting")
            .write_once(Needs::NOTHING, 60, vec![], other, |_, _| Err(Refusal::NoTask))
            .await;
        assert_eq!(refused.expect_err("a known key").code(), "idempotency_mismatch");
        // The open run belongs to a node that the target does not know.
        assert_eq!(target.dead_nodes(at(90)).await.expect("nodes"), [NODE]);
        let running = SessionWriter::of(&target, "running");
        assert!(target.unattended(&[NODE], 9).await.expect("sessions").len() > 1);
        let run = running.view().await.run.expect("an open run");
        running.cut_off(run.id, TerminationCause::ProcessLost, 91).await.expect("ended");
        assert!(running.view().await.run.is_none());
        // An open task goes on, and a new one gets its commit.
        let work = SessionWriter::of(&target, "work");
        assert!(work.view().await.task.is_some());
        let deleted = target.counts().await;
        SessionWriter::of(&target, "chat").say("only in the copy", 92).await;
        create(&target, new_session("only in the copy", 93)).await.expect("created");
        let fresh = SessionWriter::of(&target, "only in the copy");
        fresh.start("a task", 94).await;
        fresh.seal("done", 95).await.expect("sealed");
        target.purge_all(at(200)).await;
        assert_eq!(target.counts().await.turns, deleted.turns, "one purged, one added");
        target.gc(at(200), Span(0)).await.expect("collected");
        assert_eq!(verify(&target).await.findings, []);
    }
}

pub(crate) async fn a_target_with_rows_is_refused_unless_it_is_merged<B: Backend>(backend: &B) {
    let store = backend.open().await;
    SessionWriter::create(&store, "main", 0).await.say("hello", 1).await;
    let target = B::fresh().await;
    let target = target.open().await;
    target.see_schedule("daily", at(0)).await.expect("a row");
    let before = Snapshot::of(&target).await;
    let refused = store.copy_into(&target, false).await;
    assert!(matches!(refused, Err(Error::NotEmpty)), "{refused:?}");
    assert_eq!(Snapshot::of(&target).await, before);
    assert_eq!(copied(&merge(&store, &target).await, "sessions"), 1);
    // An empty store is a copy of an empty one.
    let (empty, other) = (B::fresh().await, B::fresh().await);
    copy(&empty.open().await, &other.open().await).await;
}

pub(crate) async fn a_second_merge_adds_nothing<B: Backend>(backend: &B) {
    let store = everything(backend).await;
    let (sqlite, postgres) = (Sqlite::fresh().await, Postgres::fresh().await);
    for target in [sqlite.open().await, postgres.open().await] {
        merge(&store, &target).await;
        let once = Snapshot::of(&target).await;
        let again = merge(&store, &target).await;
        assert!(again.tables.iter().all(|rows| rows.copied == 0), "{again:?}");
        assert_eq!(again.renamed, []);
        assert_eq!(Snapshot::of(&target).await, once);
    }
}

pub(crate) async fn a_merge_adds_what_is_missing_and_changes_nothing<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let shared = SessionWriter::create(&store, "shared", 0).await;
    let first = shared.say("one", 1).await;
    let second = shared.say("two", 2).await;
    let (sqlite, postgres) = (Sqlite::fresh().await, Postgres::fresh().await);
    let targets = [sqlite.open().await, postgres.open().await];
    for target in &targets {
        copy(&store, target).await;
        SessionWriter::create(target, "own", 3).await.say("of the target", 3).await;
    }
    // Both go on, and the source is forked, from a turn that the targets have and from one that
    // they have not.
    let third = shared.say("three", 4).await;
    create(&store, fork_at(first, 1, "early", 5)).await.expect("forked");
    SessionWriter::of(&store, "early").say("an early fork", 6).await;
    create(&store, fork_at(third, 3, "late", 7)).await.expect("forked");
    SessionWriter::of(&store, "late").say("a late fork", 8).await;
    shared.say("four", 9).await;
    for target in &targets {
        let told = Snapshot::of(target).await;
        let report = merge(&store, target).await;
        assert_eq!((copied(&report, "sessions"), copied(&report, "turns")), (2, 3));
        assert_eq!(report.renamed, []);
        let turns = |label: &'static str| async move {
            let head = SessionWriter::of(target, label).head().await;
            target.turn_ids(head, 9).await.expect("turns")
        };
        assert_eq!(turns("shared").await, [second, first], "what the target has stays");
        assert_eq!(turns("early").await[1..], [first]);
        assert_eq!(turns("late").await[1..], [third, second, first]);
        assert_eq!(turns("own").await.len(), 1);
        let now = Snapshot::of(target).await;
        for details in &told.details {
            let kept = now.details.iter().find(|now| now.view == details.view).expect("it stays");
            assert_eq!((&kept.turns, &kept.feed), (&details.turns, &details.feed));
        }
        // A turn that the fork and the session share is kept when one of them is deleted.
        SessionWriter::of(target, "shared").delete(10).await.expect("deleted");
        target.purge_all(at(200)).await;
        assert_eq!(turns("late").await.len(), 4);
        assert_eq!(verify(target).await.findings, []);
        let again = merge(&store, target).await;
        assert_eq!(copied(&again, "sessions"), 0, "a deleted session does not return");
    }
}

pub(crate) async fn a_label_in_use_is_not_taken_over<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    main.say("of the source", 1).await;
    store.add_alias("alias", &crate::harness::label("main"), at(2)).await.expect("added");
    SessionWriter::create(&store, "taken by an alias", 3).await;
    let target = B::fresh().await;
    let target = target.open().await;
    SessionWriter::create(&target, "main", 0).await.say("of the target", 1).await;
    let named = crate::harness::label("main");
    target.add_alias("taken by an alias", &named, at(2)).await.expect("added");
    let report = merge(&store, &target).await;
    let renamed: Vec<_> = report.renamed.iter().map(|renamed| &*renamed.from).collect();
    assert_eq!(renamed, ["main", "taken by an alias"]);
    let copy = SessionWriter::of(&target, &report.renamed[0].to);
    assert_eq!(copy.session().await.id, main.session().await.id);
    assert_eq!(copy.head().await, main.head().await);
    let alias = SessionWriter::of(&target, "alias").session().await;
    assert_eq!(alias.id, main.session().await.id, "the alias names the copied session");
    assert!(merge(&store, &target).await.renamed.is_empty());
}

pub(crate) async fn the_history_of_a_project_does_not_branch<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let seal = async |store: &StoreHandle, label: &str, ms: i64| {
        let work = SessionWriter::create(store, label, ms).await;
        work.start("a task", ms + 1).await;
        work.seal("done", ms + 2).await.expect("sealed");
    };
    seal(&store, "first", 0).await;
    let target = B::fresh().await;
    let target = target.open().await;
    copy(&store, &target).await;
    seal(&store, "second", 10).await;
    assert_eq!(copied(&merge(&store, &target).await, "commits"), 1, "it continues");
    let head = SessionWriter::of(&store, "second").view().await.project_head;
    assert_eq!(SessionWriter::of(&target, "second").view().await.project_head, head);
    // Both seal a task: the commit of the other one is not a continuation.
    seal(&store, "third", 20).await;
    seal(&target, "own", 20).await;
    let head = SessionWriter::of(&target, "own").view().await.project_head;
    let report = merge(&store, &target).await;
    assert_eq!((copied(&report, "tasks"), copied(&report, "commits")), (1, 0));
    assert_eq!(SessionWriter::of(&target, "third").view().await.project_head, head);
    let third = SessionWriter::of(&target, "third").session().await.id;
    let tasks = target.tasks(third, true, None, 9).await.expect("tasks");
    assert!(tasks[0].ended_at.is_some() && tasks[0].commit.is_none(), "{tasks:?}");
}

pub(crate) async fn a_store_in_use_is_copied_as_it_was_at_one_moment<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let sessions = ["a", "b", "c"];
    for label in sessions {
        SessionWriter::create(&store, label, 0).await;
    }
    let (sqlite, postgres) = (Sqlite::fresh().await, Postgres::fresh().await);
    let targets = [sqlite.open().await, postgres.open().await];
    let mut writers = tokio::task::JoinSet::new();
    for label in sessions {
        let writer = SessionWriter::of(&store, label);
        writers.spawn(async move {
            for n in 1..60 {
                writer.start("a task", n * 10).await;
                writer.exchange("hello", "answer", n * 10 + 1).await;
                writer.seal("done", n * 10 + 2).await.expect("sealed");
            }
        });
    }
    for target in &targets {
        copy(&store, target).await;
    }
    writers.join_all().await;
}
