//! The clock is a port: rules get the time as an argument, and tests set it.

use std::sync::atomic::{AtomicI64, Ordering};

use ctx_core::time::{Span, Timestamp};
use ctx_store::Store;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time in milliseconds since the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// The clock of a store: that of the database if several machines share it, else that of the
/// computer.
#[derive(Clone)]
pub(crate) struct StoreClock(pub(crate) Store);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A clock for tests, which changes only when it is advanced.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows the given time.
    pub const fn at(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.0))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Span) {
        self.0.fetch_add(i64::try_from(by.0).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
