//! Several writes in one transaction: all of them or none.
//!
//! The writes arrive one by one while the transaction is open, so that a large import needs little
//! memory. The transaction is committed only after the end was received: a caller that fails or is
//! killed before leaves nothing behind.

use std::sync::Mutex;
use std::time::Duration;

use ctx_core::decide::{Decided, SessionView};
use ctx_core::id::ObjectId;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::driver::{Db, Lock, Table, Tx};
use crate::transition::{Outcome, Written, without_reply, written};
use crate::write::{self, PreparedWrite, WriteError};
use crate::{Error, Store, Write, schema};

/// How long the transaction waits for a write before it sends a statement, so that a server does
/// not end the transaction as idle.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A rule without a reply.
type Rule = Box<dyn Fn(Option<&SessionView>) -> Decided<()> + Send>;

/// One write of a transaction with several.
pub struct AtomicWrite {
    /// What it reads and brings.
    pub write: Write,
    /// The rule that it runs. It sees what the writes before it have changed.
    pub rule: Rule,
}

/// Executes the received writes in one transaction. `None` ends it and commits; a closed channel
/// rolls it back.
///
/// # Errors
/// If a rule refuses, the channel was closed before its end, or the store fails. Nothing is stored
/// then.
pub async fn execute_all(
    store: &Store,
    writes: mpsc::Receiver<Option<AtomicWrite>>,
) -> Result<Vec<Written<()>>, Error> {
    let (runtime, writes) = (Handle::current(), Mutex::new(Some(writes)));
    let change = move |tx: &mut dyn Tx| {
        // A driver that must open an index first runs this function again, so nothing is received
        // before the first lookup.
        let db: &dyn Db = tx;
        db.locate_one(Table::Turns, ObjectId::from_bytes([0; 32]))?;
        let taken = writes.lock().map_or(None, |mut slot| slot.take());
        let mut taken = taken.ok_or_else(|| {
            let why = "the connection was lost, or another process was in the way";
            Error::Unavailable(format!("{why}; nothing was stored"))
        })?;
        run_all(tx, &runtime, &mut taken)
    };
    store.transact(Lock::Store, change).await
}

fn run_all(
    tx: &mut dyn Tx,
    runtime: &Handle,
    writes: &mut mpsc::Receiver<Option<AtomicWrite>>,
) -> Result<Vec<Written<()>>, Error> {
    let mut all = Vec::new();
    loop {
        match runtime.block_on(async { tokio::time::timeout(IDLE_MAX, writes.recv()).await }) {
            Err(_) => drop(schema::stored(tx)?),
            Ok(Some(Some(next))) => all.push(run_one(tx, next)?),
            Ok(Some(None)) => return Ok(all),
            Ok(None) => {
                let why = "the source of the writes has failed; nothing was stored";
                return Err(Error::Unavailable(why.to_owned()));
            }
        }
    }
}

fn run_one(tx: &mut dyn Tx, next: AtomicWrite) -> Result<Written<()>, Error> {
    let job = PreparedWrite::new(next.write, without_reply(next.rule), true);
    match write::run(tx, &job) {
        Ok(Outcome::Applied(applied)) => Ok(written(applied)),
        Ok(Outcome::Replayed(_)) => {
            Err(Error::Internal("a write without a key was answered from the store".to_owned()))
        }
        Err(WriteError::Rejected(error) | WriteError::Failed(error)) => Err(error),
    }
}
