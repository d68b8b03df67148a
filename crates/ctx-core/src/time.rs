//! Timestamps and durations in milliseconds.
//!
//! Objects store integers. The API and the command line use RFC 3339 in UTC. Configuration values
//! are written as `500ms`, `24h` or `7d`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Time since `earlier`. Zero if the clock went backwards.
    pub fn since(self, earlier: Timestamp) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Seconds since the Unix epoch, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Parses RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        Some(Self(at.as_millisecond()))
    }

    /// The date in UTC as `YYYY-MM-DD`.
    pub fn day(self) -> String {
        let mut text = self.to_string();
        text.truncate(10);
        text
    }

    /// The start of a day in UTC, given as `YYYY-MM-DD`.
    pub fn start_of_day(day: &str) -> Option<Self> {
        let date: jiff::civil::Date = day.parse().ok()?;
        let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        Some(Self(midnight.timestamp().as_millisecond()))
    }
}

/// RFC 3339 in UTC with milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn days(n: u64) -> Self {
        Self::hours(n * 24)
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn hours(n: u64) -> Self {
        Self(n * 3_600_000)
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn minutes(n: u64) -> Self {
        Self(n * 60_000)
    }

    /// The duration in seconds, rounded down.
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Text for a sentence: `8 days`, `26 hours`, `5 minutes`, `1 second`.
    pub fn in_words(self) -> String {
        let seconds = self.seconds();
        let (n, unit) = match seconds {
            s if s >= 2 * 86_400 => (s / 86_400, "day"),
            s if s >= 2 * 3600 => (s / 3600, "hour"),
            s if s >= 2 * 60 => (s / 60, "minute"),
            s => (s, "second"),
        };
        format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
    }
}

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Uses the largest unit that divides the duration. [`FromStr`] parses the result.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) =
            UNITS.iter().rev().find(|(_, size)| self.0.is_multiple_of(*size)).unwrap_or(&UNITS[0]);
        write!(f, "{}{unit}", self.0 / size)
    }
}

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration `{0}`: write for example 500ms, 2s, 5m, 24h or 7d")]
pub struct BadSpan(pub String);

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan(text.chars().take(40).collect());
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        let n: u64 = number.parse().map_err(|_| bad())?;
        n.checked_mul(*size).map(Self).ok_or_else(bad)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_duration_parses_to_the_same_duration() {
        for text in ["0d", "500ms", "2s", "5m", "25h", "7d"] {
            assert_eq!(text.parse::<Span>().map(|s| s.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("24h".parse::<Span>(), "1d".parse::<Span>());
    }

    #[test]
    fn an_invalid_duration_is_rejected() {
        for bad in [
            "",
            "5",
            "h",
            "-1s",
            "1.5h",
            "5 m",
            "5w",
            "99999999999999999999d",
            "18446744073709551615d",
        ] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_print_as_rfc_3339() {
        assert_eq!(Timestamp(1_763_243_045_007).to_string(), "2025-11-15T21:44:05.007Z");
        assert_eq!(Timestamp(1_763_243_045_007).day(), "2025-11-15");
        assert_eq!(Timestamp::start_of_day("2025-11-15"), Some(Timestamp(1_763_164_800_000)));
        assert_eq!(Timestamp::start_of_day("2025-13-15"), None);
    }

    #[test]
    fn a_clock_that_went_backwards_gives_zero() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Span(0));
    }

    #[test]
    fn text_uses_the_largest_suitable_unit() {
        let cases = [
            (Span::days(8), "8 days"),
            (Span::hours(26), "26 hours"),
            (Span(1000), "1 second"),
            (Span::minutes(5), "5 minutes"),
        ];
        for (span, words) in cases {
            assert_eq!(span.in_words(), words);
        }
    }
}
