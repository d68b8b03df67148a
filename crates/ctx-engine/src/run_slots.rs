//! How many runs this process carries out at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Runs of this process, and their limit.
#[derive(Debug)]
pub(crate) struct RunSlots {
    max: usize,
    taken: AtomicUsize,
    /// Set when this process starts no more runs.
    closed: AtomicBool,
    /// Whether a message was left waiting because there was no room.
    waiting: AtomicBool,
    /// Notified when a place becomes free while a message waits.
    pub(crate) freed: Notify,
}

/// The place of one run, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunSlot(Arc<RunSlots>);

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        if self.0.waiting.swap(false, Ordering::AcqRel) {
            self.0.freed.notify_one();
        }
    }
}

impl RunSlots {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            taken: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            freed: Notify::new(),
        })
    }

    /// Gives no more places.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A place for a run, unless all are taken.
    pub(crate) fn take(self: &Arc<Self>) -> Option<RunSlot> {
        if self.is_closed() {
            return None;
        }
        let more = |taken| (taken < self.max).then_some(taken + 1);
        if self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok() {
            return Some(RunSlot(self.clone()));
        }
        self.waiting.store(true, Ordering::Release);
        // A place that became free meanwhile was not reported.
        let again = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        again.ok().map(|_| RunSlot(self.clone()))
    }

    /// A place for a run that is open already.
    pub(crate) fn take_always(self: &Arc<Self>) -> RunSlot {
        self.taken.fetch_add(1, Ordering::AcqRel);
        RunSlot(self.clone())
    }

    /// Number of free places.
    pub(crate) fn free(&self) -> usize {
        if self.is_closed() {
            return 0;
        }
        self.max.saturating_sub(self.taken.load(Ordering::Acquire))
    }

    /// Number of taken places.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_that_becomes_free_is_reported_if_a_message_waits() {
        let slots = RunSlots::new(1);
        let first = slots.take().expect("room");
        assert!(slots.take().is_none());
        let more = slots.take_always();
        assert_eq!((slots.free(), slots.taken()), (0, 2));
        drop(more);
        slots.freed.notified().await;
        drop(first);
        assert_eq!((slots.free(), slots.taken()), (1, 0));
        slots.close();
        assert!(slots.take().is_none() && slots.free() == 0);
    }
}
