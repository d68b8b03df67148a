//! Who commits: the first who waits commits for all who wait.
//!
//! Nobody is handed a write and woken for it. Whoever finds the writer free takes it and commits everything that
//! has gathered; when others keep coming, a thread takes over until the queue is empty. It always moves:
//! whoever lets go of the writer looks at the queue once more, and whoever queues a write tries the writer
//! after that, so one of the two sees the other. A caller who goes away takes along what nobody has taken up.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::sync::oneshot;

use crate::transition::{Outcome, Stored, Transition};
use crate::{Error, Write};

use super::pack::Packed;
use super::writer::{Shared, Writer};

/// The most writes that one group takes.
const GROUP_MAX: usize = 256;
/// A group that has gathered so many bytes takes no more.
const GROUP_MAX_BYTES: usize = 64 << 20;
/// The most writes that may wait; one more is refused.
const WAITING_MAX: usize = 65_536;
/// After so many groups, a caller has done enough for others.
const LEAD_MAX: usize = 2;

/// Many write at once when so many are waiting for an answer.
const BUSY: usize = 16;

/// A write on its way.
pub(crate) struct Job {
    ticket: u64,
    pub(crate) write: Write,
    pub(crate) rule: Box<dyn Transition>,
    pub(crate) objects: Vec<Packed>,
    answer: oneshot::Sender<Result<Stored, Error>>,
}

impl Job {
    /// How many bytes it brings along.
    pub(crate) fn bytes(&self) -> usize {
        self.objects.iter().map(|object| object.bytes.len()).sum()
    }
}

/// The writes that wait, and the writer.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    tickets: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    writer: Mutex<Option<Writer>>,
    /// How many have come and not been answered.
    waiting: AtomicUsize,
}

/// Somebody who waits.
struct Waiting<'a> {
    queue: &'a Queue,
    ticket: u64,
}

impl<'a> Waiting<'a> {
    fn new(queue: &'a Queue) -> Self {
        queue.waiting.fetch_add(1, Ordering::Relaxed);
        Self { queue, ticket: queue.tickets.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.jobs().retain(|job| job.ticket != self.ticket);
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            tickets: AtomicU64::new(0),
            jobs: Mutex::default(),
            writer: Mutex::new(None),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Whether many write at once.
    pub(crate) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= BUSY
    }

    /// Whether anything was ever written here.
    pub(crate) fn has_written(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Nothing that can panic is done under this lock.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a write, alone or with others.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        write: Write,
        rule: Box<dyn Transition>,
        objects: Vec<Packed>,
    ) -> Result<Stored, Error> {
        let waiting = Waiting::new(self);
        let (answer, mut answered) = oneshot::channel();
        {
            let mut jobs = self.jobs();
            if jobs.len() >= WAITING_MAX {
                return Err(Error::Unavailable(format!(
                    "{WAITING_MAX} writes are waiting already"
                )));
            }
            jobs.push_back(Job { ticket: waiting.ticket, write, rule, objects, answer });
        }
        // Others who are about to write may do so now and share the transaction.
        tokio::task::yield_now().await;
        // Who has an answer leaves the writer to those who have none: one who led now would commit for next to nobody.
        if let Ok(outcome) = answered.try_recv() {
            return outcome;
        }
        if self.lead(LEAD_MAX) == Led::MoreToDo {
            let queue = self.clone();
            tokio::task::spawn_blocking(move || while queue.lead(usize::MAX) == Led::MoreToDo {});
        }
        answered.await.map_err(|_| Error::Internal("a write was given no answer".to_owned()))?
    }

    /// Commits what waits, unless somebody else does, in at most so many groups.
    fn lead(&self, groups: usize) -> Led {
        for _ in 0..groups {
            let mut slot = match self.writer.try_lock() {
                Ok(slot) => slot,
                // What panicked was undone where it happened.
                Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
                Err(TryLockError::WouldBlock) => return Led::Done,
            };
            let group = self.take();
            if !group.is_empty() {
                let outcomes = commit(&mut slot, &self.shared, &group);
                for (job, outcome) in group.into_iter().zip(outcomes) {
                    // Who no longer waits is not told; what was written stays written.
                    let stored = outcome.map(|outcome| Stored { rule: job.rule, outcome });
                    let _ = job.answer.send(stored);
                }
            }
            drop(slot);
            if self.jobs().is_empty() {
                return Led::Done;
            }
        }
        Led::MoreToDo
    }

    /// The next group, in order.
    fn take(&self) -> Vec<Job> {
        let mut jobs = self.jobs();
        let mut bytes = 0;
        let fits = |job: &&Job| {
            let before = bytes;
            bytes += job.bytes();
            before < GROUP_MAX_BYTES
        };
        let count = jobs.iter().take(GROUP_MAX).take_while(fits).count();
        jobs.drain(..count).collect()
    }
}

#[derive(PartialEq)]
enum Led {
    Done,
    MoreToDo,
}

/// Commits a group. A panic on the way is a bug of ours: it lets go of the connection and of the lock, which
/// undoes what was begun, and nobody else has to wait for it.
fn commit(
    slot: &mut Option<Writer>,
    shared: &Arc<Shared>,
    group: &[Job],
) -> Vec<Result<Outcome, Error>> {
    let committed = catch_unwind(AssertUnwindSafe(|| {
        let writer = match slot.take() {
            Some(writer) => writer,
            None => Writer::open(shared.clone())?,
        };
        let writer = slot.insert(writer);
        let outcomes = writer.commit(group);
        writer.checkpoint();
        Ok(outcomes)
    }));
    let error = match committed {
        Ok(Ok(outcomes)) => return outcomes,
        Ok(Err(error)) => error,
        Err(_) => {
            *slot = None;
            Error::Internal("a write failed half-way and was undone".to_owned())
        }
    };
    group.iter().map(|_| Err(error.clone())).collect()
}
