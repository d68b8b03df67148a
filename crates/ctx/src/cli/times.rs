//! Times for a person: relative, or in the zone of the machine; with `--utc` as RFC 3339.

use ctx_engine::core::time::{Span, Timestamp};
use jiff::tz::TimeZone;

/// How times are printed.
pub(crate) struct Times {
    now: Timestamp,
    /// `None` with `--utc`.
    zone: Option<TimeZone>,
}

impl Times {
    pub(crate) fn new(now: Timestamp, utc: bool) -> Self {
        Self { now, zone: (!utc).then(TimeZone::system) }
    }

    /// `just now`, `5 min ago`, `3 h ago`, `2 d ago`; a date after a week; `in 5 min`.
    pub(crate) fn relative(&self, at: Timestamp) -> String {
        let Some(zone) = &self.zone else { return at.to_string() };
        let (ago, ahead) = (self.now.since(at), at.since(self.now));
        let is_ahead = ahead.seconds() > 0;
        let Some(span) = short(if is_ahead { ahead } else { ago }) else {
            return format(at, zone, "%Y-%m-%d");
        };
        match (span.as_str(), is_ahead) {
            ("", _) => "just now".to_owned(),
            (span, true) => format!("in {span}"),
            (span, false) => format!("{span} ago"),
        }
    }

    /// Date and time to the minute.
    pub(crate) fn minute(&self, at: Timestamp) -> String {
        match &self.zone {
            Some(zone) => format(at, zone, "%Y-%m-%d %H:%M"),
            None => at.to_string(),
        }
    }

    /// The time of the day.
    pub(crate) fn clock(&self, at: Timestamp) -> String {
        match &self.zone {
            Some(zone) => format(at, zone, "%H:%M"),
            None => at.to_string(),
        }
    }
}

/// The time of the computer, for a verb without a store.
pub(crate) fn system_time() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// `5 min`; empty below a minute, `None` above a week.
fn short(span: Span) -> Option<String> {
    Some(match span.seconds() {
        0..60 => String::new(),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds @ 86_400..604_800 => format!("{} d", seconds / 86_400),
        _ => return None,
    })
}

fn format(at: Timestamp, zone: &TimeZone, pattern: &str) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime(pattern).to_string(),
        Err(_) => at.to_string(),
    }
}

/// How long something took: `420 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`.
pub(crate) fn duration(span: Span) -> String {
    let (ms, seconds) = (span.0, span.seconds());
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_for_a_week() {
        let now = Timestamp(1_800_000_000_000);
        let times = Times { now, zone: Some(TimeZone::UTC) };
        let table = [
            (0, "just now"),
            (59, "just now"),
            (60, "1 min ago"),
            (7_199, "1 h ago"),
            (86_400 * 6, "6 d ago"),
            (86_400 * 8, "2027-01-07"),
            (-90, "in 1 min"),
        ];
        for (ago, text) in table {
            assert_eq!(times.relative(Timestamp(now.0 - ago * 1000)), text, "{ago}");
        }
        assert_eq!(times.minute(now), "2027-01-15 08:00");
        assert_eq!(times.clock(now), "08:00");
        let utc = Times { now, zone: None };
        assert_eq!(utc.relative(now), "2027-01-15T08:00:00.000Z");
    }

    #[test]
    fn durations_have_two_units() {
        let table =
            [(420, "420 ms"), (12_000, "12 s"), (185_000, "3 min 5 s"), (7_800_000, "2 h 10 min")];
        for (ms, text) in table {
            assert_eq!(duration(Span(ms)), text);
        }
    }
}
