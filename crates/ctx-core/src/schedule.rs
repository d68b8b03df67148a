//! Schedules: when a message of a timer is due.
//!
//! A tick is a time at which a schedule is due. The rules are pure: they get the stored state of
//! the schedule and the current time. Ticks that were missed give one message, for the newest one.

mod cron;

use std::fmt;

use crate::time::{Span, Timestamp};

pub use cron::{BadCron, Cron};

/// Maximum length of the name of a schedule or a hook.
pub const NAME_MAX_BYTES: usize = 64;
/// Shortest interval of a schedule.
pub const EVERY_MIN: Span = Span(1000);
/// Longest interval of a schedule.
pub const EVERY_MAX: Span = Span::days(366);

/// The ticks of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The minutes that match a cron expression, in UTC.
    Cron(Cron),
    /// A constant interval, counted from the time at which the schedule was first seen.
    Every(Span),
}

/// The stored state of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleState {
    /// When a server first had the schedule in its configuration. It has no ticks before.
    pub seen_at: Timestamp,
    /// The newest tick that is over; none before the first.
    pub last_tick: Option<Timestamp>,
}

impl ScheduleState {
    /// The state of a schedule that is seen for the first time.
    pub const fn new(seen_at: Timestamp) -> Self {
        Self { seen_at, last_tick: None }
    }

    /// Ticks up to this time are over.
    fn over_until(&self) -> Timestamp {
        self.last_tick.map_or(self.seen_at, |tick| tick.max(self.seen_at))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(cron) => write!(f, "cron {cron}"),
            Self::Every(interval) => write!(f, "every {interval}"),
        }
    }
}

impl Rule {
    /// The newest tick that was not carried out, if there is one. Older ones are skipped.
    pub fn due(&self, state: &ScheduleState, now: Timestamp) -> Option<Timestamp> {
        let over = state.over_until();
        match self {
            Self::Cron(cron) => cron.newest(over, now),
            Self::Every(interval) => {
                let count = now.since(state.seen_at).0 / interval.0.max(1);
                tick_of(state.seen_at, *interval, count).filter(|tick| *tick > over)
            }
        }
    }

    /// The first tick after now that is not over.
    pub fn next(&self, state: &ScheduleState, now: Timestamp) -> Option<Timestamp> {
        let after = now.max(state.over_until());
        match self {
            Self::Cron(cron) => cron.next(after),
            Self::Every(interval) => {
                let count = after.since(state.seen_at).0 / interval.0.max(1);
                tick_of(state.seen_at, *interval, count + 1)
            }
        }
    }
}

/// The tick with a number, counted from 1.
fn tick_of(seen_at: Timestamp, interval: Span, number: u64) -> Option<Timestamp> {
    let offset = i64::try_from(number.checked_mul(interval.0)?).ok()?;
    seen_at.0.checked_add(offset).map(Timestamp)
}

/// Whether a text can be the name of a schedule or a hook: `[a-z0-9-]`, not empty, at most
/// [`NAME_MAX_BYTES`] long.
pub fn is_valid_name(name: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The label of the session of a system purpose (R124).
pub fn system_label(purpose: &str) -> String {
    format!("system:{purpose}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        let parsed: jiff::Timestamp = time.parse().expect("a time");
        Timestamp(parsed.as_millisecond())
    }

    fn cron(text: &str) -> Rule {
        Rule::Cron(text.parse().expect("an expression"))
    }

    fn state(seen_at: &str, last_tick: Option<&str>) -> ScheduleState {
        ScheduleState { seen_at: at(seen_at), last_tick: last_tick.map(at) }
    }

    #[test]
    fn the_newest_missed_tick_is_due_once() {
        let daily = || cron("0 9 * * *");
        let quarter = || Rule::Every(Span::minutes(15));
        let seen = "2026-03-02T08:00:07Z";
        // Rule, last tick, now, the tick that is due.
        let table = [
            // A new schedule is not due at once, and not before its first tick.
            (daily(), None, "2026-03-02T08:00:07Z", None),
            (daily(), None, "2026-03-02T08:59:59.999Z", None),
            (daily(), None, "2026-03-02T09:00:00Z", Some("2026-03-02T09:00:00Z")),
            (daily(), None, "2026-03-02T09:00:00.200Z", Some("2026-03-02T09:00:00Z")),
            // A tick that was carried out is over.
            (daily(), Some("2026-03-02T09:00:00Z"), "2026-03-02T09:00:01Z", None),
            (daily(), Some("2026-03-02T09:00:00Z"), "2026-03-03T08:59:59Z", None),
            // Ticks missed in a downtime of nine days give one tick, the newest.
            (
                daily(),
                Some("2026-03-02T09:00:00Z"),
                "2026-03-11T12:00:00Z",
                Some("2026-03-11T09:00:00Z"),
            ),
            (daily(), None, "2026-03-11T12:00:00Z", Some("2026-03-11T09:00:00Z")),
            // An interval counts from the time at which the schedule was first seen.
            (quarter(), None, "2026-03-02T08:15:06.999Z", None),
            (quarter(), None, "2026-03-02T08:15:07Z", Some("2026-03-02T08:15:07Z")),
            (quarter(), Some("2026-03-02T08:15:07Z"), "2026-03-02T08:30:06Z", None),
            (
                quarter(),
                Some("2026-03-02T08:15:07Z"),
                "2026-03-02T10:20:00Z",
                Some("2026-03-02T10:15:07Z"),
            ),
            // The clock went backwards, before the last tick and before the first sight.
            (daily(), Some("2026-03-05T09:00:00Z"), "2026-03-03T12:00:00Z", None),
            (quarter(), Some("2026-03-02T09:00:07Z"), "2026-03-02T08:30:07Z", None),
            (quarter(), None, "2026-03-01T00:00:00Z", None),
            (daily(), None, "2026-03-01T10:00:00Z", None),
        ];
        for (rule, last, now, due) in table {
            let state = state(seen, last);
            assert_eq!(rule.due(&state, at(now)), due.map(at), "{rule} {last:?} {now}");
            if let Some(tick) = rule.due(&state, at(now)) {
                let done = ScheduleState { last_tick: Some(tick), ..state };
                assert_eq!(rule.due(&done, at(now)), None, "{rule}: only once");
            }
        }
    }

    #[test]
    fn a_changed_rule_continues_after_the_last_tick() {
        let state = state("2026-03-02T08:00:00Z", Some("2026-03-02T09:00:00Z"));
        let hourly = Rule::Every(Span::hours(1));
        assert_eq!(hourly.due(&state, at("2026-03-02T09:00:01Z")), None);
        assert_eq!(
            hourly.due(&state, at("2026-03-02T10:00:00Z")),
            Some(at("2026-03-02T10:00:00Z"))
        );
    }

    #[test]
    fn the_next_tick_is_after_now_and_after_the_last() {
        let table = [
            (cron("0 9 * * 1-5"), None, "2026-03-06T09:00:00Z", "2026-03-09T09:00:00Z"),
            (cron("0 9 * * 1-5"), None, "2026-03-06T08:59:59Z", "2026-03-06T09:00:00Z"),
            (Rule::Every(Span(1000)), None, "2026-03-02T08:00:00.400Z", "2026-03-02T08:00:01Z"),
            (Rule::Every(Span::hours(2)), None, "2026-03-02T10:00:00Z", "2026-03-02T12:00:00Z"),
            // The clock is behind the last tick.
            (
                Rule::Every(Span::hours(2)),
                Some("2026-03-02T12:00:00Z"),
                "2026-03-02T08:30:00Z",
                "2026-03-02T14:00:00Z",
            ),
        ];
        for (rule, last, now, next) in table {
            let state = state("2026-03-02T08:00:00Z", last);
            assert_eq!(rule.next(&state, at(now)), Some(at(next)), "{rule} {now}");
        }
    }

    #[test]
    fn extreme_times_have_no_tick_and_do_not_overflow() {
        let far = ScheduleState::new(Timestamp(i64::MIN));
        for rule in [cron("* * * * *"), Rule::Every(EVERY_MAX), Rule::Every(EVERY_MIN)] {
            let _ = rule.due(&far, Timestamp(i64::MAX));
            assert_eq!(rule.next(&far, Timestamp(i64::MAX)), None, "{rule}");
        }
    }

    #[test]
    fn names_are_lower_case_words() {
        for good in ["a", "daily-report", "9", &"x".repeat(NAME_MAX_BYTES)] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "Daily", "a b", "a:b", "a/b", "ä", "a_b", &"x".repeat(NAME_MAX_BYTES + 1)]
        {
            assert!(!is_valid_name(bad), "{bad}");
        }
        assert_eq!(system_label("heartbeat"), "system:heartbeat"); // R124
    }
}
