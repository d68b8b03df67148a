//! The feed of this process: it sends stored events and live text to followers, without gaps or
//! duplicates.
//!
//! Writers publish here after their transaction. A follower subscribes and copies the current text
//! under one lock, then reads the store. Earlier events are in the store and later ones in the
//! channel; event numbers separate the two.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctx_core::draft::Draft;
use ctx_core::id::{MessageId, RunId, SessionId};
use ctx_core::message::{Part, Role};
use ctx_store::FeedEvent;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::runner::UnshownText;

/// Number of items by which a follower may lag before it reads the store again.
const LAG_MAX: usize = 1024;
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
}

/// An item of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An event that is stored.
    Event(Arc<FeedEvent>),
    /// Text that is not stored as an event.
    Delta(TextDelta),
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

struct Channel {
    sender: broadcast::Sender<Item>,
    live: Option<Live>,
}

impl Channel {
    fn new() -> Self {
        Self { sender: broadcast::channel(LAG_MAX).0, live: None }
    }
}

/// The channels of this process, one per session.
pub(crate) struct Feed {
    channels: Mutex<HashMap<SessionId, Channel>>,
    /// Notified after every transaction.
    pub(crate) changed: watch::Sender<()>,
    /// Feed rows that this process wrote and has not polled past yet.
    own_rows: Mutex<BTreeSet<i64>>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            channels: Mutex::default(),
            changed: watch::channel(()).0,
            own_rows: Mutex::default(),
        }
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<SessionId, Channel>> {
        // No code that can panic runs under this lock.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends stored events to followers.
    pub(crate) fn publish(&self, events: Vec<FeedEvent>) {
        if !events.is_empty() {
            let mut channels = self.channels();
            for event in events {
                if let Some(channel) = channels.get_mut(&event.session) {
                    let _ = channel.sender.send(Item::Event(Arc::new(event)));
                }
            }
        }
        self.changed.send_replace(());
    }

    /// Whether a session has followers.
    pub(crate) fn is_followed(&self, session: SessionId) -> bool {
        self.channels().get(&session).is_some_and(|channel| channel.sender.receiver_count() > 0)
    }

    /// Starts a run; its text is kept for later followers.
    pub(crate) fn begin(&self, session: SessionId, run_id: RunId, draft: &Draft) {
        let texts = message_texts(draft);
        self.channels().entry(session).or_insert_with(Channel::new).live =
            Some(Live { run_id, texts });
    }

    /// Sends more text to followers.
    fn send_text(&self, session: SessionId, message_id: MessageId, thought: bool, text: &str) {
        let mut channels = self.channels();
        let Some(channel) = channels.get_mut(&session) else { return };
        let Some(live) = channel.live.as_mut() else { return };
        let known = live
            .texts
            .iter()
            .rposition(|message| message.message_id == message_id && message.thought == thought);
        let at = known.unwrap_or_else(|| {
            live.texts.push(MessageText { message_id, thought, text: String::new(), chars: 0 });
            live.texts.len() - 1
        });
        let message = &mut live.texts[at];
        let delta = TextDelta {
            run_id: live.run_id,
            message_id,
            thought,
            offset: message.chars,
            text: text.to_owned(),
            draft: false,
        };
        message.text.push_str(text);
        message.chars += text.chars().count();
        let _ = channel.sender.send(Item::Delta(delta));
    }

    /// Sends text that is stored now to followers.
    pub(crate) fn send_texts(&self, session: SessionId, texts: &[UnshownText]) {
        for UnshownText { message_id, thought, text } in texts {
            self.send_text(session, *message_id, *thought, text);
        }
    }

    /// Ends a run; a channel without followers is removed.
    pub(crate) fn end(&self, session: SessionId) {
        let mut channels = self.channels();
        if let Some(channel) = channels.get_mut(&session) {
            channel.live = None;
            if channel.sender.receiver_count() == 0 {
                channels.remove(&session);
            }
        }
    }

    pub(crate) fn subscribe(
        &self,
        session: SessionId,
    ) -> (broadcast::Receiver<Item>, Option<Vec<TextDelta>>) {
        let mut channels = self.channels();
        let channel = channels.entry(session).or_insert_with(Channel::new);
        let deltas = channel.live.as_ref().map(|live| {
            let delta = |message: &MessageText| TextDelta {
                run_id: live.run_id,
                message_id: message.message_id,
                thought: message.thought,
                offset: 0,
                text: message.text.clone(),
                draft: true,
            };
            live.texts.iter().filter(|message| !message.text.is_empty()).map(delta).collect()
        });
        (channel.sender.subscribe(), deltas)
    }

    pub(crate) fn unsubscribe(&self, session: SessionId) {
        let mut channels = self.channels();
        if channels
            .get(&session)
            .is_some_and(|channel| channel.live.is_none() && channel.sender.receiver_count() <= 1)
        {
            channels.remove(&session);
        }
    }

    pub(crate) fn open_channels(&self) -> usize {
        self.channels().len()
    }

    /// Records a feed row that this process wrote.
    pub(crate) fn own_row(&self, row: i64) {
        self.own_rows.lock().unwrap_or_else(PoisonError::into_inner).insert(row);
    }

    /// Our own rows in `from + 1..=to`, if another process wrote at least one of them. A row of
    /// ours that is not recorded yet counts as foreign: it is then read once more, and no foreign
    /// row is missed.
    pub(crate) fn foreign_rows(&self, from: i64, to: i64) -> Option<BTreeSet<i64>> {
        let mut own = self.own_rows.lock().unwrap_or_else(PoisonError::into_inner);
        let later = own.split_off(&(to + 1));
        let passed = std::mem::replace(&mut *own, later);
        ((passed.range(from + 1..=to).count() as i64) < to - from).then_some(passed)
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
