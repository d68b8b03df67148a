//! Messages in pages. Cursors stay valid while the head moves.

use ctx_core::decide::{Needs, item_message};
use ctx_core::draft::Draft;
use ctx_core::id::{ObjectId, TurnId};
use ctx_core::inbox::ItemState;
use ctx_core::message::Message;
use ctx_core::refusal::Refusal;
use ctx_core::time::Timestamp;
use ctx_store::{StoredTurn, TurnQuery};

use crate::engine::{Engine, Error};
use crate::messages::Messages;

/// A message with its turn.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct ListedMessage {
    pub message: Message,
    /// The turn of the message; none while it is open.
    pub turn: Option<TurnId>,
    /// The provider of that turn.
    pub provider_id: Option<String>,
    /// The model of that turn.
    pub model: Option<String>,
    /// When a message that had waited in the inbox was given to the agent.
    pub delivered_at: Option<Timestamp>,
}

/// The turn id of cursors before the first turn.
const NOWHERE: TurnId = TurnId(ObjectId::from_bytes([0; 32]));

/// A cursor in a history: a turn and the number of its messages that were listed.
///
/// The open turn has no id yet, so its cursor names the turn before it, or `NOWHERE` for the first
/// turn. In ascending order the messages of the open turn are counted after those of that turn. In
/// descending order the depth is one higher, and `done` is the number of messages that are still to
/// be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Place {
    pub turn: TurnId,
    /// The depth of the turn in the history, from 1.
    pub depth: u64,
    /// Number of messages of the turn that were listed.
    pub done: usize,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// From oldest to newest.
    #[default]
    Asc,
    /// From newest to oldest.
    Desc,
}

/// A page of messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The messages, in the order that was asked for.
    pub messages: Vec<ListedMessage>,
    /// Cursor of the next page; none after the last.
    pub next: Option<Place>,
}

/// Most turns that one read of a page returns.
const TURNS_MAX: u64 = 256;
/// Bytes of turns after which a page ends, so that pages of large messages use little memory.
pub(crate) const PAGE_MAX_BYTES: usize = 8 << 20;

/// A turn of a page.
struct ListedTurn {
    id: TurnId,
    depth: u64,
    parent: Option<TurnId>,
    messages: Vec<ListedMessage>,
    /// Size of the messages as they are stored.
    bytes: usize,
}

impl ListedTurn {
    fn of(turn: StoredTurn) -> Result<Self, ctx_store::Error> {
        let messages = turn.messages()?.unwrap_or_default();
        let header = turn.header;
        let one = |message: Message| ListedMessage {
            delivered_at: message.delivered_after_waiting(header.started_at),
            message,
            turn: Some(turn.id),
            provider_id: header.provider_id.clone(),
            model: header.model.clone(),
        };
        Ok(Self {
            id: turn.id,
            depth: turn.depth,
            parent: header.parent,
            messages: messages.into_iter().map(one).collect(),
            bytes: turn.body.map_or(0, |body| body.bytes.len()),
        })
    }

    /// The cursor after some of its messages.
    fn place(&self, done: usize) -> Place {
        Place { turn: self.id, depth: self.depth, done }
    }
}

impl Messages<'_> {
    /// A page of a session's messages. Messages of the open turn come last and have no turn id.
    ///
    /// Fails if the session does not exist, or a turn is damaged.
    pub async fn page(
        self,
        session: &str,
        order: Order,
        from: Option<Place>,
        limit: usize,
    ) -> Result<Page, Error> {
        let view = self
            .engine
            .store()
            .view(&self.engine.target(session).await?, Needs { to_seal: false, ..Needs::CLOSE })
            .await?
            .ok_or(Refusal::NoSession)?;
        let head = view.session.head.map(|head| (head, view.session.turn_count));
        match order {
            Order::Asc => self.engine.forward(head, from, limit, &open(&view)).await,
            Order::Desc => self.engine.backward(head, from, limit, &open(&view)).await,
        }
    }

    /// The messages of the open turn as far as they are stored, oldest first.
    ///
    /// Fails if the session does not exist.
    pub async fn open_turn(self, session: &str) -> Result<Vec<Message>, Error> {
        let needs = Needs { to_seal: false, ..Needs::CLOSE };
        let view = self.engine.store().view(&self.engine.target(session).await?, needs).await?;
        let view = view.ok_or(Refusal::NoSession)?;
        Ok(open(&view).into_iter().map(|listed| listed.message).collect())
    }
}

impl Engine {
    async fn forward(
        &self,
        head: Option<(TurnId, u64)>,
        from: Option<Place>,
        limit: usize,
        open: &[ListedMessage],
    ) -> Result<Page, Error> {
        let mut page = Page { messages: Vec::new(), next: None };
        let (mut at, mut done) = from.map_or((1, 0), |place| (place.depth.max(1), place.done));
        let mut expected = from.filter(|place| place.depth > 0).map(|place| place.turn);
        if expected.is_some() && head.is_none_or(|(_, depth)| at > depth) {
            return Ok(page);
        }
        let (mut before, mut bytes) = (Place { turn: NOWHERE, depth: 0, done }, 0);
        while let Some((head, depth)) = head.filter(|(_, depth)| at <= *depth) {
            let wanted = limit.saturating_add(1).saturating_sub(page.messages.len());
            let upto = at.saturating_add(TURNS_MAX.min(wanted as u64)).min(depth + 1) - 1;
            let query = TurnQuery {
                oldest_first: true,
                max_messages: wanted.saturating_add(done),
                max_bytes: PAGE_MAX_BYTES,
                ..TurnQuery::from_depth(head, upto, (upto + 1 - at) as usize)
            };
            for turn in self.store().map_turns(query, ListedTurn::of).await? {
                if expected.take().is_some_and(|expected| expected != turn.id) {
                    // The head was moved to another branch, so the old one has no further messages.
                    return Ok(page);
                }
                // A turn that was listed before may be larger than a page.
                if bytes > PAGE_MAX_BYTES && !page.messages.is_empty() {
                    page.next = Some(before);
                    return Ok(page);
                }
                bytes += turn.bytes;
                let (count, place) = (turn.messages.len(), turn.place(0));
                for (n, message) in turn.messages.into_iter().enumerate().skip(done) {
                    if page.messages.len() == limit {
                        page.next = Some(Place { done: n, ..place });
                        return Ok(page);
                    }
                    page.messages.push(message);
                }
                before = Place { done: done.max(count), ..place };
                // Messages of the open turn are counted after those of the turn before it.
                done = done.saturating_sub(count);
                at = place.depth + 1;
            }
        }
        let room = limit - page.messages.len();
        page.messages.extend(open.iter().skip(done).take(room).cloned());
        if done.saturating_add(room) < open.len() {
            page.next = Some(Place { done: before.done + room, ..before });
        }
        Ok(page)
    }

    async fn backward(
        &self,
        head: Option<(TurnId, u64)>,
        from: Option<Place>,
        limit: usize,
        open: &[ListedMessage],
    ) -> Result<Page, Error> {
        let mut page = Page { messages: Vec::new(), next: None };
        let (head_turn, depth) = head.unwrap_or((NOWHERE, 0));
        let mut place =
            from.unwrap_or(Place { turn: head_turn, depth: depth + 1, done: open.len() });
        let mut at = Some(place.turn).filter(|turn| *turn != NOWHERE || place.depth != 1);
        let mut turns = self.turns_to(at, limit).await?;
        if place.depth > turns.first().map_or(0, |turn| turn.depth) {
            // The turn that was open when the list started, which may be committed now. Messages
            // that were added since are not listed.
            let mut above = match self.at_depth(head, place.depth).await? {
                Some(turn) if turn.parent == at => turn.messages,
                None if head_turn == place.turn => open.to_vec(),
                _ => Vec::new(),
            };
            above.truncate(place.done);
            page.messages.extend(above.iter().rev().take(limit).cloned());
            if above.len() > limit {
                page.next = Some(Place { done: above.len() - limit, ..place });
                return Ok(page);
            }
            place.done = 0;
        }
        let (mut done, mut bytes) = (place.done, 0);
        while !turns.is_empty() {
            at = turns.last().and_then(|turn| turn.parent);
            for turn in turns {
                let place = turn.place(0);
                for (n, message) in turn.messages.into_iter().rev().enumerate().skip(done) {
                    if page.messages.len() == limit || bytes > PAGE_MAX_BYTES {
                        page.next = Some(Place { done: n, ..place });
                        return Ok(page);
                    }
                    page.messages.push(message);
                }
                bytes += turn.bytes;
                done = 0;
            }
            turns = self.turns_to(at, limit - page.messages.len()).await?;
        }
        Ok(page)
    }

    /// The turn at a depth of a history; none where the history is shorter.
    async fn at_depth(
        &self,
        head: Option<(TurnId, u64)>,
        depth: u64,
    ) -> Result<Option<ListedTurn>, Error> {
        match head {
            Some((head, deepest)) if depth <= deepest => {
                let query = TurnQuery::from_depth(head, depth, 1);
                Ok(self.store().map_turns(query, ListedTurn::of).await?.pop())
            }
            _ => Ok(None),
        }
    }

    /// A turn and its ancestors, newest first, for a page with room for some more messages.
    async fn turns_to(&self, turn: Option<TurnId>, room: usize) -> Result<Vec<ListedTurn>, Error> {
        let Some(turn) = turn else { return Ok(Vec::new()) };
        let wanted = room.saturating_add(1);
        let query = TurnQuery {
            max_messages: wanted,
            max_bytes: PAGE_MAX_BYTES,
            ..TurnQuery::newest(turn, wanted.min(TURNS_MAX as usize))
        };
        Ok(self.store().map_turns(query, ListedTurn::of).await?)
    }
}

/// The messages of the open turn, as far as they are stored.
fn open(view: &ctx_core::decide::SessionView) -> Vec<ListedMessage> {
    let run = view.run.as_ref();
    let taken = view.inbox.iter().filter(|item| item.state == ItemState::Taken).map(item_message);
    let made = Draft::of(view.drafts.iter().cloned())
        .messages
        .into_iter()
        .filter(|message| !message.content.is_empty());
    let one = |message| ListedMessage {
        delivered_at: run
            .and_then(|run| Message::delivered_after_waiting(&message, run.turn_started_at)),
        message,
        turn: None,
        provider_id: run.map(|run| run.provider_id.clone()),
        model: run.and_then(|run| run.model.clone()),
    };
    taken.chain(made).map(one).collect()
}
