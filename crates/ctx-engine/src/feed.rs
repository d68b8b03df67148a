//! The feed of this process: it sends stored events and live text to followers, without gaps or
//! duplicates.
//!
//! Writers publish here after their transaction. A follower subscribes and copies the current text
//! under one lock, then reads the store. Earlier events are in the store and later ones in the
//! channel; event numbers separate the two. A session has a channel only while it has followers.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ctx_core::draft::Draft;
use ctx_core::id::{MessageId, RunId, SessionId};
use ctx_core::message::{Part, Role};
use ctx_store::FeedEvent;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::runner::UnshownText;

/// Number of items by which a follower may lag before it reads the store again.
const LAG_MAX: usize = 512;
/// Number of parts of the feed with a lock of their own.
const SHARDS: usize = 16;

/// Live text of the open turn. It is stored as a draft before it is sent, and not as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct TextDelta {
    pub run_id: RunId,
    pub message_id: MessageId,
    /// Whether the text is reasoning.
    pub thought: bool,
    /// Number of characters of the message before this text.
    pub offset: usize,
    pub text: String,
    /// Whether this is all text of the message up to the time of the subscription.
    pub draft: bool,
}

impl TextDelta {
    /// The name of the event in the API.
    pub const fn name(&self) -> &'static str {
        if self.thought { "thought.delta" } else { "message.delta" }
    }

    /// The fields of the event in the API.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "run_id": self.run_id,
            "message_id": self.message_id,
            "offset": self.offset,
            "text": self.text,
        });
        if self.draft {
            value["draft"] = json!(true);
        }
        value
    }

    pub(crate) fn end(&self) -> usize {
        self.offset + self.text.chars().count()
    }

    /// The text without its first characters.
    pub(crate) fn without(&self, chars: usize) -> Self {
        let text = self.text.chars().skip(chars).collect();
        Self { offset: self.offset + chars, text, ..self.clone() }
    }
}

/// A value and its encoded form. The first follower that needs the encoded form builds it, and all
/// followers share it.
#[derive(Debug)]
pub struct Encoded<T> {
    value: T,
    bytes: OnceLock<Bytes>,
}

impl<T> Encoded<T> {
    pub(crate) fn new(value: T) -> Arc<Self> {
        Arc::new(Self { value, bytes: OnceLock::new() })
    }

    /// The encoded form. All callers must give the same function.
    pub fn bytes(&self, encode: impl FnOnce(&T) -> Bytes) -> Bytes {
        self.bytes.get_or_init(|| encode(&self.value)).clone()
    }
}

impl<T> Deref for Encoded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// An item of the stream.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event that is stored.
    Event(Arc<Encoded<FeedEvent>>),
    /// Text that is not stored as an event.
    Delta(Arc<Encoded<TextDelta>>),
}

impl From<FeedEvent> for Item {
    fn from(event: FeedEvent) -> Self {
        Self::Event(Encoded::new(event))
    }
}

impl From<TextDelta> for Item {
    fn from(delta: TextDelta) -> Self {
        Self::Delta(Encoded::new(delta))
    }
}

/// The text of one message so far.
#[derive(Debug, Clone)]
pub(crate) struct MessageText {
    pub(crate) message_id: MessageId,
    pub(crate) thought: bool,
    pub(crate) text: String,
    chars: usize,
}

/// The run that this process carries out for a session.
#[derive(Debug, Clone)]
struct Live {
    run_id: RunId,
    texts: Vec<MessageText>,
}

impl Live {
    /// Adds text, and returns it as an item for followers.
    fn add(&mut self, new: &UnshownText) -> TextDelta {
        let (message_id, thought) = (new.message_id, new.thought);
        let known = self
            .texts
            .iter()
            .rposition(|message| message.message_id == message_id && message.thought == thought);
        let at = known.unwrap_or_else(|| {
            self.texts.push(MessageText { message_id, thought, text: String::new(), chars: 0 });
            self.texts.len() - 1
        });
        let message = &mut self.texts[at];
        let (run_id, offset, text) = (self.run_id, message.chars, new.text.clone());
        message.text.push_str(&text);
        message.chars += text.chars().count();
        TextDelta { run_id, message_id, thought, offset, text, draft: false }
    }

    /// All text so far, for a new follower.
    fn drafts(&self) -> Vec<TextDelta> {
        let delta = |message: &MessageText| TextDelta {
            run_id: self.run_id,
            message_id: message.message_id,
            thought: message.thought,
            offset: 0,
            text: message.text.clone(),
            draft: true,
        };
        self.texts.iter().filter(|message| !message.text.is_empty()).map(delta).collect()
    }
}

/// A session with followers, with a run of this process, or both.
#[derive(Default)]
struct Channel {
    /// Present while the session has followers.
    sender: Option<broadcast::Sender<Item>>,
    live: Option<Live>,
}

type Channels = HashMap<SessionId, Channel>;

/// The channels of this process.
pub(crate) struct Feed {
    shards: [Mutex<Channels>; SHARDS],
    /// Notified after every transaction.
    pub(crate) changed: watch::Sender<()>,
    /// Feed rows that this process wrote and has not polled past yet.
    own_rows: Mutex<BTreeSet<i64>>,
    /// Number of runs whose text is streamed to followers.
    streaming: AtomicUsize,
    /// Origin of the times at which the pauses of runs end together.
    created_at: Instant,
}

/// Counts a run whose text is streamed to followers, until it is dropped.
pub(crate) struct StreamingRun<'a>(&'a Feed);

impl Drop for StreamingRun<'_> {
    fn drop(&mut self) {
        self.0.streaming.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            shards: Default::default(),
            changed: watch::channel(()).0,
            own_rows: Mutex::default(),
            streaming: AtomicUsize::new(0),
            created_at: Instant::now(),
        }
    }

    /// The part of the feed that has the session.
    fn channels(&self, session: SessionId) -> MutexGuard<'_, Channels> {
        // The low bits of an id are random.
        let shard = &self.shards[session.0.0 as usize % SHARDS];
        // No code that can panic runs under this lock.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends stored events to followers.
    pub(crate) fn publish(&self, events: Vec<FeedEvent>) {
        for event in events {
            let channels = self.channels(event.session);
            let channel = channels.get(&event.session);
            if let Some(sender) = channel.and_then(|channel| channel.sender.as_ref()) {
                let _ = sender.send(event.into());
            }
        }
        self.changed.send_replace(());
    }

    /// Whether a session has followers.
    pub(crate) fn is_followed(&self, session: SessionId) -> bool {
        self.channels(session).get(&session).is_some_and(|channel| channel.sender.is_some())
    }

    /// Starts a run; its text is kept for later followers.
    pub(crate) fn begin(&self, session: SessionId, run_id: RunId, draft: &Draft) {
        let live = Live { run_id, texts: message_texts(draft) };
        self.channels(session).entry(session).or_default().live = Some(live);
    }

    /// Sends text that is stored now to followers.
    pub(crate) fn send_texts(&self, session: SessionId, texts: &[UnshownText]) {
        if texts.is_empty() {
            return;
        }
        let mut channels = self.channels(session);
        let Some(Channel { sender, live: Some(live) }) = channels.get_mut(&session) else { return };
        for text in texts {
            let delta = live.add(text);
            if let Some(sender) = sender {
                let _ = sender.send(delta.into());
            }
        }
    }

    /// Sends text of another process to followers.
    pub(crate) fn send_foreign(&self, session: SessionId, delta: TextDelta) {
        let channels = self.channels(session);
        let channel = channels.get(&session);
        if let Some(sender) = channel.and_then(|channel| channel.sender.as_ref()) {
            let _ = sender.send(delta.into());
        }
    }

    /// Ends a run.
    pub(crate) fn end(&self, session: SessionId) {
        let mut channels = self.channels(session);
        if let Some(channel) = channels.get_mut(&session) {
            channel.live = None;
            if channel.sender.is_none() {
                channels.remove(&session);
            }
        }
    }

    pub(crate) fn subscribe(
        &self,
        session: SessionId,
    ) -> (broadcast::Receiver<Item>, Vec<TextDelta>) {
        let mut channels = self.channels(session);
        let channel = channels.entry(session).or_default();
        let drafts = channel.live.as_ref().map(Live::drafts).unwrap_or_default();
        let sender = channel.sender.get_or_insert_with(|| broadcast::channel(LAG_MAX).0);
        (sender.subscribe(), drafts)
    }

    /// Removes a follower. The last one removes the channel.
    pub(crate) fn unsubscribe(&self, session: SessionId, receiver: broadcast::Receiver<Item>) {
        let mut channels = self.channels(session);
        drop(receiver);
        let Some(channel) = channels.get_mut(&session) else { return };
        if channel.sender.as_ref().is_some_and(|sender| sender.receiver_count() == 0) {
            channel.sender = None;
            if channel.live.is_none() {
                channels.remove(&session);
            }
        }
    }

    /// Number of sessions in the feed.
    pub(crate) fn open_channels(&self) -> usize {
        let lock = |shard: &Mutex<Channels>| shard.lock().map_or(0, |channels| channels.len());
        self.shards.iter().map(lock).sum()
    }

    /// Counts a run whose text is streamed to followers.
    pub(crate) fn count_streaming(&self) -> StreamingRun<'_> {
        self.streaming.fetch_add(1, Ordering::Relaxed);
        StreamingRun(self)
    }

    /// Number of runs whose text is streamed to followers.
    pub(crate) fn streaming(&self) -> usize {
        self.streaming.load(Ordering::Relaxed)
    }

    /// The multiple of `step` since the creation of the feed that is nearest to a time.
    pub(crate) fn nearest_multiple(&self, at: Instant, step: Duration) -> Instant {
        let middle = at + step / 2;
        let since = middle.saturating_duration_since(self.created_at);
        let rest = since.as_nanos() % step.as_nanos().max(1);
        middle - Duration::from_nanos(rest as u64)
    }

    /// Records a feed row that this process wrote.
    pub(crate) fn own_row(&self, row: i64) {
        self.own_rows().insert(row);
    }

    fn own_rows(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.own_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another process wrote one of the rows `from + 1..=to`. A row of ours that is not
    /// recorded yet counts as foreign.
    pub(crate) fn has_foreign_rows(&self, from: i64, to: i64) -> bool {
        (self.own_rows().range(from + 1..=to).count() as i64) < to - from
    }

    /// Our own rows in `from + 1..=to`, if another process wrote at least one of them. A row of
    /// ours that is not recorded yet counts as foreign: its events are then published twice, which
    /// followers ignore, and no foreign row is missed.
    pub(crate) fn take_foreign_rows(&self, from: i64, to: i64) -> Option<BTreeSet<i64>> {
        let foreign = self.has_foreign_rows(from, to);
        let mut own = self.own_rows();
        let later = own.split_off(&(to + 1));
        let passed = std::mem::replace(&mut *own, later);
        foreign.then_some(passed)
    }
}

/// The text that the agent wrote in a turn. A message may have several text parts; offsets count
/// all of them.
pub(crate) fn message_texts(draft: &Draft) -> Vec<MessageText> {
    let mut all: Vec<MessageText> = Vec::new();
    for message in draft.messages.iter().filter(|message| message.role == Role::Assistant) {
        for part in &message.content {
            let (Part::Text { text } | Part::Thought { text, .. }) = part else { continue };
            let (message_id, thought, chars) =
                (message.id, matches!(part, Part::Thought { .. }), text.chars().count());
            match all
                .iter_mut()
                .find(|message| message.message_id == message_id && message.thought == thought)
            {
                Some(message) => {
                    message.text.push_str(text);
                    message.chars += chars;
                }
                None => all.push(MessageText { message_id, thought, text: text.clone(), chars }),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn unshown(text: &str) -> UnshownText {
        UnshownText { message_id: MessageId(Ulid(1)), thought: false, text: text.to_owned() }
    }

    #[test]
    fn a_session_has_a_channel_only_while_it_has_followers() {
        let (feed, session) = (Feed::new(), SessionId(Ulid(7)));
        feed.begin(session, RunId(Ulid(2)), &Draft::default());
        assert!(!feed.is_followed(session));
        feed.send_texts(session, &[unshown("hé")]);
        let (first, drafts) = feed.subscribe(session);
        assert_eq!((drafts[0].text.as_str(), drafts[0].draft), ("hé", true));
        let (mut second, _) = feed.subscribe(session);
        feed.unsubscribe(session, first);
        assert!(feed.is_followed(session));
        feed.send_texts(session, &[unshown("llo")]);
        let Ok(Item::Delta(delta)) = second.try_recv() else { panic!("no text") };
        assert_eq!((delta.offset, delta.text.as_str()), (2, "llo"));
        feed.unsubscribe(session, second);
        assert!(!feed.is_followed(session));
        assert_eq!(feed.open_channels(), 1, "the text of the run is kept");
        feed.end(session);
        assert_eq!(feed.open_channels(), 0);
    }

    #[test]
    fn followers_share_one_encoded_form() {
        let delta = Encoded::new(unshown("x").text);
        let (first, second) =
            (delta.bytes(|text| text.clone().into()), delta.bytes(|_| panic!("encoded twice")));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }

    #[test]
    fn times_are_moved_to_the_nearest_multiple() {
        let (feed, ms) = (Feed::new(), Duration::from_millis);
        for (at, nearest) in [(0, 0), (2, 0), (3, 5), (5, 5), (82, 80), (83, 85)] {
            let moved = feed.nearest_multiple(feed.created_at + ms(at), ms(5));
            assert_eq!(moved - feed.created_at, ms(nearest), "{at}");
        }
    }

    #[test]
    fn a_row_that_is_not_recorded_counts_as_foreign() {
        let feed = Feed::new();
        [1, 2, 4].into_iter().for_each(|row| feed.own_row(row));
        assert!(!feed.has_foreign_rows(0, 2) && feed.has_foreign_rows(0, 3));
        assert_eq!(feed.take_foreign_rows(0, 3), Some(BTreeSet::from([1, 2])));
        assert_eq!(feed.take_foreign_rows(3, 4), None);
        assert!(feed.own_rows().is_empty(), "passed rows are not kept");
    }
}
