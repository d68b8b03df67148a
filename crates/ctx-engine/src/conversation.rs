//! Conversations as far as they need no running agent: finished turns, forks, history.

use ctx_core::decide::{self, Needs};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::message::Message;
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::session::{self, Origin};
use ctx_core::turn::{About, Body, Ready, messages};
use ctx_store::{Error as StoreError, StoredTurn, Target};
use ulid::Ulid;

use crate::engine::{Engine, Error, target};

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

impl Engine {
    /// Adds a turn under the session's head, in one transaction.
    ///
    /// # Errors
    /// If the head is not `expected` any more, or the store fails.
    pub async fn append_turn(&self, session: &str, expected: Option<TurnId>, turn: NewTurn) -> Result<TurnId, Error> {
        let (ready, body) = Ready::new(turn.about, turn.messages);
        let mut objects = turn.blobs;
        objects.push(body);
        let decision =
            self.decide(target(session), Needs::default(), objects, move |view, _| decide::append_turn(view, expected, &ready)).await?;
        Ok(decision.reply.turn.ok_or_else(|| StoreError::Internal("a turn was added and has no id".to_owned()))?)
    }

    /// The turns that lead to a session's head, newest first.
    ///
    /// # Errors
    /// If there is no such session, or a turn is damaged.
    pub async fn history(&self, session: &str, limit: usize) -> Result<Vec<StoredTurn>, Error> {
        let view = self.store().view(&target(session), Needs::default()).await?.ok_or(Refusal::NoSession)?;
        match view.session.head {
            Some(head) => Ok(self.store().turns(head, limit).await?),
            None => Ok(Vec::new()),
        }
    }

    /// What was said in a session, oldest first: the newest `limit` turns with their words.
    ///
    /// # Errors
    /// If there is no such session, or a turn is damaged.
    pub async fn conversation(&self, session: &str, limit: usize) -> Result<Vec<Exchange>, Error> {
        let mut exchanges = Vec::new();
        for turn in self.history(session, limit).await? {
            let messages = match turn.body {
                Some(body) => {
                    let body: Body = body.decode().map_err(|fault| StoreError::DamagedObject { id: body.id(), why: fault.to_string() })?;
                    messages(&turn.header, body)
                }
                None => Vec::new(),
            };
            exchanges.push(Exchange { id: turn.id, messages });
        }
        exchanges.reverse();
        Ok(exchanges)
    }

    /// A session that shares everything up to a turn and goes its own way from there: one row.
    ///
    /// # Errors
    /// If there is no such turn, or the label is taken.
    pub async fn fork(&self, session: &str, turn: TurnId, label: Option<&str>) -> Result<SessionId, Error> {
        self.fork_into(session, turn, label, None).await
    }

    /// As [`Engine::fork`], perhaps to work in another directory.
    ///
    /// # Errors
    /// If there is no such turn, or the label is taken.
    pub async fn fork_into(
        &self,
        session: &str,
        turn: TurnId,
        label: Option<&str>,
        working_dir: Option<String>,
    ) -> Result<SessionId, Error> {
        let from = self.store().view(&target(session), Needs::default()).await?.ok_or(Refusal::NoSession)?.session;
        let depth = self.store().turns(turn, 1).await?.first().map_or(0, |found| found.depth);
        let label = label.map_or_else(|| format!("fork-{}", Ulid::new()), str::to_owned);
        self.make_session(session::New {
            id: SessionId(Ulid::new()),
            label,
            title: from.title,
            project: from.project,
            working_dir: working_dir.or(from.working_dir),
            persona: from.persona,
            provider_id: from.provider_id,
            model: from.model,
            origin: Origin::Fork,
            parent: None,
            track_tasks: Some(from.track_tasks),
            head: Some(turn),
            turn_count: depth,
            created_at: self.now(),
        })
        .await
    }

    /// What was said in a turn; nothing where its words were purged.
    ///
    /// # Errors
    /// If there is no such turn, or it is damaged.
    pub async fn turn_messages(&self, turn: TurnId) -> Result<Option<Vec<Message>>, Error> {
        let found = self.store().turns(turn, 1).await?.pop();
        let Some((header, body)) = found.and_then(|turn| Some((turn.header, turn.body?))) else { return Ok(None) };
        let body: Body = body.decode().map_err(|fault| StoreError::DamagedObject { id: body.id(), why: fault.to_string() })?;
        Ok(Some(messages(&header, body)))
    }

    /// The newest turn of a session.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn head(&self, session: &str) -> Result<Option<TurnId>, Error> {
        let target: Target = target(session);
        Ok(self.store().view(&target, Needs::default()).await?.ok_or(Refusal::NoSession)?.session.head)
    }
}
