//! Sums of what turns used: tokens, cost, messages, tool calls and time.
//!
//! A value that a provider did not report is unknown, never zero. Each sum therefore carries the
//! number of turns that reported it. Amounts are integers in billionths of a dollar, so that sums
//! are exact.

use std::fmt;
use std::ops::AddAssign;

use crate::prices::Price;
use crate::time::{Span, Timestamp};
use crate::turn::{Header, Status, Usage};

/// Number of values of a [`Tally`].
pub const TALLY_VALUES: usize = 18;
/// Highest values of one turn that count, so that sums of many turns do not overflow: tokens or
/// milliseconds, and billionths of a dollar.
const COUNT_MAX: u64 = 1_000_000_000_000;
const COST_MAX: u64 = 100_000_000_000_000;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Decimal places of an amount.
const DECIMALS: usize = 9;
const BILLION: u64 = 1_000_000_000;

/// What a report sums by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum By {
    #[default]
    Day,
    Model,
    Project,
    Session,
    Provider,
    Tool,
}

impl By {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Day, Self::Model, Self::Project, Self::Session, Self::Provider, Self::Tool];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Project => "project",
            Self::Session => "session",
            Self::Provider => "provider",
            Self::Tool => "tool",
        }
    }

    /// Finds a value by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.name() == name)
    }
}

/// An amount in billionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Dollars(pub u64);

impl Dollars {
    /// Parses a decimal number such as `12` or `0.000612`. `None` if it is none, is negative, or is
    /// too large. Digits after the ninth decimal place are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let decimals: String = decimals.chars().chain("000000000".chars()).take(DECIMALS).collect();
        let whole: u64 = whole.parse().ok()?;
        Some(Self(whole.checked_mul(BILLION)?.checked_add(decimals.parse().ok()?)?))
    }

    /// The amount of a reported cost such as `0.000612 USD`; `None` for another currency.
    pub fn of_cost(cost: &str) -> Option<Self> {
        Self::parse(cost.strip_suffix("USD")?.trim())
    }

    /// The amount as a number of dollars, for documents.
    pub fn as_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::MAX)
    }

    /// The amount for people, in cents; small amounts with four decimal places.
    pub fn rounded(self) -> String {
        let (unit, places) = if self.0 < BILLION / 10 { (100_000, 4) } else { (10_000_000, 2) };
        let rounded = Self(self.0.saturating_add(unit / 2) / unit * unit);
        let text = format!("{}.{:09}", rounded.0 / BILLION, rounded.0 % BILLION);
        text[..text.len() - (DECIMALS - places)].to_owned()
    }
}

/// The exact amount without trailing zeros.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:09}", self.0 / BILLION, self.0 % BILLION);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The day of a time in UTC, as a number of days since 1970-01-01.
pub const fn day_number(at: Timestamp) -> i64 {
    at.0.div_euclid(DAY_MS)
}

/// The date of a day number as `YYYY-MM-DD`.
pub fn day_name(day: i64) -> String {
    Timestamp(day.saturating_mul(DAY_MS)).day()
}

/// The time that a report begins at: a date such as `2026-11-17`, or a duration before now such as
/// `7d`. `None` if the text is neither.
pub fn parse_since(text: &str, now: Timestamp) -> Option<Timestamp> {
    let ago = || text.parse::<Span>().ok();
    let before_now = |span: Span| {
        Timestamp(now.0.saturating_sub(i64::try_from(span.0).unwrap_or(i64::MAX)).max(0))
    };
    Timestamp::start_of_day(text).or_else(|| ago().map(before_now))
}

/// A sum over the turns that reported a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Known {
    pub sum: u64,
    pub turns: u64,
}

impl Known {
    fn of(value: Option<u64>) -> Self {
        Self { sum: value.unwrap_or(0), turns: u64::from(value.is_some()) }
    }

    /// The sum; `None` if no turn reported a value.
    pub const fn value(self) -> Option<u64> {
        if self.turns == 0 { None } else { Some(self.sum) }
    }
}

impl AddAssign for Known {
    fn add_assign(&mut self, other: Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.turns += other.turns;
    }
}

/// What some turns of one provider and model used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Tally {
    pub turns: u64,
    /// Turns that a provider answered. Only these have a cost, which may be unknown.
    pub answered: u64,
    pub messages: u64,
    pub tool_calls: u64,
    pub duration_ms: u64,
    /// Input tokens, the cached ones included.
    pub input: Known,
    /// Input tokens that were not cached.
    pub fresh: u64,
    pub cached: Known,
    pub output: Known,
    /// Cost that was reported, in billionths of a dollar.
    pub cost: Known,
    /// Tokens of turns without a reported cost.
    pub unbilled: Unbilled,
}

/// Tokens of turns that reported tokens and no cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Unbilled {
    pub turns: u64,
    pub fresh: u64,
    pub cached: u64,
    pub output: u64,
}

impl Tally {
    /// What one turn used.
    pub fn of(turn: &Header) -> Self {
        let duration = turn.ended_at.since(turn.started_at);
        Self {
            turns: 1,
            answered: u64::from(is_answered(turn)),
            messages: turn.messages.len() as u64,
            tool_calls: turn.tool_calls.len() as u64,
            duration_ms: duration.0.min(COUNT_MAX),
            ..turn.usage.as_ref().map(Self::of_usage).unwrap_or_default()
        }
    }

    /// The tokens and the cost of one turn. Token counts of a whole agent session are no sums of
    /// turns, so they count as unknown.
    pub fn of_usage(usage: &Usage) -> Self {
        let is_sum = usage.scope != "session";
        let tokens = |count: Option<u64>| count.filter(|_| is_sum).map(|n| n.min(COUNT_MAX));
        let (input, cached) = (tokens(usage.input_tokens), tokens(usage.cached_tokens));
        let output = tokens(usage.output_tokens);
        let cost = usage.cost.as_deref().and_then(Dollars::of_cost);
        // Some agents count cached tokens beside the input instead of in it.
        let fresh = input.map(|input| input.checked_sub(cached.unwrap_or(0)).unwrap_or(input));
        let unbilled = match (fresh, output) {
            (Some(fresh), Some(output)) if cost.is_none() => {
                Unbilled { turns: 1, fresh, cached: cached.unwrap_or(0), output }
            }
            _ => Unbilled::default(),
        };
        Self {
            input: Known::of(input),
            fresh: fresh.unwrap_or(0),
            cached: Known::of(cached),
            output: Known::of(output),
            cost: Known::of(cost.map(|cost| cost.0.min(COST_MAX))),
            unbilled,
            ..Self::default()
        }
    }

    /// All values, in the order of [`Tally::from_values`].
    pub const fn values(&self) -> [u64; TALLY_VALUES] {
        [
            self.turns,
            self.answered,
            self.messages,
            self.tool_calls,
            self.duration_ms,
            self.input.sum,
            self.input.turns,
            self.fresh,
            self.cached.sum,
            self.cached.turns,
            self.output.sum,
            self.output.turns,
            self.cost.sum,
            self.cost.turns,
            self.unbilled.turns,
            self.unbilled.fresh,
            self.unbilled.cached,
            self.unbilled.output,
        ]
    }

    /// The reverse of [`Tally::values`].
    pub const fn from_values(of: [u64; TALLY_VALUES]) -> Self {
        Self {
            turns: of[0],
            answered: of[1],
            messages: of[2],
            tool_calls: of[3],
            duration_ms: of[4],
            input: Known { sum: of[5], turns: of[6] },
            fresh: of[7],
            cached: Known { sum: of[8], turns: of[9] },
            output: Known { sum: of[10], turns: of[11] },
            cost: Known { sum: of[12], turns: of[13] },
            unbilled: Unbilled { turns: of[14], fresh: of[15], cached: of[16], output: of[17] },
        }
    }

    /// All tokens that were reported.
    pub const fn tokens(&self) -> u64 {
        self.input.sum.saturating_add(self.output.sum)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        let (mut sum, more) = (self.values(), other.values());
        for (sum, more) in sum.iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
        *self = Self::from_values(sum);
    }
}

/// Whether a provider answered a turn. A failed turn without usage and tool calls has no answer: no
/// request was sent because of a limit, or the provider refused it. It costs nothing.
fn is_answered(turn: &Header) -> bool {
    let has_answer =
        turn.status != Status::Failed || turn.usage.is_some() || !turn.tool_calls.is_empty();
    turn.provider_id.is_some() && has_answer
}

/// A tally and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bill {
    /// What was used.
    pub tally: Tally,
    /// The known part of the cost; `None` if nothing of it is known.
    pub cost: Option<Dollars>,
    /// Turns of a provider whose cost is unknown.
    pub unpriced_turns: u64,
    /// Calls of tools that failed; known only where calls of tools are counted.
    pub failed_calls: Option<u64>,
}

impl Bill {
    /// The reported cost, and the cost at a price where none was reported.
    pub fn new(tally: Tally, price: Option<&Price>) -> Self {
        let reported = tally.cost.value().map(Dollars);
        let unbilled = &tally.unbilled;
        let computed = price.filter(|_| unbilled.turns > 0).map(|price| price.of(unbilled));
        let cost = match (reported, computed) {
            (Some(reported), Some(computed)) => {
                Some(Dollars(reported.0.saturating_add(computed.0)))
            }
            (reported, computed) => reported.or(computed),
        };
        let priced = tally.cost.turns + computed.map_or(0, |_| unbilled.turns);
        let unpriced_turns = tally.answered.saturating_sub(priced);
        Self { tally, cost, unpriced_turns, failed_calls: None }
    }

    /// Calls of tools, without tokens and cost.
    pub fn of_tools(turns: u64, tool_calls: u64, failed_calls: u64) -> Self {
        let tally = Tally { turns, tool_calls, ..Tally::default() };
        Self { tally, failed_calls: Some(failed_calls), ..Self::default() }
    }
}

impl AddAssign for Bill {
    fn add_assign(&mut self, other: Self) {
        self.tally += other.tally;
        self.unpriced_turns += other.unpriced_turns;
        self.cost = match (self.cost, other.cost) {
            (Some(a), Some(b)) => Some(Dollars(a.0.saturating_add(b.0))),
            (a, b) => a.or(b),
        };
        self.failed_calls = match (self.failed_calls, other.failed_calls) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ObjectId;
    use crate::message::ToolStatus;
    use crate::turn::{Kind, ToolCallHead};

    fn usage(input: Option<u64>, cached: Option<u64>, output: Option<u64>, cost: &str) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached,
            cost: (!cost.is_empty()).then(|| cost.to_owned()),
            scope: "turn".to_owned(),
            ..Usage::default()
        }
    }

    fn answered(usage: &Usage) -> Tally {
        Tally { turns: 1, answered: 1, ..Tally::of_usage(usage) }
    }

    fn turn(status: Status, usage: Option<Usage>) -> Header {
        Header {
            parent: None,
            kind: Kind::Normal,
            status,
            provider_id: Some("local".to_owned()),
            model: None,
            usage,
            started_at: Timestamp(1),
            ended_at: Timestamp(3),
            messages: Vec::new(),
            tool_calls: Vec::new(),
            body: ObjectId::of(&[b"words"]),
        }
    }

    const PRICE: Price = Price { input: 3_000_000, cached: 300_000, output: 15_000_000 };

    #[test]
    fn amounts_are_exact() {
        let table = [
            ("0", 0, "0"),
            ("12", 12_000_000_000, "12"),
            ("0.000612", 612_000, "0.000612"),
            ("1.50", 1_500_000_000, "1.5"),
            ("0.0000000019", 1, "0.000000001"),
        ];
        for (text, amount, shown) in table {
            let parsed = Dollars::parse(text).expect("an amount");
            assert_eq!((parsed.0, parsed.to_string().as_str()), (amount, shown), "{text}");
        }
        for text in ["", "-1", "1e3", ".5", "1.", "x", "99999999999999"] {
            assert_eq!(Dollars::parse(text), None, "{text}");
        }
        assert_eq!(Dollars::of_cost("0.000612 USD"), Some(Dollars(612_000)));
        assert_eq!(Dollars::of_cost("1 EUR"), None);
        // 0.1 + 0.2 in binary floating point is not 0.3.
        let mut sum = Bill::default();
        for cost in ["0.1 USD", "0.2 USD"] {
            sum += Bill::new(answered(&usage(None, None, None, cost)), None);
        }
        assert_eq!(sum.cost.expect("a cost").as_f64(), 0.3);
    }

    #[test]
    fn amounts_for_people_are_rounded() {
        let table = [
            (0, "0.0000"),
            (612_000, "0.0006"),
            (99_999_999, "0.1000"),
            (1_234_999_999, "1.23"),
            (1_235_000_000, "1.24"),
            (12_000_000_000, "12.00"),
        ];
        for (amount, text) in table {
            assert_eq!(Dollars(amount).rounded(), text);
        }
    }

    #[test]
    fn a_value_that_no_turn_reported_is_unknown() {
        let mut sum = answered(&usage(Some(10), None, None, ""));
        assert_eq!((sum.input.value(), sum.cached.value()), (Some(10), None));
        assert_eq!((sum.output.value(), sum.cost.value()), (None, None));
        sum += answered(&usage(Some(5), Some(0), None, ""));
        assert_eq!((sum.input.value(), sum.cached.value()), (Some(15), Some(0)));
        let session = Usage { scope: "session".to_owned(), ..usage(Some(9), Some(1), Some(2), "") };
        assert_eq!(Tally::of_usage(&session), Tally::default(), "a total of an agent's session");
    }

    #[test]
    fn fresh_tokens_are_the_input_without_the_cached_tokens() {
        let table = [
            (Some(100), Some(80), 20),
            (Some(100), None, 100),
            (Some(100), Some(100), 0),
            (Some(10), Some(5000), 10),
            (None, Some(5), 0),
        ];
        for (input, cached, fresh) in table {
            assert_eq!(Tally::of_usage(&usage(input, cached, None, "")).fresh, fresh);
        }
    }

    #[test]
    fn a_reported_cost_comes_before_a_price_and_an_unknown_one_is_not_zero() {
        let tokens = (Some(1_000_000), Some(500_000), Some(100_000));
        let reported = answered(&usage(tokens.0, tokens.1, tokens.2, "0.5 USD"));
        let unbilled = answered(&usage(tokens.0, tokens.1, tokens.2, ""));
        let blind = answered(&usage(None, None, Some(1), ""));
        let euros = answered(&usage(None, None, None, "1 EUR"));
        // 0.5 M at 3 dollars, 0.5 M at 0.3, 0.1 M at 15.
        let computed = Dollars(3_150_000_000);
        let half = Dollars(500_000_000);
        let table = [
            (reported, Some(&PRICE), Some(half), 0),
            (reported, None, Some(half), 0),
            (unbilled, Some(&PRICE), Some(computed), 0),
            (unbilled, None, None, 1),
            (blind, Some(&PRICE), None, 1),
            (euros, Some(&PRICE), None, 1),
            (Tally { turns: 1, ..Tally::default() }, Some(&PRICE), None, 0),
        ];
        for (n, (tally, price, cost, unpriced)) in table.into_iter().enumerate() {
            let bill = Bill::new(tally, price);
            assert_eq!((bill.cost, bill.unpriced_turns), (cost, unpriced), "case {n}");
        }
        let mut both = reported;
        both += unbilled;
        both += blind;
        let bill = Bill::new(both, Some(&PRICE));
        assert_eq!(bill.cost, Some(Dollars(half.0 + computed.0)));
        assert_eq!(bill.unpriced_turns, 1);
    }

    #[test]
    fn a_failed_turn_without_an_answer_leaves_the_total_exact() {
        let blind = || Some(usage(None, None, Some(1), ""));
        let unpriced = |turn: &Header| Bill::new(Tally::of(turn), None).unpriced_turns;
        for status in [Status::Completed, Status::Cancelled, Status::Interrupted] {
            assert_eq!(unpriced(&turn(status, None)), 1, "{status:?}");
        }
        let refused = turn(Status::Failed, None);
        assert_eq!(unpriced(&refused), 0, "no request was sent");
        assert_eq!(unpriced(&turn(Status::Failed, blind())), 1, "its provider reported usage");
        let call = ToolCallHead {
            id: "c".to_owned(),
            message: 0,
            name: "t".to_owned(),
            status: ToolStatus::Completed,
            spawned_session_label: None,
        };
        let called = Header { tool_calls: vec![call], ..refused.clone() };
        assert_eq!(unpriced(&called), 1, "it failed after a call of the model");
        let mut sum = Tally::of(&turn(Status::Completed, Some(usage(None, None, None, "0.4 USD"))));
        sum += Tally::of(&refused);
        let bill = Bill::new(sum, None);
        assert_eq!((bill.cost, bill.unpriced_turns), (Some(Dollars(400_000_000)), 0));
        assert_eq!((sum.turns, sum.duration_ms), (2, 4), "the turn itself counts");
    }

    #[test]
    fn values_read_back() {
        let values: [u64; TALLY_VALUES] = std::array::from_fn(|n| n as u64 + 1);
        assert_eq!(Tally::from_values(values).values(), values);
    }

    #[test]
    fn a_report_begins_at_a_date_or_a_duration_ago() {
        let now = Timestamp::start_of_day("2026-11-17").expect("a day");
        let day = |text| parse_since(text, now).map(|at| at.day());
        assert_eq!(day("2026-11-01").as_deref(), Some("2026-11-01"));
        assert_eq!(day("7d").as_deref(), Some("2026-11-10"));
        assert_eq!(day("99999999d").as_deref(), Some("1970-01-01"));
        for text in ["", "yesterday", "2026-13-01", "7", "-1d"] {
            assert_eq!(parse_since(text, now), None, "{text}");
        }
    }

    #[test]
    fn days_are_in_utc() {
        let at = Timestamp(1_762_000_000_000);
        assert_eq!(day_name(day_number(at)), at.day());
        assert_eq!(day_name(0), "1970-01-01");
    }
}
