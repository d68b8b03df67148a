//! Following the feed: stored events and live text as one ordered stream.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ctx_core::decide::{Event, Needs};
use ctx_core::draft::Draft;
use ctx_core::id::{MessageId, SessionId};
use ctx_core::session::Activity;
use ctx_store::{FeedEvent, FeedQuery, Target};
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};
use tokio::sync::watch;

use crate::engine::{Engine, Error};
use crate::feed::{Item, MessageText, TextDelta, message_texts};

/// Most events that one query returns.
const PAGE: usize = 500;
/// How often a session that runs in another process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// How often a session is polled while the background duties report writes of other processes.
const WATCHED_POLL_INTERVAL: Duration = Duration::from_secs(3);
/// How long to wait for the last event of a deleted session. Writes of other processes are seen
/// within this time.
const DELETED_EVENT_WAIT: Duration = Duration::from_millis(500);

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
            lagged: false,
            gap: false,
            returned_chars: HashMap::new(),
            poll_timer,
            polls_soon: true,
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
                follow.ready.extend(events.into_iter().map(Item::from));
                if done || follow.ready.len() >= PAGE {
                    break;
                }
            }
        }
        follow.ready.extend(deltas.into_iter().map(Item::from));
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
    /// Whether items were dropped from the channel before they were received.
    lagged: bool,
    /// Whether text was missing before the last delta.
    gap: bool,
    /// Number of characters of each message of the open turn that were returned.
    returned_chars: HashMap<(MessageId, bool), usize>,
    poll_timer: tokio::time::Interval,
    /// Whether the next poll comes after the short interval.
    polls_soon: bool,
}

impl Drop for Follow {
    fn drop(&mut self) {
        let receiver = std::mem::replace(&mut self.receiver, broadcast::channel(1).1);
        self.engine.shared().feed.unsubscribe(self.session, receiver);
    }
}

impl Follow {
    /// The next item; `None` after the session was deleted. A caller may drop the future and call
    /// again: no item is lost.
    ///
    /// Fails if the store fails.
    pub async fn next(&mut self) -> Result<Option<Item>, Error> {
        loop {
            if let Some(item) = self.next_ready() {
                return Ok(Some(item));
            }
            if self.lagged {
                self.restart().await?;
                continue;
            }
            if let Some(Item::Event(event)) = self.ready.front() {
                let seq = event.seq;
                if !self.catch_up(seq).await? {
                    // The events in between are not stored: the session was deleted, and this event
                    // reports it.
                    self.last = seq;
                    return Ok(self.ready.pop_front());
                }
                continue;
            }
            tokio::select! {
                // What was received comes before what a poll finds.
                biased;
                received = self.receiver.recv() => match received {
                    Ok(item) => self.ready.push_back(item),
                    Err(RecvError::Lagged(_)) => self.lagged = true,
                    Err(RecvError::Closed) => return Ok(None),
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

    /// The next item, if it can be returned without waiting and without reading the store.
    pub fn next_ready(&mut self) -> Option<Item> {
        while !self.lagged {
            let item = match self.ready.pop_front() {
                Some(item) => item,
                None => match self.receiver.try_recv() {
                    Ok(item) => item,
                    Err(TryRecvError::Lagged(_)) => {
                        self.lagged = true;
                        return None;
                    }
                    Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
                },
            };
            match &item {
                Item::Event(event) if event.seq <= self.last => continue,
                Item::Event(event) if event.seq > self.last + 1 => {
                    // The events in between are read from the store first.
                    self.ready.push_front(item);
                    return None;
                }
                Item::Event(event) => {
                    self.last = event.seq;
                    if matches!(event.event, Event::TurnCommitted { .. }) {
                        self.returned_chars.clear();
                    }
                    if !self.polls_soon {
                        // The event may be the start of a run in another process.
                        self.polls_soon = true;
                        self.poll_timer.reset_after(POLL_INTERVAL);
                    }
                }
                Item::Delta(delta) => {
                    let returned =
                        self.returned_chars.entry((delta.message_id, delta.thought)).or_default();
                    if delta.end() <= *returned {
                        continue;
                    }
                    if delta.offset > *returned && !std::mem::replace(&mut self.gap, true) {
                        // The text in between is read again.
                        self.lagged = true;
                        return None;
                    }
                    self.gap = false;
                    let before = std::mem::replace(returned, delta.end());
                    if delta.offset > 0 && delta.offset < before {
                        return Some(delta.without(before - delta.offset).into());
                    }
                }
            }
            return Some(item);
        }
        None
    }

    /// Reads stored events that were not returned yet, up to `newest`. Returns `false` if there was
    /// nothing to read.
    async fn catch_up(&mut self, newest: u64) -> Result<bool, Error> {
        let query = FeedQuery::Session { id: self.session, after: self.last };
        let mut events = self.engine.store().feed(query, PAGE).await?;
        events.retain(|event| event.seq <= newest);
        let any = !events.is_empty();
        for event in events.into_iter().rev() {
            self.ready.push_front(event.into());
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
        self.ready.extend(deltas.into_iter().map(Item::from));
        self.lagged = false;
        if !self.engine.shared().is_awake(self.session) {
            self.read_stored_text().await?;
        }
        Ok(())
    }

    /// Polls for writes of other processes. Returns `false` if the session was deleted.
    async fn poll(&mut self) -> Result<bool, Error> {
        // The background duties publish writes of other processes.
        let watched = self.engine.shared().watches_store();
        let here = self.engine.shared().is_awake(self.session);
        let relayed = !here && self.engine.shared().nodes.is_relayed(self.session);
        if watched {
            self.polls_soon = false;
            self.poll_timer.reset_after(WATCHED_POLL_INTERVAL);
            if here {
                return Ok(true);
            }
        }
        let Some(view) =
            self.engine.store().view(&Target::Id(self.session), Needs::NOTHING).await?
        else {
            return Ok(false);
        };
        if here {
            return Ok(true);
        }
        if !self.receiver.is_empty() {
            // A run of this process has ended meanwhile. Its text and its events are in the
            // channel, in this order.
            self.poll_soon();
            return Ok(true);
        }
        if view.session.state == Activity::Running {
            self.engine.ask_for_text(self.session, view.session.owner);
        }
        if relayed {
            // The owner sends events and text, in their order.
            return Ok(true);
        }
        if view.session.seq > self.last {
            self.catch_up(u64::MAX).await?;
        }
        if view.session.state == Activity::Running {
            self.poll_soon();
            self.read_stored_text().await?;
        }
        Ok(true)
    }

    fn poll_soon(&mut self) {
        self.polls_soon = true;
        self.poll_timer.reset_after(POLL_INTERVAL);
    }

    /// Reads the text of a run of another process that was not returned yet.
    async fn read_stored_text(&mut self) -> Result<(), Error> {
        for delta in stored_deltas(&self.engine, self.session).await? {
            let key = (delta.message_id, delta.thought);
            let returned = self.returned_chars.get(&key).copied().unwrap_or(0);
            if delta.end() > returned {
                let text: String = delta.text.chars().skip(returned).collect();
                let draft = returned == 0;
                self.ready.push_back(TextDelta { offset: returned, text, draft, ..delta }.into());
            }
        }
        Ok(())
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
