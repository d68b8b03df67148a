//! Who commits: the first who waits commits for all who wait.
//!
//! There is no thread to hand a write to and wake up from. Whoever finds the writer free takes it, commits
//! everything that has gathered, and then asks one of those who came meanwhile to take it next. Three things
//! always hold: a write that is queued has somebody who will commit it; nobody commits another's write after
//! that one was asked to lead; a caller who goes away leaves the queue moving.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use ctx_core::decide::Decision;
use tokio::sync::oneshot;

use crate::{Error, Write};

use super::pack::Packed;
use super::writer::{Shared, Writer};

/// The most writes that one group takes.
const GROUP_MAX: usize = 256;

type Outcome = Result<Decision, Error>;

/// What somebody who waits is told.
enum Answer {
    /// It is done, or it failed.
    Done(Box<Outcome>),
    /// The writer is free: take it, and commit for all.
    Lead,
}

/// A write on its way.
pub(crate) struct Job {
    ticket: u64,
    pub(crate) write: Write,
    pub(crate) objects: Vec<Packed>,
    /// Taken when its owner is asked to lead.
    answer: Option<oneshot::Sender<Answer>>,
}

/// The writes that wait, and the writer.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    tickets: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    writer: Mutex<Option<Writer>>,
}

/// Somebody who waits; going away, they leave the queue moving.
struct Waiting<'a> {
    queue: &'a Queue,
    ticket: u64,
    answered: oneshot::Receiver<Answer>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.answered.close();
        if matches!(self.answered.try_recv(), Ok(Answer::Lead)) {
            self.queue.jobs().retain(|job| job.ticket != self.ticket);
        }
        self.queue.hand_over();
    }
}

impl Queue {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, tickets: AtomicU64::new(0), jobs: Mutex::default(), writer: Mutex::new(None) }
    }

    /// Whether anything was ever written here.
    pub(crate) fn has_written(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Nothing that can panic is done under this lock.
        self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Commits a write, alone or with others.
    pub(crate) async fn commit(&self, write: Write, objects: Vec<Packed>) -> Outcome {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        self.jobs().push_back(Job { ticket, write, objects, answer: Some(answer) });
        let mut waiting = Waiting { queue: self, ticket, answered };
        // Others who are about to write may do so now and share the transaction.
        tokio::task::yield_now().await;
        match self.writer.try_lock() {
            Ok(writer) => {
                if let Some(outcome) = self.lead(writer, ticket) {
                    return outcome;
                }
            }
            Err(TryLockError::Poisoned(_)) => return Err(failed_before()),
            Err(TryLockError::WouldBlock) => {}
        }
        match (&mut waiting.answered).await {
            Ok(Answer::Done(outcome)) => *outcome,
            Ok(Answer::Lead) => {
                let writer = self.writer.lock().map_err(|_| failed_before())?;
                self.lead(writer, ticket).unwrap_or_else(|| Err(Error::Internal("a leader lost its own write".to_owned())))
            }
            Err(_) => Err(failed_before()),
        }
    }

    /// Commits groups until one's own write is among them; `None` if somebody else has taken that already.
    fn lead(&self, mut slot: MutexGuard<'_, Option<Writer>>, ticket: u64) -> Option<Outcome> {
        let mut own = None;
        while own.is_none() && self.jobs().iter().any(|job| job.ticket == ticket) {
            let group = self.take(ticket);
            let outcomes = match writer(&mut slot, &self.shared) {
                Ok(writer) => writer.commit(&group),
                Err(error) => {
                    let text = error.to_string();
                    let mut first = Some(error);
                    group.iter().map(|_| Err(first.take().unwrap_or_else(|| Error::Unavailable(text.clone())))).collect()
                }
            };
            for (job, outcome) in group.into_iter().zip(outcomes) {
                if job.ticket == ticket {
                    own = Some(outcome);
                } else if let Some(answer) = job.answer {
                    // Who no longer waits is not told; what was written stays written.
                    let _ = answer.send(Answer::Done(Box::new(outcome)));
                }
            }
        }
        if let Some(writer) = slot.as_mut() {
            writer.checkpoint();
        }
        own
    }

    /// The next group: in order, without those whose owners were asked to lead.
    fn take(&self, ticket: u64) -> Vec<Job> {
        let mut jobs = self.jobs();
        let mut group = Vec::new();
        let mut at = 0;
        while at < jobs.len() && group.len() < GROUP_MAX {
            if jobs[at].ticket == ticket || jobs[at].answer.is_some() {
                group.extend(jobs.remove(at));
            } else {
                at += 1;
            }
        }
        group
    }

    /// Asks the first who waits to lead, unless somebody leads or was asked already.
    fn hand_over(&self) {
        // Who leads now comes here once more when they are done. Who finds the writer held by this very look
        // has queued before it, and is seen below.
        if self.writer.try_lock().is_err() {
            return;
        }
        let mut jobs = self.jobs();
        if jobs.iter().any(|job| job.answer.is_none()) {
            return;
        }
        for job in jobs.iter_mut() {
            if job.answer.take().is_some_and(|answer| answer.send(Answer::Lead).is_ok()) {
                return;
            }
            // Its owner has gone away; whoever leads next commits it all the same.
            job.answer = Some(oneshot::channel().0);
        }
    }
}

fn writer<'a>(slot: &'a mut Option<Writer>, shared: &Arc<Shared>) -> Result<&'a mut Writer, Error> {
    let writer = match slot.take() {
        Some(writer) => writer,
        None => Writer::open(shared.clone())?,
    };
    Ok(slot.insert(writer))
}

fn failed_before() -> Error {
    Error::Internal("the writer failed before".to_owned())
}
