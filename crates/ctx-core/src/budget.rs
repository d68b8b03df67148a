//! Budgets: whether a request may start, given what was used so far.
//!
//! A limit is an amount or a number of tokens. Turns with an unknown cost do not count towards an
//! amount, so a model without a price needs a limit of tokens.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::usage::{Bill, Dollars};

/// The code of the error part of a turn that was stopped.
pub const EXCEEDED: &str = "budget_exceeded";

/// How much may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Limit {
    Cost(Dollars),
    Tokens(u64),
}

/// Why a text is not a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a limit: use an amount such as `5 USD`, or `200000 tokens`")]
pub struct BadLimit(String);

impl FromStr for Limit {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let bad = || BadLimit(text.to_owned());
        let (number, unit) = text.trim().split_once(' ').ok_or_else(bad)?;
        let limit = match unit.trim() {
            "USD" => Dollars::parse(number).map(Self::Cost),
            "tokens" => number.parse().ok().map(Self::Tokens),
            _ => None,
        };
        limit.ok_or_else(bad)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost(amount) => write!(f, "{amount} USD"),
            Self::Tokens(count) => write!(f, "{count} tokens"),
        }
    }
}

impl Limit {
    /// Whether this much reaches the limit.
    fn is_reached(self, used: &Bill) -> bool {
        match self {
            Self::Cost(limit) => used.cost.is_some_and(|cost| cost >= limit),
            Self::Tokens(limit) => used.tally.tokens() >= limit,
        }
    }

    /// What was used, in the unit of the limit.
    fn used(self, used: &Bill) -> Self {
        match self {
            Self::Cost(_) => Self::Cost(used.cost.unwrap_or_default()),
            Self::Tokens(_) => Self::Tokens(used.tally.tokens()),
        }
    }
}

/// Limits of the three scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// All turns of a session.
    pub session: Option<Limit>,
    /// All turns of a day in UTC.
    pub day: Option<Limit>,
    /// The turns of a day with a provider.
    pub providers: BTreeMap<String, Limit>,
}

/// The limits of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// Reaching one of these adds a notice to the turn.
    pub warn: Limits,
    /// No request starts once one of these is reached.
    pub stop: Limits,
}

/// What was used in the scopes of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the scopes of `Limits`")]
pub struct Used {
    pub session: Bill,
    pub day: Bill,
    /// Today, with the provider of the request.
    pub provider: Bill,
}

impl Used {
    /// With one more turn in every scope.
    #[must_use]
    pub fn with(mut self, turn: Bill) -> Self {
        self.session += turn;
        self.day += turn;
        self.provider += turn;
        self
    }
}

/// What a limit covers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Session,
    Day,
    Provider(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => f.write_str("this session"),
            Self::Day => f.write_str("today"),
            Self::Provider(name) => write!(f, "the provider {name} today"),
        }
    }
}

/// A limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    scope: Scope,
    limit: Limit,
    used: Limit,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, limit, used } = self;
        write!(f, "the budget of {scope} is {limit}, and {used} are used")
    }
}

impl Reached {
    /// What makes the next request possible, besides a higher limit.
    pub const fn remedy(&self) -> &'static str {
        match self.scope {
            Scope::Session => "continue in a new session",
            Scope::Day => "wait until the next day (UTC)",
            Scope::Provider(_) => "use another provider",
        }
    }
}

impl Limits {
    fn is_empty(&self) -> bool {
        self.session.is_none() && self.day.is_none() && self.providers.is_empty()
    }

    /// Every limit that holds for a request, with its scope and what was used in it.
    fn of<'a>(
        &'a self,
        provider: &'a str,
        used: &'a Used,
    ) -> impl Iterator<Item = (Scope, Limit, &'a Bill)> {
        let session = self.session.map(|limit| (Scope::Session, limit, &used.session));
        let day = self.day.map(|limit| (Scope::Day, limit, &used.day));
        let provider = self
            .providers
            .get(provider)
            .map(|limit| (Scope::Provider(provider.to_owned()), *limit, &used.provider));
        [session, day, provider].into_iter().flatten()
    }
}

impl Budget {
    /// Whether no limit is set.
    pub fn is_empty(&self) -> bool {
        self.warn.is_empty() && self.stop.is_empty()
    }

    /// Why a request to a provider may not start; `None` if it may.
    pub fn refusal(&self, provider: &str, used: &Used) -> Option<Reached> {
        let mut limits = self.stop.of(provider, used);
        limits.find_map(|(scope, limit, used)| {
            let reached = || Reached { scope, limit, used: limit.used(used) };
            limit.is_reached(used).then(reached)
        })
    }

    /// The limits that a turn has reached: below them before it, and not after it. So each is
    /// reported once.
    pub fn warnings(&self, provider: &str, before: &Used, after: &Used) -> Vec<Reached> {
        let before = self.warn.of(provider, before);
        let both = before.zip(self.warn.of(provider, after));
        both.filter(|((_, limit, before), (_, _, after))| {
            !limit.is_reached(before) && limit.is_reached(after)
        })
        .map(|(_, (scope, limit, used))| Reached { scope, limit, used: limit.used(used) })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Known, Tally};

    fn bill(cents: Option<u64>, tokens: u64) -> Bill {
        let tally = Tally { input: Known { sum: tokens, turns: 1 }, ..Tally::default() };
        let cost = cents.map(|cents| Dollars(cents * 10_000_000));
        Bill { tally, cost, ..Bill::default() }
    }

    fn limits(session: &str, day: &str, local: &str) -> Limits {
        let parse = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a limit"));
        let providers = parse(local).map(|limit| ("local".to_owned(), limit));
        let providers = providers.into_iter().collect();
        Limits { session: parse(session), day: parse(day), providers }
    }

    #[test]
    fn a_limit_is_an_amount_or_a_number_of_tokens() {
        assert_eq!("5 USD".parse(), Ok(Limit::Cost(Dollars(5_000_000_000))));
        assert_eq!("0.25 USD".parse(), Ok(Limit::Cost(Dollars(250_000_000))));
        assert_eq!("200000 tokens".parse(), Ok(Limit::Tokens(200_000)));
        for text in ["", "5", "USD", "5 EUR", "-5 USD", "5.5 tokens", "five USD"] {
            let error = text.parse::<Limit>().expect_err("no limit").to_string();
            assert!(error.contains("5 USD"), "{error}");
        }
    }

    #[test]
    fn a_request_may_start_below_every_limit_of_its_scopes() {
        let used = |session, day, provider| Used { session, day, provider };
        let low = bill(Some(99), 99);
        let high = bill(Some(100), 100);
        let unknown = bill(None, 5000);
        let table = [
            (limits("1 USD", "", ""), "local", used(low, high, high), None),
            (limits("1 USD", "", ""), "local", used(high, low, low), Some("this session")),
            (limits("", "1 USD", ""), "local", used(low, high, low), Some("today")),
            (limits("", "", "1 USD"), "local", used(high, high, low), None),
            (limits("", "", "1 USD"), "local", used(low, low, high), Some("provider local")),
            (limits("", "", "1 USD"), "other", used(high, high, high), None),
            (limits("100 tokens", "", ""), "local", used(low, high, high), None),
            (limits("100 tokens", "", ""), "local", used(unknown, low, low), Some("this session")),
            (limits("1 USD", "", ""), "local", used(unknown, low, low), None),
            (limits("0 USD", "", ""), "local", used(bill(None, 0), low, low), None),
            (limits("", "", ""), "local", used(high, high, high), None),
        ];
        for (n, (stop, provider, used, scope)) in table.into_iter().enumerate() {
            let budget = Budget { warn: Limits::default(), stop };
            let refusal = budget.refusal(provider, &used).map(|reached| reached.to_string());
            match (refusal, scope) {
                (None, None) => {}
                (Some(text), Some(scope)) => assert!(text.contains(scope), "case {n}: {text}"),
                other => panic!("case {n}: {other:?}"),
            }
        }
    }

    #[test]
    fn another_provider_is_advised_only_at_the_limit_of_a_provider() {
        let high = bill(Some(100), 100);
        let used = Used { session: high, day: high, provider: high };
        for (stop, remedy) in [
            (limits("1 USD", "", ""), "continue in a new session"),
            (limits("", "1 USD", ""), "wait until the next day (UTC)"),
            (limits("", "", "1 USD"), "use another provider"),
        ] {
            let budget = Budget { warn: Limits::default(), stop };
            let reached = budget.refusal("local", &used).expect("a limit is reached");
            assert_eq!(reached.remedy(), remedy, "{reached}");
        }
    }

    #[test]
    fn a_warning_is_given_by_the_turn_that_reaches_its_limit_and_by_no_later_one() {
        let budget = Budget { warn: limits("1 USD", "250 tokens", ""), stop: Limits::default() };
        let mut used = Used::default();
        let mut warnings = Vec::new();
        for _ in 0..4 {
            let after = used.with(bill(Some(60), 100));
            warnings.push(budget.warnings("local", &used, &after).len());
            used = after;
        }
        assert_eq!(warnings, [0, 1, 1, 0]);
        let text = budget.warnings("local", &Used::default(), &used)[0].to_string();
        assert_eq!(text, "the budget of this session is 1 USD, and 2.4 USD are used");
    }
}
