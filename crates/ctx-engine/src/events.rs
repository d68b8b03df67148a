//! Following the feed: stored events and live text as one ordered stream.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::Needs;
use ctx_core::draft::Draft;
use ctx_core::id::{MessageId, SessionId};
use ctx_core::session::Activity;
use ctx_store::{FeedEvent, FeedQuery, Target};
use tokio::sync::{broadcast, watch};

use crate::engine::{Engine, Error};
use crate::feed::{Item, MessageText, TextDelta, message_texts};

/// Most events that one query returns.
const PAGE: usize = 500;
/// How often a session that runs in another process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// How long to wait for the last event of a deleted session. Writes of other processes are seen
/// within this time.
const DELETED_EVENT_WAIT: Duration = Duration::from_millis(500);

/// Number of polls that are skipped while the background duties report writes of other processes.
const SKIPPED_POLLS_MAX: u32 = 20;

/// Events: stored ones, and live ones as they come.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::FeedItem;
/// use ctx_engine::core::session::Origin;
///
/// let id = engine.sessions().create_idle("notes", Origin::Api).await?;
/// let mut follow = engine.events().follow("notes", Some(0)).await?;
/// let Some(FeedItem::Event(first)) = follow.next().await? else { panic!("a stored event") };
/// assert_eq!(first.event.name(), "session.created");
/// assert_eq!(engine.events().stored(id, 0, 10).await?.len(), 1);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Events<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Stored events, and live ones as they arrive.
    pub const fn events(&self) -> Events<'_> {
        Events { engine: self }
    }
}

impl Events<'_> {
    /// Stored events of a session with a number above `after`, oldest first.
    ///
    /// Fails if the store fails.
    pub async fn stored(
        self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, Error> {
        Ok(self.engine.store().feed(FeedQuery::Session { id: session, after }, limit).await?)
    }

    /// Follows a session from after the event number `after`, or from now.
    ///
    /// Fails if the session does not exist.
    pub async fn follow(self, session: &str, after: Option<u64>) -> Result<Follow, Error> {
        let found = self.engine.sessions().get(session).await?.session;
        let (receiver, deltas) = self.engine.shared().feed.subscribe(found.id);
        let mut poll_timer = tokio::time::interval(POLL_INTERVAL);
        poll_timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let last = after.unwrap_or(found.seq);
        let mut follow = Follow {
            engine: self.engine.clone(),
            session: found.id,
            last,
            ready: VecDeque::new(),
            receiver,
            returned_chars: HashMap::new(),
            poll_timer,
            skipped_polls: 0,
            received_since_poll: true,
            elsewhere: false,
        };
        if after.is_some_and(|after| after < found.seq) {
            loop {
                let from = follow.ready.back().map_or(last, |item| {
                    if let Item::Event(event) = item { event.seq } else { last }
                });
                let events = self
                    .engine
                    .store()
                    .feed(FeedQuery::Session { id: found.id, after: from }, PAGE)
                    .await?;
                let done = events.len() < PAGE;
                follow.ready.extend(events.into_iter().map(|event| Item::Event(Arc::new(event))));
                if done || follow.ready.len() >= PAGE {
                    break;
                }
            }
        }
        follow.ready.extend(deltas.unwrap_or_default().into_iter().map(Item::Delta));
        Ok(follow)
    }

    /// Follows all sessions from after the feed row `after`, or from now.
    ///
    /// Fails if the store fails.
    pub async fn follow_all(self, after: Option<i64>) -> Result<FollowAll, Error> {
        let changed = self.engine.shared().feed.changed.subscribe();
        let last = match after {
            Some(after) => after,
            None => self.engine.store().newest_feed_row().await?,
        };
        Ok(FollowAll { engine: self.engine.clone(), last, ready: VecDeque::new(), changed })
    }
}

/// An ordered stream of one session's events and live text.
pub struct Follow {
    engine: Engine,
    session: SessionId,
    last: u64,
    ready: VecDeque<Item>,
    receiver: broadcast::Receiver<Item>,
    /// Number of characters of each message that were returned, where another process runs the
    /// session.
    returned_chars: HashMap<(MessageId, bool), usize>,
    poll_timer: tokio::time::Interval,
    /// Polls that were skipped since the last one.
    skipped_polls: u32,
    /// Whether an item was returned since the last poll.
    received_since_poll: bool,
    /// Whether another process runs the session.
    elsewhere: bool,
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.engine.shared().feed.unsubscribe(self.session);
    }
}

impl Follow {
    /// The next item; `None` after the session was deleted.
    ///
    /// Fails if the store fails.
    pub async fn next(&mut self) -> Result<Option<Item>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                self.received_since_poll = true;
                match &item {
                    Item::Event(event) if event.seq <= self.last => continue,
                    // If the events in between are not stored, the session was deleted and this
                    // event reports it.
                    Item::Event(event)
                        if event.seq > self.last + 1 && self.catch_up(event.seq).await? =>
                    {
                        continue;
                    }
                    Item::Event(event) => self.last = event.seq,
                    Item::Delta(delta) => {
                        let returned = self
                            .returned_chars
                            .entry((delta.message_id, delta.thought))
                            .or_default();
                        if delta.end() <= *returned
                            || (delta.offset > 0 && delta.offset < *returned)
                        {
                            continue;
                        }
                        *returned = delta.end();
                    }
                }
                return Ok(Some(item));
            }
            tokio::select! {
                received = self.receiver.recv() => match received {
                    Ok(item) => self.ready.push_back(item),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.restart().await?,
                    Err(broadcast::error::RecvError::Closed) => return Ok(None),
                },
                _ = self.poll_timer.tick() => {
                    if !self.poll().await? {
                        // The deleting process publishes the event after its transaction, which we
                        // have seen.
                        match tokio::time::timeout(DELETED_EVENT_WAIT, self.receiver.recv()).await {
                            Ok(Ok(item)) => self.ready.push_back(item),
                            _ => return Ok(None),
                        }
                    }
                }
            }
        }
    }

    /// Reads stored events that were not returned yet, up to `newest`. Returns `false` if there was
    /// nothing to read.
    async fn catch_up(&mut self, newest: u64) -> Result<bool, Error> {
        let query = FeedQuery::Session { id: self.session, after: self.last };
        let mut events = self.engine.store().feed(query, PAGE).await?;
        events.retain(|event| event.seq <= newest);
        let any = !events.is_empty();
        for event in events.into_iter().rev() {
            self.ready.push_front(Item::Event(Arc::new(event)));
        }
        Ok(any)
    }

    /// After a lag: starts again with the current text and the stored events.
    async fn restart(&mut self) -> Result<(), Error> {
        let (receiver, deltas) = self.engine.shared().feed.subscribe(self.session);
        self.receiver = receiver;
        self.ready.clear();
        self.catch_up(u64::MAX).await?;
        // Text that was returned in part is returned again from offset 0.
        self.returned_chars.clear();
        self.ready.extend(deltas.unwrap_or_default().into_iter().map(Item::Delta));
        Ok(())
    }

    /// Polls for writes of other processes. Returns `false` if the session was deleted.
    async fn poll(&mut self) -> Result<bool, Error> {
        // The background duties publish writes of other processes.
        let attended = self.engine.shared().watches_store();
        if attended
            && !self.received_since_poll
            && !self.elsewhere
            && self.skipped_polls < SKIPPED_POLLS_MAX
        {
            self.skipped_polls += 1;
            return Ok(true);
        }
        (self.skipped_polls, self.received_since_poll) = (0, false);
        let here = self.engine.shared().is_awake(self.session);
        let Some(view) =
            self.engine.store().view(&Target::Id(self.session), Needs::NOTHING).await?
        else {
            return Ok(false);
        };
        // The text of a run of this process comes through the channel, before the events of its
        // turn.
        if view.session.seq > self.last && !here {
            self.catch_up(u64::MAX).await?;
        }
        self.elsewhere = view.session.state == Activity::Running && !here;
        if self.elsewhere {
            let deltas = stored_deltas(&self.engine, self.session).await?;
            for delta in deltas {
                let returned = self
                    .returned_chars
                    .get(&(delta.message_id, delta.thought))
                    .copied()
                    .unwrap_or(0);
                if delta.end() > returned {
                    let text: String = delta.text.chars().skip(returned).collect();
                    self.ready.push_back(Item::Delta(TextDelta {
                        offset: returned,
                        text,
                        draft: returned == 0,
                        ..delta
                    }));
                }
            }
        }
        Ok(true)
    }
}

/// The text of the open turn, as it is stored.
async fn stored_deltas(engine: &Engine, session: SessionId) -> Result<Vec<TextDelta>, Error> {
    let Some(view) = engine.store().view(&Target::Id(session), Needs::CLOSE).await? else {
        return Ok(Vec::new());
    };
    let Some(run) = &view.run else { return Ok(Vec::new()) };
    let texts = message_texts(&Draft::of(view.drafts.iter().cloned()));
    let delta = |MessageText { message_id, thought, text, .. }| TextDelta {
        run_id: run.id,
        message_id,
        thought,
        offset: 0,
        text,
        draft: true,
    };
    Ok(texts.into_iter().map(delta).collect())
}

/// An ordered stream of the stored events of all sessions.
pub struct FollowAll {
    engine: Engine,
    last: i64,
    ready: VecDeque<FeedEvent>,
    changed: watch::Receiver<()>,
}

impl FollowAll {
    /// The next event.
    ///
    /// Fails if the store fails.
    pub async fn next(&mut self) -> Result<FeedEvent, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            self.changed.borrow_and_update();
            let events =
                self.engine.store().feed(FeedQuery::All { after: self.last }, PAGE).await?;
            if let Some(event) = events.last() {
                self.last = event.row;
                self.ready.extend(events);
                continue;
            }
            // Writes of other processes are found by polling.
            let _ = tokio::time::timeout(POLL_INTERVAL, self.changed.changed()).await;
        }
    }
}
