//! Everything that the reading methods return about a store, for comparison.
//!
//! Cursors are left out: they may differ between a store and its copy.

use ctx_core::commit::Commit;
use ctx_core::decide::{Event, SessionView};
use ctx_core::id::{CommitId, SessionId, TurnId};
use ctx_core::inbox::Item;
use ctx_core::outbox::Outgoing;
use ctx_core::schedule::ScheduleState;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_core::token::Token;
use ctx_store::{
    CommitQuery, Context, FeedEvent, Hidden, NarrativeNote, OutboxQuery, PAGE_MAX, SessionQuery,
    StoredStep, StoredTurn, Target, TreeTurn,
};

use super::{Counts, EVERYTHING, FeedCursor, StoreHandle};

/// An event without its position in the feed.
pub(crate) type Told = (SessionId, u64, Timestamp, Event);

/// A store as its reading methods show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) counts: Counts,
    pub(crate) hidden: Hidden,
    pub(crate) sessions: Vec<SessionView>,
    pub(crate) details: Vec<Details>,
    pub(crate) feed: Vec<Told>,
    pub(crate) commits: Vec<(CommitId, Commit)>,
    pub(crate) narrative: Vec<NarrativeNote>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) outbox: Vec<Outgoing>,
    pub(crate) schedules: Vec<(String, ScheduleState)>,
}

/// What the reading methods show of one session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Details {
    pub(crate) view: SessionView,
    pub(crate) turns: Vec<StoredTurn>,
    pub(crate) context: Option<Context>,
    pub(crate) moves: Vec<(Option<TurnId>, Timestamp)>,
    pub(crate) tree: Vec<TreeTurn>,
    pub(crate) inbox: Vec<Item>,
    pub(crate) tasks: Vec<(Task, Vec<StoredStep>)>,
    pub(crate) files: Vec<String>,
    pub(crate) feed: Vec<Told>,
}

impl Snapshot {
    pub(crate) async fn of(store: &StoreHandle) -> Self {
        let query = SessionQuery::newest(PAGE_MAX);
        let sessions = store.session_views(&query).await.expect("sessions");
        let mut details = Vec::new();
        for session in &sessions {
            details.push(Details::of(store, session.session.id).await);
        }
        let outbox = OutboxQuery { limit: PAGE_MAX, ..OutboxQuery::default() };
        let commits = CommitQuery { limit: PAGE_MAX, ..CommitQuery::default() };
        Self {
            counts: store.counts().await,
            hidden: store.hidden().await.expect("hidden sessions"),
            details,
            feed: whole_feed(store).await.iter().map(told).collect(),
            commits: store.commits(&commits).await.expect("commits"),
            narrative: store
                .narrative(Timestamp(0), Timestamp(i64::MAX), PAGE_MAX)
                .await
                .expect("a narrative"),
            tokens: store.tokens().await.expect("tokens"),
            outbox: store
                .outbox(&outbox)
                .await
                .expect("an outbox")
                .into_iter()
                .map(|stored| stored.outgoing)
                .collect(),
            schedules: store.schedules().await.expect("schedules"),
            sessions,
        }
    }
}

impl Details {
    async fn of(store: &StoreHandle, id: SessionId) -> Self {
        let view = store.view(&Target::Id(id), EVERYTHING).await.expect("a view");
        let view = view.expect("a listed session");
        let (mut turns, mut context) = (Vec::new(), None);
        if let Some(head) = view.session.head {
            turns = store.turns(head, PAGE_MAX).await.expect("turns");
            context = Some(store.context(id, head, usize::MAX).await.expect("a context"));
        }
        let moves = store.head_moves(id, None, PAGE_MAX).await.expect("moves");
        let mut tasks = Vec::new();
        for task in store.tasks(id, true, None, PAGE_MAX).await.expect("tasks") {
            let steps = store.steps(task.id, 0, PAGE_MAX).await.expect("steps");
            tasks.push((task, steps));
        }
        Self {
            turns,
            context,
            moves: moves.iter().map(|moved| (moved.turn, moved.at)).collect(),
            tree: store.tree(id, PAGE_MAX).await.expect("a tree"),
            inbox: store.inbox(id).await.expect("an inbox"),
            tasks,
            files: store.files_written(id, Timestamp(0), PAGE_MAX).await.expect("files"),
            feed: store.feed(id, 0, PAGE_MAX).await.expect("a feed").iter().map(told).collect(),
            view,
        }
    }
}

fn told(event: &FeedEvent) -> Told {
    (event.session, event.seq, event.at, event.event.clone())
}

/// Every event of every session, page by page, in the order of the feed.
pub(crate) async fn whole_feed(store: &StoreHandle) -> Vec<FeedEvent> {
    feed_after(store, FeedCursor::START, 64).await
}

/// Every event behind a cursor, in pages of `limit`.
pub(crate) async fn feed_after(
    store: &StoreHandle,
    mut cursor: FeedCursor,
    limit: usize,
) -> Vec<FeedEvent> {
    let mut events = Vec::new();
    loop {
        let page = store.feed_of_all(cursor, limit).await.expect("a page of the feed");
        let Some(last) = page.last() else { return events };
        let next = FeedCursor::after(last);
        assert!(next > cursor, "a page is behind the cursor it was asked for");
        cursor = next;
        events.extend(page);
    }
}
