//! Turns of a session: append, read, fork.

use ctx_core::decide::{self, Fork, Invocation, Needs, SessionView, TurnNeed};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::message::Message;
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::turn::{About, Ready, is_with_ctx_only};
use ctx_store::{StoredTurn, Target, TurnQuery};

use crate::engine::{Engine, Error};
use crate::message_pages::{Order, PAGE_MAX_BYTES};
use crate::messages::Messages;
use crate::sessions::Sessions;

/// Number of turns that are searched for the newest one with an agent.
const NOTICES_MAX: usize = 64;

/// A finished turn to be appended.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct NewTurn {
    /// Status, provider and times of the turn.
    pub about: About,
    pub messages: Vec<Message>,
    /// The blobs that the messages refer to.
    pub blobs: Vec<Named>,
}

/// A turn with its messages.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Exchange {
    pub id: TurnId,
    /// Its messages; empty where the body was purged.
    pub messages: Vec<Message>,
}

/// How a fork differs from its source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Branch {
    /// The turn at which it branches off; the head if none.
    pub turn: Option<TurnId>,
    /// Generated if none.
    pub label: Option<String>,
    /// The title of the source if none.
    pub title: Option<String>,
    /// The directory of the source if none.
    pub working_dir: Option<String>,
}

impl Messages<'_> {
    /// Appends a turn to the session's history.
    ///
    /// Fails if the head is not `expected` any more, or the store fails.
    pub async fn append_turn(
        self,
        session: &str,
        expected: Option<TurnId>,
        turn: NewTurn,
    ) -> Result<TurnId, Error> {
        let (ready, body) = Ready::new(turn.about, turn.messages);
        let mut objects = turn.blobs;
        objects.push(body);
        let written = self
            .engine
            .decide(
                self.engine.target(session).await?,
                Needs::default(),
                objects,
                move |view, _| decide::append_turn(view, expected, &ready),
            )
            .await?;
        Ok(written.reply)
    }

    /// The newest turns of a session, newest first.
    ///
    /// Fails if the session does not exist, or a turn is damaged.
    pub async fn history(self, session: &str, limit: usize) -> Result<Vec<StoredTurn>, Error> {
        match self.engine.sessions().head(session).await? {
            Some(head) => Ok(self.engine.store().turns(TurnQuery::newest(head, limit)).await?),
            None => Ok(Vec::new()),
        }
    }

    /// The newest `limit` turns with their messages, oldest first.
    ///
    /// Fails if the session does not exist, or a turn is damaged.
    pub async fn conversation(self, session: &str, limit: usize) -> Result<Vec<Exchange>, Error> {
        let Some(head) = self.engine.sessions().head(session).await? else {
            return Ok(Vec::new());
        };
        let exchange = |turn: StoredTurn| {
            Ok(Exchange { id: turn.id, messages: turn.messages()?.unwrap_or_default() })
        };
        let query = TurnQuery::newest(head, limit);
        let mut exchanges = self.engine.store().map_turns(query, exchange).await?;
        exchanges.reverse();
        Ok(exchanges)
    }

    /// The messages of a turn; none where its body was purged.
    ///
    /// Fails if the turn does not exist, or is damaged.
    pub async fn turn_messages(self, turn: TurnId) -> Result<Option<Vec<Message>>, Error> {
        let found = self.engine.store().turns(TurnQuery::newest(turn, 1)).await?.pop();
        Ok(found.map(|turn| turn.messages()).transpose()?.flatten())
    }

    /// A page of turns of the head's path, from the turn `from` on. Without it the page starts at
    /// the head or, in ascending order, at the root. It ends early before its bodies exceed
    /// `PAGE_MAX_BYTES`.
    ///
    /// Fails if the session or the turn does not exist.
    pub async fn turns(
        self,
        session: &str,
        order: Order,
        from: Option<TurnId>,
        limit: usize,
    ) -> Result<Vec<StoredTurn>, Error> {
        let session = self.engine.sessions().get(session).await?.session;
        let first = match from {
            Some(turn) => self.turn(turn).await?.depth,
            None => 1,
        };
        let (Some(head), store) = (session.head, self.engine.store()) else {
            return Ok(Vec::new());
        };
        if order == Order::Desc {
            let newest = TurnQuery::newest(from.unwrap_or(head), limit);
            return Ok(store.turns(TurnQuery { max_bytes: PAGE_MAX_BYTES, ..newest }).await?);
        }
        let last = (first + limit as u64 - 1).min(session.turn_count);
        let Some(count) = (last + 1).checked_sub(first).filter(|count| *count > 0) else {
            return Ok(Vec::new());
        };
        let query = TurnQuery {
            oldest_first: true,
            max_bytes: PAGE_MAX_BYTES,
            ..TurnQuery::from_depth(head, last, count as usize)
        };
        let turns = store.turns(query).await?;
        // After a rewind or a retry the cursor may be on another branch, which has no further page.
        Ok(turns.into_iter().skip_while(|turn| from.is_some_and(|from| from != turn.id)).collect())
    }

    /// The turn at which the page after this turn starts; none at the end of the path.
    ///
    /// Fails if the session does not exist.
    pub async fn next_page(
        self,
        session: &str,
        order: Order,
        last: &StoredTurn,
    ) -> Result<Option<TurnId>, Error> {
        if order == Order::Desc {
            return Ok(last.header.parent);
        }
        let session = self.engine.sessions().get(session).await?.session;
        let depth = last.depth + 1;
        let Some(head) = session.head.filter(|_| depth <= session.turn_count) else {
            return Ok(None);
        };
        let query = TurnQuery::from_depth(head, depth, 1);
        Ok(self.engine.store().map_turns(query, |turn| Ok(turn.id)).await?.pop())
    }

    /// A turn by its id.
    ///
    /// Fails if it does not exist.
    pub async fn turn(self, id: TurnId) -> Result<StoredTurn, Error> {
        let turn = self.engine.store().turns(TurnQuery::newest(id, 1)).await?.pop();
        Ok(turn.ok_or_else(|| ctx_store::Error::NotFound { what: "turn", name: id.to_string() })?)
    }
}

impl Engine {
    /// The newest turn with an agent: notices and commands to ctx are skipped.
    pub(crate) async fn last_exchange(&self, head: TurnId) -> Result<Option<StoredTurn>, Error> {
        let mut at = Some(head);
        for _ in 0..NOTICES_MAX {
            let Some(turn) = at else { break };
            let turn = self.messages().turn(turn).await?;
            let messages = turn.messages()?.unwrap_or_default();
            if !is_with_ctx_only(turn.header.provider_id.as_deref(), &messages) {
                return Ok(Some(turn));
            }
            at = turn.header.parent;
        }
        Ok(None)
    }
}

impl Sessions<'_> {
    /// Creates a session that shares all turns up to the given one.
    ///
    /// Fails if the turn does not exist, or the label is in use.
    pub async fn fork(
        self,
        session: &str,
        turn: TurnId,
        label: Option<&str>,
    ) -> Result<SessionId, Error> {
        self.engine
            .sessions()
            .branch(
                session,
                Branch { turn: Some(turn), label: label.map(str::to_owned), ..Branch::default() },
            )
            .await
    }

    /// Forks a session, if wanted with another working directory or title.
    ///
    /// Fails if the turn is not in the session's tree, or the label is in use.
    pub async fn branch(self, session: &str, branch: Branch) -> Result<SessionId, Error> {
        let turn = match branch.turn {
            Some(turn) => Some(turn),
            None => self.head(session).await?,
        };
        let fork = Fork {
            id: SessionId(self.engine.new_id()),
            label: branch.label.unwrap_or_else(|| format!("fork-{}", self.engine.new_id())),
            turn,
            title: branch.title,
            working_dir: branch.working_dir,
        };
        let needs = Needs {
            turn: turn.map(TurnNeed::ForkPoint),
            label: Some(fork.label.clone()),
            ..Needs::PINS
        };
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::fork(view, &fork, invocation)
        };
        Ok(self
            .engine
            .decide(self.engine.target(session).await?, needs, Vec::new(), rule)
            .await?
            .reply)
    }

    /// The head of a session.
    ///
    /// Fails if the session does not exist.
    pub async fn head(self, session: &str) -> Result<Option<TurnId>, Error> {
        let target: Target = self.engine.target(session).await?;
        Ok(self
            .engine
            .store()
            .view(&target, Needs::default())
            .await?
            .ok_or(Refusal::NoSession)?
            .session
            .head)
    }
}
