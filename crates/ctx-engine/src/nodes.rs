//! Messages between the processes that share a database server: about changes to the owner of a
//! session, about waiting messages to all, and live text to processes with followers. A message may
//! be lost; everything is polled as well.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ctx_core::id::{MessageId, NodeId, RunId, SessionId};
use ctx_store::{FeedQuery, Notice};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::engine::{Engine, Error};
use crate::feed::{Item, TextDelta};

/// Pause between two messages with the text of a session.
const TEXT_PAUSE: Duration = Duration::from_millis(40);
/// How often a process that sends text gives a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Time without a sign of life after which the store is polled again.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How often the request for the text of a session is repeated.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// How long text is sent after a request.
const ASKED_FOR: Duration = Duration::from_secs(10);
/// Characters of text in one message: the server accepts 8,000 bytes, and JSON writes a character
/// in at most six.
const TEXT_MAX_CHARS: usize = 1200;
/// Sessions whose text is sent to other processes, at most.
const RELAYS_MAX: usize = 1000;
/// Most events that one query returns.
const EVENTS_MAX: usize = 500;

/// A message to other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum NodeMessage {
    /// To the owner: the session's inbox or run was changed.
    Changed { session: SessionId },
    /// To all: a message waits, for which its process has no room.
    Waiting { session: SessionId },
    /// To all: the process has started a run.
    Started { session: SessionId, node: NodeId },
    /// To the owner: the process has followers of the session.
    Follow { session: SessionId, node: NodeId },
    /// To a process with followers: text that is stored now.
    Text { session: SessionId, text: Text },
    /// To a process with followers: events up to this number are stored. Also a sign of life.
    Stored { session: SessionId, seq: u64 },
    /// To a process with followers: no more text follows.
    Ended { session: SessionId, seq: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Text {
    run_id: RunId,
    message_id: MessageId,
    thought: bool,
    offset: usize,
    text: String,
    draft: bool,
}

/// A session whose text another process sends to this one.
#[derive(Debug, Clone, Copy, Default)]
struct Incoming {
    asked_at: Option<Instant>,
    heard_at: Option<Instant>,
    /// The newest event that was published here.
    seq: Option<u64>,
}

/// What this process exchanges with others.
#[derive(Default)]
pub(crate) struct Nodes {
    listening: AtomicBool,
    incoming: Mutex<HashMap<SessionId, Incoming>>,
    /// Until when the text of a session is sent to another process.
    relays: Mutex<HashMap<(SessionId, NodeId), Instant>>,
}

impl Nodes {
    /// Whether this process receives messages of others.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    fn incoming(&self) -> MutexGuard<'_, HashMap<SessionId, Incoming>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn relays(&self) -> MutexGuard<'_, HashMap<(SessionId, NodeId), Instant>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another process sends the text and the events of a session to this one.
    pub(crate) fn is_relayed(&self, session: SessionId) -> bool {
        self.is_listening()
            && self.incoming().get(&session).is_some_and(|incoming| {
                incoming.heard_at.is_some_and(|at| at.elapsed() < SILENCE_MAX)
            })
    }

    /// Whether the text of a session has to be requested now.
    fn is_to_ask(&self, session: SessionId) -> bool {
        let mut incoming = self.incoming();
        incoming.retain(|_, entry| entry.asked_at.is_some_and(|at| at.elapsed() < ASKED_FOR));
        let entry = incoming.entry(session).or_default();
        let due = entry.asked_at.is_none_or(|at| at.elapsed() >= ASK_AGAIN);
        if due {
            entry.asked_at = Some(Instant::now());
        }
        due
    }

    /// Records a sign of life. `false` if the text was not requested.
    fn heard(&self, session: SessionId) -> bool {
        let mut incoming = self.incoming();
        let Some(entry) = incoming.get_mut(&session) else { return false };
        entry.heard_at = Some(Instant::now());
        true
    }
}

impl Engine {
    fn tell(&self, to: Option<NodeId>, message: &NodeMessage) {
        match serde_json::to_string(message) {
            Ok(text) => self.store().notify(to, text),
            Err(error) => tracing::warn!(%error, "a message to another process is lost"),
        }
    }

    /// Notifies the owner of a session, if it is another process, of a change.
    pub(crate) fn tell_owner(&self, session: SessionId, owner: Option<NodeId>) {
        if let Some(owner) = owner.filter(|owner| *owner != self.shared().node) {
            self.tell(Some(owner), &NodeMessage::Changed { session });
        }
    }

    /// Offers a message to every process with room for its run.
    pub(crate) fn offer(&self, session: SessionId) {
        if self.shared().nodes.is_listening() {
            self.tell(None, &NodeMessage::Waiting { session });
        }
    }

    /// Notifies every process that a run has started here.
    pub(crate) fn announce_run(&self, session: SessionId) {
        if self.shared().nodes.is_listening() {
            let node = self.shared().node;
            self.tell(None, &NodeMessage::Started { session, node });
        }
    }

    /// Requests the text of a session from its owner, unless that was done a moment ago.
    pub(crate) fn ask_for_text(&self, session: SessionId, owner: Option<NodeId>) {
        let (node, nodes) = (self.shared().node, &self.shared().nodes);
        let Some(owner) = owner.filter(|owner| *owner != node && nodes.is_listening()) else {
            return;
        };
        if nodes.is_to_ask(session) {
            self.tell(Some(owner), &NodeMessage::Follow { session, node });
        }
    }

    /// Starts to receive messages of other processes, if the database sends any.
    pub(crate) async fn listen_to_nodes(&self) {
        let Some(notices) = self.store().listen(self.shared().node).await else { return };
        self.shared().nodes.listening.store(true, Ordering::Release);
        tokio::spawn(self.clone().receive_from_nodes(notices));
    }

    async fn receive_from_nodes(self, mut notices: mpsc::Receiver<Notice>) {
        loop {
            let notice = tokio::select! {
                () = self.shared().shutdown.cancelled() => return,
                notice = notices.recv() => notice,
            };
            match notice {
                Some(Notice::Text(text)) => match serde_json::from_str(&text) {
                    Ok(message) => {
                        if let Err(error) = self.handle(message).await {
                            tracing::warn!(%error, "a message of another process failed");
                        }
                    }
                    // A newer version may send others.
                    Err(error) => tracing::debug!(%error, "an unknown message was ignored"),
                },
                Some(Notice::Gap) => self.shared().nodes.incoming().clear(),
                None => {
                    self.shared().nodes.listening.store(false, Ordering::Release);
                    return;
                }
            }
        }
    }

    async fn handle(&self, message: NodeMessage) -> Result<(), Error> {
        let (shared, nodes) = (self.shared(), &self.shared().nodes);
        match message {
            NodeMessage::Changed { session } => self.wake(session),
            NodeMessage::Waiting { session } => {
                if shared.slots.free() > 0 {
                    self.wake(session);
                }
            }
            NodeMessage::Started { session, node } => {
                if shared.feed.is_followed(session) {
                    self.ask_for_text(session, Some(node));
                }
            }
            NodeMessage::Follow { session, node } => self.relay_to(session, node),
            NodeMessage::Text { session, text } => {
                if nodes.heard(session) {
                    let Text { run_id, message_id, thought, offset, text, draft } = text;
                    let delta = TextDelta { run_id, message_id, thought, offset, text, draft };
                    shared.feed.send_foreign(session, delta);
                }
            }
            NodeMessage::Stored { session, seq } => {
                if nodes.heard(session) {
                    self.publish_stored(session, seq).await?;
                }
            }
            NodeMessage::Ended { session, seq } => {
                if nodes.heard(session) {
                    let published = self.publish_stored(session, seq).await;
                    nodes.incoming().remove(&session);
                    published?;
                }
            }
        }
        Ok(())
    }

    /// Publishes the stored events of a session up to a number, once.
    async fn publish_stored(&self, session: SessionId, seq: u64) -> Result<(), Error> {
        let known = self.shared().nodes.incoming().get(&session).and_then(|entry| entry.seq);
        // Followers read what is missing before the first event from the store.
        let after = known.unwrap_or_else(|| seq.saturating_sub(1));
        if seq <= after {
            return Ok(());
        }
        let events =
            self.store().feed(FeedQuery::Session { id: session, after }, EVENTS_MAX).await?;
        if let (Some(last), Some(entry)) =
            (events.last(), self.shared().nodes.incoming().get_mut(&session))
        {
            entry.seq = Some(last.seq);
        }
        self.shared().feed.publish(events);
        Ok(())
    }

    /// Sends the text of a session to another process from now on, or longer than before.
    fn relay_to(&self, session: SessionId, node: NodeId) {
        if !self.shared().is_awake(session) {
            return;
        }
        let mut relays = self.shared().nodes.relays();
        let until = Instant::now() + ASKED_FOR;
        if relays.contains_key(&(session, node)) || relays.len() < RELAYS_MAX {
            let is_new = relays.insert((session, node), until).is_none();
            drop(relays);
            if is_new {
                tokio::spawn(self.clone().relay(session, node));
            }
        }
    }

    /// Sends the text and the event numbers of a session to another process, until its run ends or
    /// no request arrives for a while.
    async fn relay(self, session: SessionId, node: NodeId) {
        let feed = &self.shared().feed;
        let (mut receiver, drafts) = feed.subscribe(session);
        let mut batch = Batch::default();
        drafts.iter().for_each(|draft| batch.add_text(draft));
        let mut seq = 0;
        loop {
            seq = seq.max(batch.seq);
            for message in batch.take(session, seq) {
                self.tell(Some(node), &message);
            }
            let asked_for = self.shared().nodes.relays().get(&(session, node)).copied();
            let is_over = !self.shared().is_awake(session)
                || asked_for.is_none_or(|until| until < Instant::now());
            tokio::time::sleep(TEXT_PAUSE).await;
            let first = match is_over {
                true => receiver.try_recv().map_err(|error| error != TryRecvError::Empty),
                false => match tokio::time::timeout(SIGN_OF_LIFE, receiver.recv()).await {
                    Ok(Ok(item)) => Ok(item),
                    Ok(Err(error)) => Err(matches!(error, RecvError::Lagged(_))),
                    Err(_) => Err(false),
                },
            };
            let mut lagged = matches!(first, Err(true));
            first.iter().for_each(|item| batch.add(item));
            loop {
                match receiver.try_recv() {
                    Ok(item) => batch.add(&item),
                    Err(TryRecvError::Lagged(_)) => lagged = true,
                    Err(_) => break,
                }
            }
            if lagged {
                let (again, drafts) = feed.subscribe(session);
                feed.unsubscribe(session, std::mem::replace(&mut receiver, again));
                drafts.iter().for_each(|draft| batch.add_text(draft));
            }
            if is_over {
                seq = seq.max(batch.seq);
                for message in batch.take(session, seq) {
                    self.tell(Some(node), &message);
                }
                break;
            }
        }
        self.shared().nodes.relays().remove(&(session, node));
        feed.unsubscribe(session, receiver);
        self.tell(Some(node), &NodeMessage::Ended { session, seq });
    }
}

/// What is sent to another process at once: text and the numbers of events, in order.
#[derive(Default)]
struct Batch {
    parts: Vec<Part>,
    /// The number of the newest event.
    seq: u64,
}

enum Part {
    Text(Text),
    Stored(u64),
}

impl Batch {
    fn add(&mut self, item: &Item) {
        match item {
            Item::Delta(delta) => self.add_text(delta),
            Item::Event(event) => {
                self.seq = self.seq.max(event.seq);
                self.parts.push(Part::Stored(event.seq));
            }
        }
    }

    /// Adds text to the last part if it continues it.
    fn add_text(&mut self, delta: &TextDelta) {
        if let Some(Part::Text(last)) = self.parts.last_mut()
            && last.message_id == delta.message_id
            && last.thought == delta.thought
            && last.offset + last.text.chars().count() == delta.offset
        {
            last.text.push_str(&delta.text);
            return;
        }
        self.parts.push(Part::Text(Text {
            run_id: delta.run_id,
            message_id: delta.message_id,
            thought: delta.thought,
            offset: delta.offset,
            text: delta.text.clone(),
            draft: delta.draft,
        }));
    }

    /// The messages; a sign of life if there is nothing else.
    fn take(&mut self, session: SessionId, seq: u64) -> Vec<NodeMessage> {
        let mut messages = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            match part {
                Part::Text(text) => {
                    let pieces = pieces(text).map(|text| NodeMessage::Text { session, text });
                    messages.extend(pieces);
                }
                Part::Stored(seq) => match messages.last_mut() {
                    Some(NodeMessage::Stored { seq: last, .. }) => *last = seq,
                    _ => messages.push(NodeMessage::Stored { session, seq }),
                },
            }
        }
        if messages.is_empty() {
            messages.push(NodeMessage::Stored { session, seq });
        }
        messages
    }
}

/// Text in pieces that fit into a message each.
fn pieces(text: Text) -> impl Iterator<Item = Text> {
    let chars: Vec<char> = text.text.chars().collect();
    let pieces: Vec<Text> = chars
        .chunks(TEXT_MAX_CHARS)
        .enumerate()
        .map(|(n, piece)| Text {
            offset: text.offset + n * TEXT_MAX_CHARS,
            text: piece.iter().collect(),
            draft: text.draft && n == 0,
            ..text
        })
        .collect();
    pieces.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_core::decide::Event;
    use ctx_core::time::Timestamp;
    use ctx_store::FeedEvent;
    use ulid::Ulid;

    fn delta(offset: usize, text: &str) -> TextDelta {
        TextDelta {
            run_id: RunId(Ulid(1)),
            message_id: MessageId(Ulid(2)),
            thought: false,
            offset,
            text: text.to_owned(),
            draft: offset == 0,
        }
    }

    fn event(seq: u64) -> Item {
        let (session, at) = (SessionId(Ulid(3)), Timestamp(0));
        FeedEvent { row: 0, session, seq, at, event: Event::SessionUpdated }.into()
    }

    #[test]
    fn text_and_events_are_sent_in_their_order() {
        let (mut batch, session) = (Batch::default(), SessionId(Ulid(3)));
        batch.add_text(&delta(0, "hé"));
        batch.add(&delta(2, "llo").into());
        batch.add(&event(7));
        batch.add(&event(8));
        batch.add(&delta(5, "!").into());
        let sent: Vec<String> = batch
            .take(session, 8)
            .iter()
            .map(|message| match message {
                NodeMessage::Text { text, .. } => format!("{}:{}", text.offset, text.text),
                NodeMessage::Stored { seq, .. } => format!("stored {seq}"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(sent, ["0:héllo", "stored 8", "5:!"]);
        assert_eq!(batch.take(session, 8), [NodeMessage::Stored { session, seq: 8 }]);
    }

    #[test]
    fn every_message_fits_into_a_notification() {
        // Control characters take six bytes each.
        let long = "\u{1}".repeat(3 * TEXT_MAX_CHARS + 1);
        let mut batch = Batch::default();
        batch.add_text(&delta(0, &long));
        let messages = batch.take(SessionId(Ulid(3)), 0);
        assert_eq!(messages.len(), 4);
        let mut next = 0;
        for message in &messages {
            assert!(serde_json::to_string(message).expect("JSON").len() < 8000);
            let NodeMessage::Text { text, .. } = message else { panic!("{message:?}") };
            assert_eq!((text.offset, text.draft), (next, next == 0));
            next += text.text.chars().count();
        }
        assert_eq!(next, long.chars().count());
    }
}
