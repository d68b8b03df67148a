//! The feed: every event once, in one order, however many writers there are.

use std::collections::{HashMap, HashSet};

use ctx_core::id::SessionId;
use ctx_store::{FeedEvent, PAGE_MAX};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{FeedCursor, SessionWriter, at, feed_after, note, whole_feed};

/// The events of each session in the order of a feed.
fn by_session(events: &[FeedEvent]) -> HashMap<SessionId, Vec<FeedEvent>> {
    let mut sessions: HashMap<SessionId, Vec<FeedEvent>> = HashMap::new();
    for event in events {
        sessions.entry(event.session).or_default().push(event.clone());
    }
    sessions
}

pub(crate) async fn an_empty_feed_has_no_events(backend: &impl Backend) {
    let store = backend.open().await;
    let mark = store.newest_feed_row().await.expect("a mark");
    assert!(store.feed_of_all(FeedCursor::START, 9).await.expect("a page").is_empty());
    assert!(store.feed_of_all(mark, 9).await.expect("a page").is_empty());
    let unknown = SessionId(Ulid::new());
    assert!(store.feed(unknown, 0, 9).await.expect("no such session").is_empty());
}

pub(crate) async fn a_decision_names_its_place_in_the_feed(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let before = store.newest_feed_row().await.expect("a mark");
    let decision = writer.observe(vec![], vec![], 1).await;
    assert!(decision.is_err(), "no task is open");
    assert_eq!(store.newest_feed_row().await.expect("a mark"), before, "a refusal has no events");
    writer.start("a task", 1).await;
    let sealed = writer.seal("done", 2).await.expect("sealed");
    let cursor = FeedCursor::of(&sealed).expect("a place");
    assert_eq!(store.newest_feed_row().await.expect("a mark"), cursor);
    assert_eq!(sealed.seq, writer.session().await.seq);
    assert!(store.feed_of_all(cursor, 9).await.expect("a page").is_empty());
    writer.start("another", 3).await;
    let after = feed_after(&store, cursor, 9).await;
    assert_eq!(after.len(), 1);
    assert_eq!((after[0].at, Some(after[0].event.name())), (at(3), Some("task.updated")));
}

pub(crate) async fn feeds_are_paged_from_any_event(backend: &impl Backend) {
    let store = backend.open().await;
    let writers = [
        SessionWriter::create(&store, "one", 0).await,
        SessionWriter::create(&store, "two", 0).await,
    ];
    for n in 0..12 {
        let writer = &writers[n as usize % 2];
        writer.start("a task", 1 + n).await;
        writer.observe(vec![note("one")], vec![], 1 + n).await.expect("observed");
        writer.seal("done", 1 + n).await.expect("sealed");
    }
    let whole = whole_feed(&store).await;
    for limit in [1, 2, 7, PAGE_MAX] {
        assert_eq!(feed_after(&store, FeedCursor::START, limit).await, whole, "pages of {limit}");
    }
    let middle = FeedCursor::after(&whole[whole.len() / 2]);
    let rest: Vec<FeedEvent> =
        whole.iter().filter(|event| FeedCursor::after(event) > middle).cloned().collect();
    assert_eq!(feed_after(&store, middle, 3).await, rest);
    for writer in &writers {
        let id = writer.id().await;
        let own: Vec<FeedEvent> =
            whole.iter().filter(|event| event.session == id).cloned().collect();
        for limit in [1, 2, PAGE_MAX] {
            let (mut found, mut after) = (Vec::new(), 0);
            loop {
                let page = store.feed(id, after, limit).await.expect("a page");
                let Some(last) = page.last() else { break };
                after = last.seq;
                found.extend(page);
            }
            assert_eq!(found, own, "pages of {limit}");
        }
        for after in 0..own.len() as u64 {
            let page = store.feed(id, after, PAGE_MAX).await.expect("a page");
            assert_eq!(page, own[after as usize..], "after {after}");
        }
    }
}

pub(crate) async fn eight_concurrent_writers_lose_no_event(backend: &impl Backend) {
    const WRITERS: usize = 8;
    const ROUNDS: i64 = 20;
    let (one, two) = (backend.open().await, backend.open().await);
    let reader = backend.open().await;
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        let store = if n % 2 == 0 { one.clone() } else { two.clone() };
        writers.spawn(async move {
            let writer = SessionWriter::create(&store, &format!("session {n}"), 0).await;
            for round in 0..ROUNDS {
                writer.start("a task", 1 + round).await;
                writer.observe(vec![note("one")], vec![], 1 + round).await.expect("observed");
                writer.say("hello", 1 + round).await;
                writer.seal("done", 1 + round).await.expect("sealed");
            }
        });
    }
    // A follower that reads while they write gets what a later reader gets.
    let (mut followed, mut cursor) = (Vec::new(), FeedCursor::START);
    let mut running = true;
    while running {
        running = !writers.is_empty();
        let page = feed_after(&reader, cursor, 16).await;
        cursor = page.last().map_or(cursor, FeedCursor::after);
        followed.extend(page);
        while let Some(joined) = writers.try_join_next() {
            joined.expect("no panic");
        }
    }
    let whole = whole_feed(&one).await;
    assert_eq!(followed, whole, "nothing is skipped, repeated or reordered");
    let sessions = by_session(&whole);
    assert_eq!(sessions.len(), WRITERS);
    for (id, events) in sessions {
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>(), "without gaps, in order");
        assert_eq!(reader.feed(id, 0, usize::MAX).await.expect("a feed"), events);
        let turns: HashSet<String> = events
            .iter()
            .filter(|event| event.event.name() == "turn.committed")
            .map(|event| event.event.json()["turn"].to_string())
            .collect();
        assert_eq!(turns.len(), ROUNDS as usize, "each turn under its own name");
    }
}
