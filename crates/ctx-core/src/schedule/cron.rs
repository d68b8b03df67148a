//! Cron expressions of five fields, in UTC: minute, hour, day of month, month, day of week.
//!
//! A field has values, ranges (`1-5`), steps (`*/15`, `8-18/2`) and lists of them. Months and days
//! of the week also have their English names of three letters; Sunday is 0 or 7. As in cron, if
//! neither the day of month nor the day of week begins with `*`, a day must match one of the two;
//! otherwise it must match both.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// Days that a search for an occurrence covers. The rarest pattern, 29 February on one day of the
/// week, occurs at least every 40 years.
const SEARCH_DAYS_MAX: usize = 41 * 366;
const MINUTES_OF_DAY: u32 = 24 * 60;
const MINUTE_MS: i64 = 60_000;

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
}

/// The values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Values {
    /// Bit n is set if the field contains n.
    bits: u64,
    /// Whether the field begins with `*`.
    is_wildcard: bool,
}

impl Values {
    const fn contains(self, value: u32) -> bool {
        self.bits >> value & 1 == 1
    }
}

/// The text is not a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid cron expression `{text}`: {why}")]
pub struct BadCron {
    text: String,
    why: String,
}

/// A field of an expression: its name, its range and the names of its values.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, names: &[] },
    Field { name: "hour", min: 0, max: 23, names: &[] },
    Field { name: "day of month", min: 1, max: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, names: MONTHS },
    Field { name: "day of week", min: 0, max: 7, names: WEEKDAYS },
];

impl Field {
    fn parse(&self, text: &str) -> Result<Values, String> {
        let mut bits = 0;
        for item in text.split(',') {
            bits |= self.item(item).map_err(|why| format!("{} `{item}`: {why}", self.name))?;
        }
        Ok(Values { bits, is_wildcard: text.starts_with('*') })
    }

    /// The values of `*`, a value or a range, each of the last with an optional step.
    fn item(&self, item: &str) -> Result<u64, String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((first, last)) => self.range(first, last)?,
            None if step.is_some() => return Err("a step needs `*` or a range".to_owned()),
            None => {
                let value = self.value(range)?;
                (value, value)
            }
        };
        let step = match step.map(number) {
            None => 1,
            Some(Some(step)) if (1..=self.max).contains(&step) => step,
            Some(_) => return Err(format!("the step must be from 1 to {}", self.max)),
        };
        let mut bits = 0;
        let mut value = first;
        while value <= last {
            bits |= 1 << value;
            value += step;
        }
        Ok(bits)
    }

    fn range(&self, first: &str, last: &str) -> Result<(u32, u32), String> {
        let (first, mut last) = (self.value(first)?, self.value(last)?);
        if self.max == 7 && last == 0 && first > 0 {
            // Sunday is also the last day of the week.
            last = 7;
        }
        if first > last {
            return Err("the range ends before it begins".to_owned());
        }
        Ok((first, last))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(at) => u32::try_from(at).ok().map(|at| at + self.min),
            None => number(text),
        };
        value.filter(|value| (self.min..=self.max).contains(value)).ok_or_else(|| {
            format!("the values are {} to {}{}", self.min, self.max, self.names_hint())
        })
    }

    fn names_hint(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        }
    }
}

/// A decimal number of one or two digits.
fn number(text: &str) -> Option<u32> {
    let is_number = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

impl FromStr for Cron {
    type Err = BadCron;

    fn from_str(text: &str) -> Result<Self, BadCron> {
        let bad = |why: String| BadCron { text: text.chars().take(80).collect(), why };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let Ok(fields) = <[&str; 5]>::try_from(fields.as_slice()) else {
            let count = fields.len();
            return Err(bad(format!(
                "it has {count} fields; the five are minute, hour, day of month, month and day of \
                 week, such as `0 9 * * 1-5`"
            )));
        };
        let parse = |at: usize| FIELDS[at].parse(fields[at]).map_err(bad);
        let mut weekdays = parse(4)?;
        // Sunday is 0 or 7.
        weekdays.bits |= weekdays.bits >> 7 & 1;
        let cron = Self {
            text: fields.join(" "),
            minutes: parse(0)?,
            hours: parse(1)?,
            days: parse(2)?,
            months: parse(3)?,
            weekdays,
        };
        match cron.next(Timestamp(0)) {
            Some(_) => Ok(cron),
            None => Err(bad("no date matches it".to_owned())),
        }
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Cron {
    /// The first occurrence after a time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let (mut date, minute) = split(Timestamp(after.0.checked_add(MINUTE_MS)?))?;
        let mut first = minute;
        for _ in 0..SEARCH_DAYS_MAX {
            if self.is_on(date)
                && let Some(minute) = (first..MINUTES_OF_DAY).find(|minute| self.is_at(*minute))
            {
                return join(date, minute);
            }
            (date, first) = (date.tomorrow().ok()?, 0);
        }
        None
    }

    /// The newest occurrence after one time and not after the other.
    pub fn newest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let (oldest, _) = split(after)?;
        let (mut date, minute) = split(until)?;
        let mut last = minute;
        for _ in 0..SEARCH_DAYS_MAX {
            if date < oldest {
                return None;
            }
            if self.is_on(date)
                && let Some(minute) = (0..=last).rev().find(|minute| self.is_at(*minute))
            {
                return join(date, minute).filter(|found| *found > after);
            }
            (date, last) = (date.yesterday().ok()?, MINUTES_OF_DAY - 1);
        }
        None
    }

    fn is_on(&self, date: Date) -> bool {
        let number = |value: i8| u32::from(value.unsigned_abs());
        let day = self.days.contains(number(date.day()));
        let weekday = self.weekdays.contains(number(date.weekday().to_sunday_zero_offset()));
        let is_either = !self.days.is_wildcard && !self.weekdays.is_wildcard;
        self.months.contains(number(date.month()))
            && if is_either { day || weekday } else { day && weekday }
    }

    fn is_at(&self, minute_of_day: u32) -> bool {
        self.hours.contains(minute_of_day / 60) && self.minutes.contains(minute_of_day % 60)
    }
}

/// The date of a time and the minute of the day, in UTC.
fn split(at: Timestamp) -> Option<(Date, u32)> {
    let at = jiff::Timestamp::from_millisecond(at.0).ok()?.to_zoned(TimeZone::UTC);
    let part = |value: i8| u32::from(value.unsigned_abs());
    Some((at.date(), part(at.hour()) * 60 + part(at.minute())))
}

fn join(date: Date, minute_of_day: u32) -> Option<Timestamp> {
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(Timestamp(midnight + i64::from(minute_of_day) * MINUTE_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(time: &str) -> Timestamp {
        let parsed: jiff::Timestamp = time.parse().expect("a time");
        Timestamp(parsed.as_millisecond())
    }

    fn cron(text: &str) -> Cron {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn occurrences_follow_one_another() {
        // Expression, a time, the next two occurrences after it.
        let table = [
            ("* * * * *", "2026-03-02T08:00:00Z", ["2026-03-02T08:01:00Z", "2026-03-02T08:02:00Z"]),
            (
                "*/15 * * * *",
                "2026-03-02T08:50:30Z",
                ["2026-03-02T09:00:00Z", "2026-03-02T09:15:00Z"],
            ),
            // 6 March 2026 is a Friday.
            (
                "0 9 * * 1-5",
                "2026-03-06T08:59:59.999Z",
                ["2026-03-06T09:00:00Z", "2026-03-09T09:00:00Z"],
            ),
            (
                "0 9 * * MON-fri",
                "2026-03-06T09:00:00Z",
                ["2026-03-09T09:00:00Z", "2026-03-10T09:00:00Z"],
            ),
            ("0 0 * * 7", "2026-03-02T00:00:00Z", ["2026-03-08T00:00:00Z", "2026-03-15T00:00:00Z"]),
            (
                "0 0 * * sat-sun",
                "2026-03-02T00:00:00Z",
                ["2026-03-07T00:00:00Z", "2026-03-08T00:00:00Z"],
            ),
            (
                "5,35 8-18/5 * * *",
                "2026-03-02T08:05:00Z",
                ["2026-03-02T08:35:00Z", "2026-03-02T13:05:00Z"],
            ),
            (
                "59 23 31 12 *",
                "2026-12-31T23:58:00Z",
                ["2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"],
            ),
            (
                "0 0 29 2 *",
                "2096-02-29T00:00:00Z",
                ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"],
            ),
            (
                "0 0 31 * *",
                "2026-03-31T00:00:00Z",
                ["2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z"],
            ),
            // A day of month or a day of week, if both are restricted.
            (
                "0 0 13 * 5",
                "2026-03-02T00:00:00Z",
                ["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"],
            ),
            (
                "0 0 4 JAN,jul *",
                "2026-03-02T00:00:00Z",
                ["2026-07-04T00:00:00Z", "2027-01-04T00:00:00Z"],
            ),
            // Both, if one begins with `*`.
            (
                "0 0 */2 * 1",
                "2026-03-02T00:00:00Z",
                ["2026-03-09T00:00:00Z", "2026-03-23T00:00:00Z"],
            ),
        ];
        for (text, from, following) in table {
            let mut time = at(from);
            for expected in following {
                time = cron(text).next(time).expect("an occurrence");
                assert_eq!(time, at(expected), "{text} after {from}: {time}");
            }
        }
    }

    #[test]
    fn a_wrong_expression_names_its_field() {
        let table = [
            ("", "0 fields"),
            ("* * * *", "4 fields"),
            ("0 0 9 * * 1", "6 fields"),
            ("@daily", "1 fields"),
            ("60 * * * *", "minute `60`: the values are 0 to 59"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of month"),
            ("* * * 13 *", "month `13`: the values are 1 to 12 or jan to dec"),
            ("* * * * 8", "day of week `8`: the values are 0 to 7 or sun to sat"),
            ("* * * * mond", "day of week"),
            ("5-1 * * * *", "the range ends before it begins"),
            ("*/0 * * * *", "the step"),
            ("*/60 * * * *", "the step"),
            ("*/x * * * *", "the step"),
            ("5/15 * * * *", "a step needs `*` or a range"),
            ("1,,2 * * * *", "minute ``"),
            ("-5 * * * *", "minute"),
            ("+5 * * * *", "minute"),
            ("*5 * * * *", "minute"),
            ("1-2-3 * * * *", "minute"),
            ("? * * * *", "minute"),
            ("99999999999999999999 * * * *", "minute"),
            ("0 0 31 2 *", "no date matches it"),
            ("0 0 30-31 feb *", "no date matches it"),
        ];
        for (text, why) in table {
            let error = text.parse::<Cron>().expect_err(text).to_string();
            assert!(error.starts_with("invalid cron expression") && error.contains(why), "{error}");
        }
    }

    fn expressions() -> impl Strategy<Value = Cron> {
        let minute = prop_oneof![Just("*"), Just("0"), Just("*/7"), Just("10-50/20"), Just("59")];
        let hour = prop_oneof![Just("*"), Just("0"), Just("9-17"), Just("*/5"), Just("23")];
        let day = prop_oneof![Just("*"), Just("1"), Just("29"), Just("*/9"), Just("31")];
        let month = prop_oneof![Just("*"), Just("1-6"), Just("feb,dec"), Just("*/5")];
        let weekday = prop_oneof![Just("*"), Just("0"), Just("1-5"), Just("7"), Just("*/3")];
        (minute, hour, day, month, weekday)
            .prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}").parse())
            .prop_filter_map("a date matches", Result::ok)
    }

    proptest! {
        #[test]
        fn the_newest_occurrence_is_the_one_before_the_next(
            cron in expressions(), from in 0..4_000_000_000_000i64,
        ) {
            let next = cron.next(Timestamp(from)).expect("an occurrence");
            prop_assert!(next.0 > from && next.0 % MINUTE_MS == 0);
            prop_assert_eq!(cron.newest(Timestamp(from), next), Some(next));
            prop_assert_eq!(cron.newest(Timestamp(from), Timestamp(next.0 - 1)), None);
            let second = cron.next(next).expect("an occurrence");
            prop_assert_eq!(cron.newest(Timestamp(from), second), Some(second));
            prop_assert_eq!(cron.newest(next, Timestamp(second.0 - 1)), None);
            prop_assert_eq!(cron.newest(Timestamp(from), Timestamp(second.0 - 1)), Some(next));
        }
    }
}
