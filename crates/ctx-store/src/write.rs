//! One write: what it reads, the rule it runs, and the order in which the two happen.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ctx_core::decide::Needs;
use ctx_core::id::{ObjectId, SessionId};
use ctx_core::object::{Kind, Named};
use ctx_core::routing::Inbound;
use ctx_core::time::Timestamp;

use crate::Error;
use crate::driver::{Db, Tx};
use crate::pack::{Packed, pack};
use crate::relational::apply::{Input, Objects, apply};
use crate::relational::idempotency_rows;
use crate::relational::load::{load, resolve};
use crate::transition::{Applied, Outcome, Transition};

/// The session that a write or a read is about.
#[derive(Debug, Clone)]
pub enum Target {
    /// By its id.
    Id(SessionId),
    /// By its label, else by one of its aliases.
    Label(String),
    /// By the sender of a message from a channel and the policies.
    Inbound(Arc<Inbound>),
}

/// What a write reads before its rule runs, and what it brings.
#[derive(Debug, Clone)]
pub struct Write {
    /// The session that the rule sees.
    pub target: Target,
    /// The parts of the session that the rule sees.
    pub needs: Needs,
    /// Turn bodies and blobs that the decision will refer to.
    pub objects: Vec<Named>,
    /// The time of all rows that it writes.
    pub now: Timestamp,
}

/// A write with its bodies packed, ready for a transaction.
pub(crate) struct PreparedWrite {
    pub(crate) write: Write,
    pub(crate) rule: Box<dyn Transition>,
    objects: Vec<Packed>,
    /// Bytes of the bodies that the write brings.
    pub(crate) bytes: usize,
    compress: bool,
}

impl PreparedWrite {
    /// Packs the bodies that the write brings.
    pub(crate) fn new(mut write: Write, rule: Box<dyn Transition>, compress: bool) -> Self {
        let objects = std::mem::take(&mut write.objects);
        let objects: Vec<Packed> =
            objects.into_iter().map(|object| pack(object, compress)).collect();
        let bytes = objects.iter().map(|object| object.bytes.len()).sum();
        Self { write, rule, objects, bytes, compress }
    }

    /// The blobs that the write brings.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = ObjectId> {
        let blobs = self.objects.iter().filter(|object| object.kind == Kind::Blob);
        blobs.map(|object| object.id)
    }
}

/// The outcome of one write of a group.
pub(crate) enum WriteError {
    /// Nothing was written; the other writes of the group are not affected.
    Rejected(Error),
    /// The transaction must be rolled back.
    Failed(Error),
}

/// Runs one write: reads, decides, writes. Everything is read before the first row is written, so a
/// write that is rejected leaves nothing behind in the transaction.
pub(crate) fn run(tx: &mut dyn Tx, job: &PreparedWrite) -> Result<Outcome, WriteError> {
    let read = |error| match error {
        Error::Refused(_) | Error::NotFound { .. } => WriteError::Rejected(error),
        other => WriteError::Failed(other),
    };
    let (write, key) = (&job.write, job.rule.key());
    let db: &dyn Db = tx;
    if let Some(key) = key
        && let Some(answer) = idempotency_rows::find(db, key, write.now).map_err(read)?
    {
        return Ok(Outcome::Replayed(answer));
    }
    let mut loaded = load(db, &write.target, &write.needs, write.now).map_err(read)?;
    if let Some(found) = &loaded.session {
        tx.lock_session(found.row).map_err(WriteError::Failed)?;
    }
    // A panicking rule is a bug. It must not end the writer and with it all other writes.
    let (view, routed) = (loaded.view.as_ref(), loaded.routed.as_ref());
    let owner = view.and_then(|view| view.session.owner);
    let decided = catch_unwind(AssertUnwindSafe(|| job.rule.decide(view, routed)));
    let decided = decided.map_err(|_| Error::Internal("a rule panicked".to_owned()));
    let batch = decided.map_err(WriteError::Rejected)?;
    let batch = batch.map_err(|refusal| WriteError::Rejected(refusal.into()))?;
    let db: &dyn Db = tx;
    resolve(db, &batch.changes, &mut loaded.rows).map_err(read)?;
    let own: Vec<Packed> =
        batch.objects.iter().map(|object| pack(object.clone(), job.compress)).collect();
    let input = Input {
        changes: &batch.changes,
        events: &batch.events,
        objects: Objects::new(job.objects.iter().chain(&own)),
        compress: job.compress,
        now: write.now,
    };
    let applied = apply(tx, loaded, &input).map_err(WriteError::Failed)?;
    let applied = applied.ok_or_else(|| {
        WriteError::Rejected(Error::Internal("a rule accepted a write on no session".to_owned()))
    })?;
    if let Some(key) = key {
        let answer = job.rule.answer(applied.session);
        idempotency_rows::insert(tx, key, &answer, write.now).map_err(WriteError::Failed)?;
    }
    Ok(Outcome::Applied(Applied {
        batch,
        session: applied.session,
        seq: applied.seq,
        feed_row: applied.feed_row,
        owner,
    }))
}

/// Whether a write leaves no row behind. A write with an idempotency key stores its key.
pub(crate) fn stores_nothing(write: &PreparedWrite, outcome: &Result<Outcome, Error>) -> bool {
    match outcome {
        Ok(Outcome::Applied(Applied { batch, .. })) => {
            batch.changes.is_empty() && batch.events.is_empty() && write.rule.key().is_none()
        }
        Ok(Outcome::Replayed(_)) | Err(_) => true,
    }
}
