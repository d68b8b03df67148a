//! Rules at the store's boundary: typed outside, type-erased inside.
//!
//! Writes with replies of different types share one queue, so the queue cannot be generic. A
//! [`Transition`] hides the reply type: it runs the rule, gives the store the [`Batch`] and keeps
//! the reply. The store returns the same box after the transaction is synced, and [`execute`] takes
//! the reply out of it. The cost is one box per write.

use std::any::Any;
use std::cell::Cell;

use ctx_core::decide::{Batch, Change, Decided, Event, SessionView};
use ctx_core::id::{NodeId, ObjectId, SessionId};
use ctx_core::refusal::Refusal;
use ctx_core::routing::Routed;
use ctx_core::time::Span;
use serde_json::Value;

use crate::{Error, Store, Write};

/// A rule whose reply type is hidden.
pub trait Transition: Any + Send {
    /// Runs the rule on the rows that the transaction read; `None` where there is no such session.
    /// `routed` is how the session of a message from a channel was found.
    /// It may run more than once and must decide the same each time; the reply of the last run
    /// counts.
    ///
    /// # Errors
    /// If the rule refuses; nothing is stored then.
    fn decide(&self, view: Option<&SessionView>, routed: Option<&Routed>)
    -> Result<Batch, Refusal>;

    /// The idempotency key of the request, if it has one.
    fn key(&self) -> Option<&OnceKey>;

    /// The answer that is stored under the key, in the same transaction. It is called after
    /// `decide`.
    fn answer(&self, session: SessionId) -> Value;
}

/// An idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceKey {
    /// Keys of different scopes are independent.
    pub scope: String,
    /// The client's key.
    pub key: String,
    /// Hash of the request: the same key with another request is refused.
    pub request: ObjectId,
    /// An older answer is not given again, and the new one replaces it. `None` for every answer
    /// that is kept; zero if the request is executed in any case.
    pub max_age: Option<Span>,
}

/// A request that is executed once however often it is sent, and answered the same each time.
pub struct Once<R> {
    /// The key under which the answer is stored for seven days.
    pub key: OnceKey,
    /// Makes the stored answer from the reply.
    pub answer: fn(SessionId, &R) -> Value,
}

/// A transaction that is on disk, as the store returns it.
pub struct Stored {
    /// The rule that the store was given, with the reply of its last run.
    pub rule: Box<dyn Transition>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What a transaction did.
#[derive(Debug)]
pub enum Outcome {
    /// The batch was applied.
    Applied(Applied),
    /// The key was known: this answer was stored with it, and the rule did not run.
    Replayed(Value),
}

/// An applied batch.
#[derive(Debug)]
pub struct Applied {
    /// What the rule decided.
    pub batch: Batch,
    /// The session that was created or changed.
    pub session: SessionId,
    /// The session's newest event.
    pub seq: u64,
    /// The feed row of this batch; none where it has no events.
    pub feed_row: Option<i64>,
    /// The process that owned the session before.
    pub owner: Option<NodeId>,
}

/// A transaction that is on disk, with the rule's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Written<R> {
    /// The rule's reply.
    pub reply: R,
    /// The session that was created or changed.
    pub session: SessionId,
    /// The session's newest event.
    pub seq: u64,
    /// The feed row of this write; none where it has no events.
    pub feed_row: Option<i64>,
    /// The process that owned the session before.
    pub owner: Option<NodeId>,
    /// Whether this write added rows to the outbox.
    pub sends: bool,
    /// The events of this write; the last one has the number `seq`.
    pub events: Vec<Event>,
}

/// What came of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub enum Executed<R> {
    /// It was executed now.
    Written(Written<R>),
    /// It was executed before; this is the stored answer.
    Replayed(Value),
}

struct Typed<R, F> {
    rule: F,
    once: Option<Once<R>>,
    reply: Cell<Option<R>>,
}

impl<R, F> Transition for Typed<R, F>
where
    R: Send + 'static,
    F: Fn(Option<&SessionView>, Option<&Routed>) -> Decided<R> + Send + 'static,
{
    fn decide(
        &self,
        view: Option<&SessionView>,
        routed: Option<&Routed>,
    ) -> Result<Batch, Refusal> {
        let (batch, reply) = (self.rule)(view, routed)?.into_parts();
        self.reply.set(Some(reply));
        Ok(batch)
    }

    fn key(&self) -> Option<&OnceKey> {
        self.once.as_ref().map(|once| &once.key)
    }

    fn answer(&self, session: SessionId) -> Value {
        let Some(reply) = self.reply.take() else { return Value::Null };
        let answer = self.once.as_ref().map_or(Value::Null, |once| (once.answer)(session, &reply));
        self.reply.set(Some(reply));
        answer
    }
}

/// A rule without a reply and without an idempotency key.
pub(crate) fn without_reply(
    rule: impl Fn(Option<&SessionView>) -> Decided<()> + Send + 'static,
) -> Box<dyn Transition> {
    let rule = move |view: Option<&SessionView>, _: Option<&Routed>| rule(view);
    Box::new(Typed { rule, once: None, reply: Cell::new(None) })
}

/// What a write without a reply did.
pub(crate) fn written(applied: Applied) -> Written<()> {
    let Applied { batch, session, seq, feed_row, owner } = applied;
    let sends = batch.changes.iter().any(|change| matches!(change, Change::PutOutgoing(_)));
    Written { reply: (), session, seq, feed_row, owner, sends, events: batch.events }
}

/// Executes a rule in one transaction; `Ok` means that it is on disk.
///
/// # Errors
/// If the rule refuses or the store fails.
pub async fn execute<R, F>(store: &Store, write: Write, rule: F) -> Result<Written<R>, Error>
where
    R: Send + 'static,
    F: Fn(Option<&SessionView>) -> Decided<R> + Send + 'static,
{
    match execute_once(store, write, None, rule).await? {
        Executed::Written(written) => Ok(written),
        Executed::Replayed(_) => {
            Err(Error::Internal("a write without a key was answered from the store".to_owned()))
        }
    }
}

/// Executes a rule in one transaction, unless its key is known.
///
/// # Errors
/// If the rule refuses, the key is known for another request, or the store fails.
pub async fn execute_once<R, F>(
    store: &Store,
    write: Write,
    once: Option<Once<R>>,
    rule: F,
) -> Result<Executed<R>, Error>
where
    R: Send + 'static,
    F: Fn(Option<&SessionView>) -> Decided<R> + Send + 'static,
{
    execute_routed(store, write, once, move |view, _| rule(view)).await
}

/// As [`execute_once`], for a rule that sees how the session of a message from a channel was found.
///
/// # Errors
/// As of [`execute_once`].
pub async fn execute_routed<R, F>(
    store: &Store,
    write: Write,
    once: Option<Once<R>>,
    rule: F,
) -> Result<Executed<R>, Error>
where
    R: Send + 'static,
    F: Fn(Option<&SessionView>, Option<&Routed>) -> Decided<R> + Send + 'static,
{
    let rule = Box::new(Typed { rule, once, reply: Cell::new(None) });
    let stored = store.write(write, rule).await?;
    let Applied { batch, session, seq, feed_row, owner } = match stored.outcome {
        Outcome::Applied(applied) => applied,
        Outcome::Replayed(answer) => return Ok(Executed::Replayed(answer)),
    };
    let rule: Box<dyn Any> = stored.rule;
    let typed = rule.downcast::<Typed<R, F>>().ok();
    let reply = typed
        .and_then(|typed| typed.reply.take())
        .ok_or_else(|| Error::Internal("the store returned another rule".to_owned()))?;
    let sends = batch.changes.iter().any(|change| matches!(change, Change::PutOutgoing(_)));
    let events = batch.events;
    Ok(Executed::Written(Written { reply, session, seq, feed_row, owner, sends, events }))
}
