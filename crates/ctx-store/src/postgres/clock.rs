//! The time of the database's clock, estimated between two readings.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ctx_core::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// A reading that is behind the estimate by less does not turn the time back.
const BEHIND_MAX: i64 = 1000;

/// What was read last, in milliseconds: the database's clock, and the time since this machine was
/// started, which also passes while it sleeps.
#[derive(Debug, Default)]
pub(super) struct Clock(Mutex<(i64, i64)>);

impl Clock {
    /// Takes a reading of the database's clock.
    pub(super) fn read(&self, database: i64) {
        self.read_at(database, since_start());
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp(self.now_at(since_start()))
    }

    fn now_at(&self, at: i64) -> i64 {
        let (base, read_at) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        base + (at - read_at)
    }

    /// A reading ahead of the estimate is adopted, and one that is far behind it: the clock was
    /// set. One that is a little behind was delayed on its way.
    fn read_at(&self, database: i64, at: i64) {
        let ahead = database - self.now_at(at);
        if ahead > 0 || ahead <= -BEHIND_MAX {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (database, at);
        }
    }
}

fn since_start() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    let time = Duration::try_from(time).unwrap_or_default();
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_follows_the_readings_and_goes_back_only_if_the_clock_was_set() {
        let clock = Clock::default();
        clock.read_at(1_000_000, 50);
        assert_eq!(clock.now_at(60), 1_000_010, "the time that has passed since");
        clock.read_at(1_000_030, 60);
        assert_eq!(clock.now_at(60), 1_000_030, "a reading ahead is adopted");
        clock.read_at(999_031, 60);
        assert_eq!(clock.now_at(70), 1_000_040, "one that is a little behind is not");
        clock.read_at(999_040, 70);
        assert_eq!(clock.now_at(70), 999_040, "one that is far behind is");
    }
}
