//! The time is a port: rules are told it, tests set it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use ctx_core::time::{Span, Timestamp};

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The computer's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at `at`.
    pub const fn at(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.0))
    }

    /// Moves on.
    pub fn advance(&self, by: Span) {
        self.0.fetch_add(i64::try_from(by.0).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
