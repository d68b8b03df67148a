//! Conversations as far as they need no running agent: finished turns, forks, history.

use ctx_core::decide::{self, Change, Needs};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::message::Message;
use ctx_core::object::Named;
use ctx_core::pin::Pin;
use ctx_core::refusal::Refusal;
use ctx_core::session::{self, Origin};
use ctx_core::turn::{About, Ready};
use ctx_store::{Error as StoreError, StoredTurn, Target};
use ulid::Ulid;

use crate::engine::{Engine, Error, target};
use crate::messages::Messages;
use crate::sessions::Sessions;

/// A finished turn that is to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    /// How and when it was made.
    pub about: About,
    /// What was said.
    pub messages: Vec<Message>,
    /// The blobs that the messages refer to.
    pub blobs: Vec<Named>,
}

/// A turn with its words.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Which.
    pub id: TurnId,
    /// What was said; empty where the words were purged.
    pub messages: Vec<Message>,
}

/// How a fork differs from where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Branch {
    /// Where it goes its own way; at the head if none.
    pub turn: Option<TurnId>,
    /// One is made up where there is none.
    pub label: Option<String>,
    /// The same title if none.
    pub title: Option<String>,
    /// The same files if none.
    pub working_dir: Option<String>,
}

/// The most turns of a tree that are looked at.
const TREE_MAX: usize = 10_000;

impl Messages<'_> {
    /// Adds a turn under the session's head, in one transaction.
    ///
    /// # Errors
    /// If the head is not `expected` any more, or the store fails.
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
            .decide(target(session), Needs::default(), objects, move |view, _| {
                decide::append_turn(view, expected, &ready)
            })
            .await?;
        Ok(written.reply)
    }

    /// The turns that lead to a session's head, newest first.
    ///
    /// # Errors
    /// If there is no such session, or a turn is damaged.
    pub async fn history(self, session: &str, limit: usize) -> Result<Vec<StoredTurn>, Error> {
        let view = self
            .engine
            .store()
            .view(&target(session), Needs::default())
            .await?
            .ok_or(Refusal::NoSession)?;
        match view.session.head {
            Some(head) => Ok(self.engine.store().turns(head, limit).await?),
            None => Ok(Vec::new()),
        }
    }

    /// What was said in a session, oldest first: the newest `limit` turns with their words.
    ///
    /// # Errors
    /// If there is no such session, or a turn is damaged.
    pub async fn conversation(self, session: &str, limit: usize) -> Result<Vec<Exchange>, Error> {
        let mut exchanges = Vec::new();
        for turn in self.engine.messages().history(session, limit).await? {
            exchanges
                .push(Exchange { id: turn.id, messages: turn.messages()?.unwrap_or_default() });
        }
        exchanges.reverse();
        Ok(exchanges)
    }

    /// What was said in a turn; nothing where its words were purged.
    ///
    /// # Errors
    /// If there is no such turn, or it is damaged.
    pub async fn turn_messages(self, turn: TurnId) -> Result<Option<Vec<Message>>, Error> {
        let found = self.engine.store().turns(turn, 1).await?.pop();
        Ok(found.map(|turn| turn.messages()).transpose()?.flatten())
    }

    /// A page of a session's turns, newest first, from a turn on.
    ///
    /// # Errors
    /// If there is no such session or turn.
    pub async fn turns(
        self,
        session: &str,
        from: Option<TurnId>,
        limit: usize,
    ) -> Result<Vec<StoredTurn>, Error> {
        let head = self.engine.sessions().get(session).await?.session.head;
        match from.or(head) {
            Some(turn) => Ok(self.engine.store().turns(turn, limit).await?),
            None => Ok(Vec::new()),
        }
    }

    /// One turn.
    ///
    /// # Errors
    /// If there is none.
    pub async fn turn(self, id: TurnId) -> Result<StoredTurn, Error> {
        let turn = self.engine.store().turns(id, 1).await?.pop();
        Ok(turn.ok_or_else(|| ctx_store::Error::NotFound { what: "turn", name: id.to_string() })?)
    }
}

impl Sessions<'_> {
    /// A session that shares everything up to a turn and goes its own way from there: one row.
    ///
    /// # Errors
    /// If there is no such turn, or the label is taken.
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

    /// Forks, perhaps into another working directory and under another title.
    ///
    /// # Errors
    /// If there is no such turn in the session's tree, or the label is taken.
    pub async fn branch(self, session: &str, branch: Branch) -> Result<SessionId, Error> {
        let view = self
            .engine
            .store()
            .view(&target(session), Needs::PINS)
            .await?
            .ok_or(Refusal::NoSession)?;
        let (from, pins) = (view.session, view.pins);
        let head = branch.turn.or(from.head);
        let depth = match head {
            Some(turn) => self.engine.depth_in(&from, turn).await?,
            None => 0,
        };
        let shared = self.engine.shared_pins(pins, head, depth).await?;
        let new = session::New {
            id: SessionId(Ulid::new()),
            label: branch.label.unwrap_or_else(|| format!("fork-{}", Ulid::new())),
            title: branch.title.or(from.title),
            project: from.project,
            working_dir: branch.working_dir.or(from.working_dir),
            persona: from.persona,
            provider_id: from.provider_id,
            model: from.model,
            origin: Origin::Fork,
            parent: None,
            track_tasks: Some(from.track_tasks),
            head,
            turn_count: depth,
            created_at: self.engine.now(),
        };
        self.engine.create_with(new, shared).await
    }

    /// The newest turn of a session.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn head(self, session: &str) -> Result<Option<TurnId>, Error> {
        let target: Target = target(session);
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

impl Engine {
    /// The pins that a fork at a turn takes along: those of turns that lead to it.
    async fn shared_pins(
        &self,
        pins: Vec<Pin>,
        head: Option<TurnId>,
        depth: u64,
    ) -> Result<Vec<Change>, Error> {
        let mut shared = Vec::new();
        for pin in pins.into_iter().filter(|pin| pin.depth <= depth) {
            let Some(head) = head else { break };
            if self
                .store()
                .turns_from(head, pin.depth, 1)
                .await?
                .first()
                .is_some_and(|turn| turn.id == pin.turn)
            {
                shared.push(Change::Pin { turn: pin.turn, tokens: pin.tokens });
            }
        }
        Ok(shared)
    }

    /// How many turns lead to a turn that a session has or had.
    async fn depth_in(&self, session: &session::Session, turn: TurnId) -> Result<u64, Error> {
        let missing = || StoreError::NotFound { what: "turn", name: turn.to_string() };
        let depth = self.store().turns(turn, 1).await?.first().ok_or_else(missing)?.depth;
        if self.store().is_made_in(session.id, turn).await? {
            return Ok(depth);
        }
        let line = match session.head {
            Some(head) => self.store().turns_from(head, depth, 1).await?,
            None => Vec::new(),
        };
        if line.first().is_some_and(|found| found.id == turn) {
            return Ok(depth);
        }
        // Turns that a rewind left behind are in the tree; one that is too large to be read whole is not searched.
        let tree = self.store().tree(session.id, TREE_MAX).await?;
        if tree.len() == TREE_MAX || tree.iter().any(|found| found.id == turn) {
            return Ok(depth);
        }
        Err(Refusal::NotAnAncestor { turn }.into())
    }
}
