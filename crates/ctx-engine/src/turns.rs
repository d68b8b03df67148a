//! Conversations as far as they need no running agent: finished turns, forks, history.

use ctx_core::decide::{self, Invocation, Needs, SessionView};
use ctx_core::decide::{Fork, TurnNeed};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::message::Message;
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::turn::{About, Ready};
use ctx_store::TurnQuery;
use ctx_store::{StoredTurn, Target};
use ulid::Ulid;

use crate::engine::{Error, target};
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
            Some(head) => Ok(self.engine.store().turns(TurnQuery::newest(head, limit)).await?),
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
        let found = self.engine.store().turns(TurnQuery::newest(turn, 1)).await?.pop();
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
            Some(turn) => Ok(self.engine.store().turns(TurnQuery::newest(turn, limit)).await?),
            None => Ok(Vec::new()),
        }
    }

    /// One turn.
    ///
    /// # Errors
    /// If there is none.
    pub async fn turn(self, id: TurnId) -> Result<StoredTurn, Error> {
        let turn = self.engine.store().turns(TurnQuery::newest(id, 1)).await?.pop();
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
        let turn = match branch.turn {
            Some(turn) => Some(turn),
            None => self.head(session).await?,
        };
        let fork = Fork {
            id: SessionId(Ulid::new()),
            label: branch.label.unwrap_or_else(|| format!("fork-{}", Ulid::new())),
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
        Ok(self.engine.decide(target(session), needs, Vec::new(), rule).await?.reply)
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
