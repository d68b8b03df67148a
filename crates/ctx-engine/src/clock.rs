//! The clock is a port: rules get the time as an argument, and tests set it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use ctx_core::time::{Span, Timestamp};

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time in milliseconds since the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// The clock of the computer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
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
