//! Group commit: the first waiting caller becomes the leader and runs the writes of the whole
//! group.
//!
//! A caller that finds the writer free runs everything that is queued; if more writes keep
//! arriving, a blocking thread takes over until the queue is empty. The queue cannot stall: a
//! leader checks the queue again after it releases the writer, and a caller tries the writer after
//! it has queued its write. A cancelled caller removes its write unless a leader has already taken
//! it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::Error;
use crate::transition::{Outcome, Stored};
use crate::write::PreparedWrite;

use super::writer::{Shared, Writer};

/// Most writes of one group.
const GROUP_MAX: usize = 256;
/// Total size of bodies after which a group is closed.
const GROUP_MAX_BYTES: usize = 64 << 20;
/// Most queued writes; further ones are rejected.
const QUEUE_MAX: usize = 65_536;
/// Groups that a caller runs as leader before a thread takes over.
const LEADER_GROUPS_MAX: usize = 2;
/// Number of unanswered writes from which the queue counts as busy.
const BUSY_WRITES: usize = 16;

/// A queued write.
struct Job {
    ticket: u64,
    write: PreparedWrite,
    answer: oneshot::Sender<Result<Stored, Error>>,
}

/// The queued writes and the writer.
pub(crate) struct WriteQueue {
    shared: Arc<Shared>,
    tickets: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    writer: Mutex<Option<Writer>>,
    unanswered: AtomicUsize,
}

/// Removes the write of a caller that is cancelled.
struct Waiter<'a> {
    queue: &'a WriteQueue,
    ticket: u64,
    /// Whether the write has left the queue.
    is_answered: bool,
}

impl<'a> Waiter<'a> {
    fn new(queue: &'a WriteQueue) -> Self {
        queue.unanswered.fetch_add(1, Ordering::Relaxed);
        let ticket = queue.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        Self { queue, ticket, is_answered: false }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.queue.jobs().retain(|job| job.ticket != self.ticket);
        }
        self.queue.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WriteQueue {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            tickets: AtomicU64::new(0),
            jobs: Mutex::default(),
            writer: Mutex::new(None),
            unanswered: AtomicUsize::new(0),
        }
    }

    /// Whether many callers are writing at once.
    pub(crate) fn is_busy(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) >= BUSY_WRITES
    }

    /// Whether this process has written anything.
    pub(crate) fn has_written(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    /// Gives the connection of an idle writer to the readers.
    pub(crate) fn close_writer(&self) {
        if let Some(writer) = self.writer.try_lock().ok().and_then(|mut slot| slot.take()) {
            writer.close();
        }
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Nothing under this lock can panic.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write, alone or in a group.
    pub(crate) async fn run(self: &Arc<Self>, write: PreparedWrite) -> Result<Stored, Error> {
        let mut waiter = Waiter::new(self);
        let (answer, mut answered) = oneshot::channel();
        {
            let mut jobs = self.jobs();
            if jobs.len() >= QUEUE_MAX {
                return Err(Error::Unavailable(format!("{QUEUE_MAX} writes are queued already")));
            }
            jobs.push_back(Job { ticket: waiter.ticket, write, answer });
        }
        if self.is_grouping_likely() {
            // Lets other tasks queue their writes, so that they share the transaction.
            tokio::task::yield_now().await;
        }
        // A caller that has its answer does not lead: its group would be nearly empty.
        if let Ok(outcome) = answered.try_recv() {
            waiter.is_answered = true;
            return outcome;
        }
        if self.lead(LEADER_GROUPS_MAX) == Queued::More {
            let queue = self.clone();
            tokio::task::spawn_blocking(move || while queue.lead(usize::MAX) == Queued::More {});
        }
        let outcome = answered.await;
        waiter.is_answered = outcome.is_ok();
        outcome.map_err(|_| Error::Internal("a write was given no answer".to_owned()))?
    }

    /// Whether other tasks may queue writes before this one runs. With one thread they can do so
    /// only now; with several, a single write is not delayed.
    fn is_grouping_likely(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) > 1
            || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    /// Runs queued writes in at most `groups` groups, unless another caller leads.
    fn lead(&self, groups: usize) -> Queued {
        for _ in 0..groups {
            let mut slot = match self.writer.try_lock() {
                Ok(slot) => slot,
                // The panicking leader's transaction was rolled back.
                Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
                Err(TryLockError::WouldBlock) => return Queued::Nothing,
            };
            let group = self.take_group();
            if !group.is_empty() {
                let outcomes = run_group(&mut slot, &self.shared, &group);
                for (job, outcome) in group.into_iter().zip(outcomes) {
                    let stored = outcome.map(|outcome| Stored { rule: job.write.rule, outcome });
                    // A cancelled caller is not answered; its write stays written.
                    let _ = job.answer.send(stored);
                }
            }
            drop(slot);
            if self.jobs().is_empty() {
                return Queued::Nothing;
            }
        }
        Queued::More
    }

    /// Takes the next group, in order.
    fn take_group(&self) -> Vec<Job> {
        let mut jobs = self.jobs();
        let mut bytes = 0;
        let fits = |job: &&Job| {
            let before = bytes;
            bytes += job.write.bytes;
            before < GROUP_MAX_BYTES
        };
        let count = jobs.iter().take(GROUP_MAX).take_while(fits).count();
        jobs.drain(..count).collect()
    }
}

/// What a leader leaves in the queue.
#[derive(PartialEq)]
enum Queued {
    Nothing,
    More,
}

/// Runs a group. A panic is a bug: it drops the connection and the lock, which rolls the
/// transaction back, and the next group opens a new writer.
fn run_group(
    slot: &mut Option<Writer>,
    shared: &Arc<Shared>,
    group: &[Job],
) -> Vec<Result<Outcome, Error>> {
    let writes: Vec<&PreparedWrite> = group.iter().map(|job| &job.write).collect();
    let run = catch_unwind(AssertUnwindSafe(|| {
        let writer = match slot.take() {
            Some(writer) => writer,
            None => Writer::open(shared.clone())?,
        };
        let writer = slot.insert(writer);
        let outcomes = writer.run_group(&writes);
        writer.checkpoint();
        Ok(outcomes)
    }));
    let error = match run {
        Ok(Ok(outcomes)) => return outcomes,
        Ok(Err(error)) => error,
        Err(_) => {
            *slot = None;
            Error::Internal("the writer panicked and its transaction was rolled back".to_owned())
        }
    };
    group.iter().map(|_| Err(error.clone())).collect()
}
