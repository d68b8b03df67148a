//! Reads of ids that the store does not know: `NotFound` where a list or a walk starts from the id,
//! `None` where a single row is asked for.

use ctx_core::decide::Needs;
use ctx_core::id::{CommitId, ObjectId, RunId, SessionId, TaskId, TokenId, TurnId};
use ctx_core::time::Timestamp;
use ctx_core::token::digest;
use ctx_store::{CommitQuery, Error, SessionQuery, Target};
use ulid::Ulid;

use crate::Backend;
use crate::harness::{FeedCursor, NODE, SessionWriter, StoreHandle, at, verify};

fn not_found<T: std::fmt::Debug>(wanted: &str, read: Result<T, Error>) {
    assert!(matches!(read, Err(Error::NotFound { what, .. }) if what == wanted), "{read:?}");
}

const SESSION: SessionId = SessionId(Ulid(404));

fn turn() -> TurnId {
    TurnId(ObjectId::of(&[b"unknown"]))
}

pub(crate) async fn lists_of_unknown_ids_are_not_found(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let known = writer.say("hello", 1).await;
    let id = writer.id().await;
    not_found("session", store.tasks(SESSION, true, None, 9).await);
    not_found("session", store.head_moves(SESSION, None, 9).await);
    not_found("session", store.tree(SESSION, 9).await);
    not_found("session", store.files_written(SESSION, at(0), 9).await);
    not_found("session", store.context(SESSION, known, 9).await);
    not_found("turn", store.context(id, turn(), 9).await);
    not_found("turn", store.turns(turn(), 9).await);
    not_found("turn", store.turns_from(turn(), 1, 9).await);
    not_found("turn", store.common_ancestor(known, turn()).await);
    not_found("turn", store.common_ancestor(turn(), known).await);
    let before = Some(CommitId(turn().0));
    let query = CommitQuery { before, limit: 9, ..CommitQuery::default() };
    not_found("commit", store.commits(&query).await);
    for change in [writer.pin(turn(), 1, 2).await, writer.rewind(turn(), 2).await] {
        not_found("turn", change);
    }
}

pub(crate) async fn single_reads_of_unknown_ids_return_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    assert_eq!(store.view(&Target::Id(SESSION), Needs::CLOSE).await.expect("a read"), None);
    assert_eq!(store.object(turn().0).await.expect("a read"), None);
    assert_eq!(store.run(RunId(Ulid(404))).await.expect("a read"), None);
    assert_eq!(store.task(TaskId(Ulid(404))).await.expect("a read"), None);
    assert!(store.steps(TaskId(Ulid(404)), 0, 9).await.expect("a read").is_empty());
    assert!(store.feed(SESSION, 0, 9).await.expect("a read").is_empty());
    assert_eq!(store.token(digest("unknown")).await.expect("a read"), None);
    assert_eq!(store.delete_token(TokenId(Ulid(404))).await.expect("a read"), None);
    store.remove_node(NODE).await.expect("leaving does no harm");
}

async fn is_empty(store: &StoreHandle) {
    let all = SessionQuery::newest(9);
    assert!(store.sessions(&all).await.expect("a read").is_empty());
    let hidden = store.hidden().await.expect("a read");
    assert_eq!((hidden.archived, hidden.error), (0, 0));
    assert!(store.unattended(&[NODE], 9).await.expect("a read").is_empty());
    assert!(store.idle_sessions(at(1000), 9).await.expect("a read").is_empty());
    assert!(store.idle_tasks(at(1000), 9).await.expect("a read").is_empty());
    assert!(store.feed_of_all(FeedCursor::START, 9).await.expect("a read").is_empty());
    assert!(store.dead_nodes(at(1000)).await.expect("a read").is_empty());
    assert!(store.resolve("", 9).await.expect("a read").is_empty());
    let commits = CommitQuery { limit: 9, ..CommitQuery::default() };
    assert!(store.commits(&commits).await.expect("a read").is_empty());
    let always = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    assert!(store.narrative(always.0, always.1, 9).await.expect("a read").is_empty());
    assert!(store.search("anything", 9).await.expect("a read").is_empty());
    assert_eq!(store.search_from("anything", None, 9).await.expect("a read").next, None);
    assert!(store.tokens().await.expect("a read").is_empty());
}

pub(crate) async fn every_list_of_an_empty_store_is_empty<B: Backend>(backend: &B) {
    let store = backend.open().await;
    is_empty(&store).await;
    store.catch_up().await;
    is_empty(&store).await;
    assert!(!store.purge(at(1000)).await.expect("purged"));
    let collected = store.gc(at(1000), ctx_core::time::Span(0)).await.expect("collected");
    assert_eq!(collected, ctx_store::GcReport::default());
    assert_eq!(verify(&store).await, ctx_store::VerifyReport::default());
    is_empty(&backend.copy(&store).await.open().await).await;
}
