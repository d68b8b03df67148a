//! Lanes: threads with a connection and a queue of writes each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ctx_core::id::SessionId;
use tokio::sync::oneshot;

use crate::transition::{Applied, Outcome, Stored, Transition};
use crate::write::{PreparedWrite, Target};
use crate::{Error, Write};

use super::Shared;
use super::writer::{Limits, MadeQueries, Writer, key_of, target_hash};

/// Lanes of a process. The session of a write chooses its lane. More lanes make smaller groups:
/// with four, a turn of 64 clients takes a quarter more processor time than with two.
const LANES: usize = 2;
/// Most writes of one group.
const GROUP_MAX: usize = 64;
/// Total size of bodies, in bytes, after which a group is closed.
const GROUP_MAX_BYTES: usize = 16 << 20;
/// Most queued writes of a lane; further ones are rejected.
const QUEUE_MAX: usize = 16_384;
/// Labels whose session is remembered.
const LABELS_MAX: usize = 1 << 16;
/// Number of unanswered writes from which bodies are not compressed.
const BUSY_WRITES: usize = 16;

/// A queued write.
struct Job {
    /// Hash of its target: writes of one session stay in order.
    session: u64,
    write: PreparedWrite,
    answer: oneshot::Sender<Result<Stored, Error>>,
}

/// The queue of a lane.
#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        // Nothing under this lock can panic.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for writes, and takes the next group: of each session and key only the first write.
    /// `None` when the lane ends.
    fn next_group(&self) -> Option<Vec<Job>> {
        let mut jobs = self.jobs();
        while jobs.waiting.is_empty() {
            if jobs.closed {
                return None;
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut group, mut left, mut bytes) = (Vec::new(), VecDeque::new(), 0);
        let (mut sessions, mut keys) = (HashSet::new(), HashSet::new());
        while let Some(job) = jobs.waiting.pop_front() {
            // A cancelled caller's write is dropped.
            if job.answer.is_closed() {
                continue;
            }
            let fits = group.len() < GROUP_MAX && bytes < GROUP_MAX_BYTES;
            let is_first = sessions.insert(job.session);
            if fits && is_first && key_of(&job.write).is_none_or(|key| keys.insert(key)) {
                bytes += job.write.bytes;
                group.push(job);
            } else {
                left.push_back(job);
            }
            if !fits {
                break;
            }
        }
        left.append(&mut jobs.waiting);
        jobs.waiting = left;
        Some(group)
    }
}

/// The lanes of a process.
pub(super) struct Lanes {
    shared: Arc<Shared>,
    queues: Vec<Arc<Queue>>,
    unanswered: AtomicUsize,
    /// The sessions of labels: writes by label and by id take the same lane, else two lanes would
    /// wait for each other's locks.
    labels: Mutex<HashMap<String, SessionId>>,
}

impl Lanes {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, Error> {
        let mut lanes = Self {
            shared: shared.clone(),
            queues: Vec::new(),
            unanswered: AtomicUsize::new(0),
            labels: Mutex::default(),
        };
        for n in 0..LANES {
            let queue = Arc::new(Queue::default());
            lanes.queues.push(queue.clone());
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("ctx-lane-{n}"))
                .spawn(move || serve(&queue, &shared))?;
        }
        Ok(lanes)
    }

    /// Runs a write, alone or in a group.
    pub(super) async fn run(
        &self,
        write: Write,
        rule: Box<dyn Transition>,
    ) -> Result<Stored, Error> {
        let busy = self.unanswered.fetch_add(1, Ordering::Relaxed) >= BUSY_WRITES;
        let _count = Count(&self.unanswered);
        let (session, label) = self.session_of(&write.target);
        let write = PreparedWrite::new(write, rule, self.shared.compress && !busy);
        let (answer, answered) = oneshot::channel();
        let queue = &self.queues[(session % self.queues.len() as u64) as usize];
        {
            let mut jobs = queue.jobs();
            if jobs.waiting.len() >= QUEUE_MAX {
                return Err(Error::Unavailable(format!("{QUEUE_MAX} writes are queued already")));
            }
            jobs.waiting.push_back(Job { session, write, answer });
        }
        queue.changed.notify_one();
        let stored = answered.await;
        let stored =
            stored.map_err(|_| Error::Internal("a write was given no answer".to_owned()))??;
        if let (Some(label), Outcome::Applied(Applied { session, .. })) = (label, &stored.outcome) {
            self.remember(label, *session);
        }
        Ok(stored)
    }

    fn labels(&self) -> MutexGuard<'_, HashMap<String, SessionId>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash of a session, and its label if the session is not known yet.
    fn session_of(&self, target: &Target) -> (u64, Option<String>) {
        let Target::Label(label) = target else { return (target_hash(target), None) };
        match self.labels().get(label) {
            Some(session) => (target_hash(&Target::Id(*session)), None),
            None => (target_hash(target), Some(label.clone())),
        }
    }

    fn remember(&self, label: String, session: SessionId) {
        let mut labels = self.labels();
        if labels.len() >= LABELS_MAX {
            labels.clear();
        }
        labels.insert(label, session);
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.jobs().closed = true;
            queue.changed.notify_one();
        }
    }
}

struct Count<'a>(&'a AtomicUsize);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The thread of a lane.
fn serve(queue: &Queue, shared: &Arc<Shared>) {
    let (mut writer, mut made) =
        (Writer::new(shared.clone(), Limits::GROUP), MadeQueries::default());
    while let Some(group) = queue.next_group() {
        let writes: Vec<&PreparedWrite> = group.iter().map(|job| &job.write).collect();
        // A panic is a bug. It drops the connection, which rolls the transaction back, and the
        // callers get no answer.
        let Ok(outcomes) = catch_unwind(AssertUnwindSafe(|| writer.run_group(&writes, &mut made)))
        else {
            writer = Writer::new(shared.clone(), Limits::GROUP);
            continue;
        };
        if let Some(wake) = &shared.wake_indexer {
            let _ = wake.try_send(());
        }
        let mut later = Vec::new();
        for (job, outcome) in group.into_iter().zip(outcomes) {
            match outcome {
                Some(outcome) => {
                    let stored = outcome.map(|outcome| Stored { rule: job.write.rule, outcome });
                    // A cancelled caller is not answered; its write stays written.
                    let _ = job.answer.send(stored);
                }
                None => later.push(job),
            }
        }
        let mut jobs = queue.jobs();
        later.into_iter().rev().for_each(|job| jobs.waiting.push_front(job));
    }
}
