//! What was said, in pages whose cursors stay valid while the head moves.

use ctx_core::decide::{Needs, item_message};
use ctx_core::draft::Draft;
use ctx_core::id::{ObjectId, TurnId};
use ctx_core::inbox::ItemState;
use ctx_core::message::Message;
use ctx_core::refusal::Refusal;
use ctx_store::StoredTurn;
use ctx_store::TurnQuery;

use crate::context::messages_of;
use crate::engine::{Engine, Error, target};
use crate::messages::Messages;

/// A message as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The message.
    pub message: Message,
    /// Its turn; none while that is open.
    pub turn: Option<TurnId>,
    /// Who answered in that turn.
    pub provider_id: Option<String>,
    /// With which model.
    pub model: Option<String>,
}

/// Before the first turn of a history.
const NOWHERE: TurnId = TurnId(ObjectId::from_bytes([0; 32]));

/// A place in a history: a turn and how many of its messages are behind.
///
/// The open turn has no id yet, so a place in it is told by the turn that it follows, `NOWHERE` if it is the first:
/// oldest first its messages are counted on behind those of that turn; newest first the depth is one more, and `done`
/// says how many of its first messages are still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The turn.
    pub turn: TurnId,
    /// Its place in the history, from 1.
    pub depth: u64,
    /// How many of its messages were listed.
    pub done: usize,
}

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Oldest first.
    #[default]
    Asc,
    /// Newest first.
    Desc,
}

/// A page of messages and where the next begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The messages, in order.
    pub messages: Vec<Told>,
    /// Where to go on.
    pub next: Option<Place>,
}

fn told(turn: StoredTurn) -> Result<Vec<Told>, Error> {
    let (id, provider_id, model) =
        (turn.id, turn.header.provider_id.clone(), turn.header.model.clone());
    let one = |message| Told {
        message,
        turn: Some(id),
        provider_id: provider_id.clone(),
        model: model.clone(),
    };
    Ok(messages_of(turn)?.into_iter().map(one).collect())
}

impl Messages<'_> {
    /// A page of what was said in a session; the open turn is at the end, with no turn.
    ///
    /// # Errors
    /// If there is no such session, or a turn is damaged.
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
            .view(&target(session), Needs { to_seal: false, ..Needs::CLOSE })
            .await?
            .ok_or(Refusal::NoSession)?;
        let head = view.session.head.map(|head| (head, view.session.turn_count));
        match order {
            Order::Asc => self.engine.forward(head, from, limit, &open(&view)).await,
            Order::Desc => self.engine.backward(head, from, limit, &open(&view)).await,
        }
    }
}

impl Engine {
    async fn forward(
        &self,
        head: Option<(TurnId, u64)>,
        from: Option<Place>,
        limit: usize,
        open: &[Told],
    ) -> Result<Page, Error> {
        let mut page = Page { messages: Vec::new(), next: None };
        let (mut at, mut done) = from.map_or((1, 0), |place| (place.depth.max(1), place.done));
        if let Some(place) = from.filter(|place| place.depth > 0)
            && self.at_depth(head, place.depth).await?.is_none_or(|turn| turn.id != place.turn)
        {
            // The head was moved to another branch: on the old one nothing follows.
            return Ok(page);
        }
        let mut before = Place { turn: NOWHERE, depth: 0, done };
        while let Some((head, depth)) = head.filter(|(_, depth)| at <= *depth) {
            let upto = (at + 63).min(depth);
            let mut turns = self
                .store()
                .turns(TurnQuery::from_depth(head, upto, (upto + 1 - at) as usize))
                .await?;
            turns.reverse();
            for turn in turns {
                let place = Place { turn: turn.id, depth: turn.depth, done: 0 };
                let messages = told(turn)?;
                let count = messages.len();
                for (n, message) in messages.into_iter().enumerate().skip(done) {
                    if page.messages.len() == limit {
                        page.next = Some(Place { done: n, ..place });
                        return Ok(page);
                    }
                    page.messages.push(message);
                }
                before = Place { done: done.max(count), ..place };
                // What was listed of the open turn is counted behind the turn that it follows.
                done = done.saturating_sub(count);
            }
            at = upto + 1;
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
        open: &[Told],
    ) -> Result<Page, Error> {
        let mut page = Page { messages: Vec::new(), next: None };
        let (head_turn, depth) = head.unwrap_or((NOWHERE, 0));
        let mut place =
            from.unwrap_or(Place { turn: head_turn, depth: depth + 1, done: open.len() });
        let mut at = Some(place.turn).filter(|turn| *turn != NOWHERE || place.depth != 1);
        let mut turns = self.turns_to(at).await?;
        if place.depth > turns.first().map_or(0, |turn| turn.depth) {
            // What was open when the list began, and may be a turn by now; what it has grown by since is not asked for.
            let mut above = match self.at_depth(head, place.depth).await? {
                Some(turn) if turn.header.parent == at => told(turn)?,
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
        let mut done = place.done;
        while !turns.is_empty() {
            at = turns.last().and_then(|turn| turn.header.parent);
            for turn in turns {
                let place = Place { turn: turn.id, depth: turn.depth, done: 0 };
                for (n, message) in told(turn)?.into_iter().rev().enumerate().skip(done) {
                    if page.messages.len() == limit {
                        page.next = Some(Place { done: n, ..place });
                        return Ok(page);
                    }
                    page.messages.push(message);
                }
                done = 0;
            }
            turns = self.turns_to(at).await?;
        }
        Ok(page)
    }

    /// The turn at a depth of a history; none where it is shorter.
    async fn at_depth(
        &self,
        head: Option<(TurnId, u64)>,
        depth: u64,
    ) -> Result<Option<StoredTurn>, Error> {
        match head {
            Some((head, deepest)) if depth <= deepest => {
                Ok(self.store().turns(TurnQuery::from_depth(head, depth, 1)).await?.pop())
            }
            _ => Ok(None),
        }
    }

    /// Some of the turns that lead to one, newest first.
    async fn turns_to(&self, turn: Option<TurnId>) -> Result<Vec<StoredTurn>, Error> {
        match turn {
            Some(turn) => Ok(self.store().turns(TurnQuery::newest(turn, 64)).await?),
            None => Ok(Vec::new()),
        }
    }
}

/// The open turn, as far as it is stored.
fn open(view: &ctx_core::decide::SessionView) -> Vec<Told> {
    let run = view.run.as_ref();
    let asked = view.inbox.iter().filter(|item| item.state == ItemState::Taken).map(item_message);
    let made = Draft::of(view.drafts.iter().cloned())
        .messages
        .into_iter()
        .filter(|message| !message.content.is_empty());
    let one = |message| Told {
        message,
        turn: None,
        provider_id: run.map(|run| run.provider_id.clone()),
        model: run.and_then(|run| run.model.clone()),
    };
    asked.chain(made).map(one).collect()
}
