//! What a report of usage sums by, and which turns it counts.

use crate::time::Timestamp;
use crate::usage::{By, day_number};

/// Longest filter in characters.
const FILTER_MAX_CHARS: usize = 1000;

/// The order of rows that are not days. The largest value comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Sort {
    /// By cost, then by tokens, then by turns.
    #[default]
    Cost,
    Tokens,
    Duration,
    Turns,
    ToolCalls,
}

impl Sort {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Cost, Self::Tokens, Self::Duration, Self::Turns, Self::ToolCalls];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Duration => "duration",
            Self::Turns => "turns",
            Self::ToolCalls => "tool_calls",
        }
    }

    /// Finds a value by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| sort.name() == name)
    }
}

/// A report: its keys, its days and its filters. A filter that is `None` admits everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageQuery {
    /// The key of a row.
    pub by: By,
    /// The second key of a row.
    pub second: Option<By>,
    /// The first day, in days since 1970-01-01.
    pub since: Option<i64>,
    /// The last day.
    pub until: Option<i64>,
    /// Only turns of this provider.
    pub provider: Option<String>,
    /// Only turns of this model; empty for turns without a model.
    pub model: Option<String>,
    /// Only sessions of this project.
    pub project: Option<String>,
    /// Only turns that called this tool.
    pub tool: Option<String>,
    /// The order of the rows.
    pub sort: Sort,
}

impl UsageQuery {
    /// All turns, by one key.
    pub fn by(by: By) -> Self {
        Self { by, ..Self::default() }
    }

    /// Limits the report to the days from that of a time on.
    #[must_use]
    pub fn since(self, at: Timestamp) -> Self {
        Self { since: Some(day_number(at)), ..self }
    }

    /// Limits the report to the days up to that of a time.
    #[must_use]
    pub fn until(self, at: Timestamp) -> Self {
        Self { until: Some(day_number(at)), ..self }
    }

    /// Sets the keys: one name such as `day`, or two such as `day,model`.
    ///
    /// Fails with the reason if a name is unknown.
    pub fn with_keys(self, names: &str) -> Result<Self, String> {
        let named = |name: &str| {
            By::named(name.trim()).ok_or_else(|| {
                let names = By::ALL.map(By::name).join(", ");
                format!("`by` must be one of {names}, or two of them such as day,model")
            })
        };
        let (by, second) = match names.split_once(',') {
            Some((first, second)) => (named(first)?, Some(named(second)?)),
            None => (named(names)?, None),
        };
        Ok(Self { by, second, ..self })
    }

    /// Whether calls of tools are counted instead of tokens and cost.
    pub fn counts_tools(&self) -> bool {
        self.has_key(By::Tool) || self.tool.is_some()
    }

    /// Whether a row has this key.
    pub fn has_key(&self, by: By) -> bool {
        self.by == by || self.second == Some(by)
    }

    /// Checks the keys and filters against each other. Calls of tools are counted by day and
    /// session only, so they have no model and no provider.
    ///
    /// Fails with the reason.
    pub fn check(&self) -> Result<(), String> {
        if self.second == Some(self.by) {
            return Err(format!("`by` has `{}` twice", self.by.name()));
        }
        if self.since.zip(self.until).is_some_and(|(since, until)| since > until) {
            return Err("`until` is before `since`".to_owned());
        }
        let of_models = self.has_key(By::Model)
            || self.has_key(By::Provider)
            || self.model.is_some()
            || self.provider.is_some();
        if self.counts_tools() && of_models {
            return Err("tools cannot be combined with models and providers".to_owned());
        }
        let filters = [&self.provider, &self.model, &self.project, &self.tool];
        if filters.into_iter().flatten().any(|text| text.chars().count() > FILTER_MAX_CHARS) {
            return Err(format!("a filter is longer than {FILTER_MAX_CHARS} characters"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &str) -> Result<(By, Option<By>), String> {
        let query = UsageQuery::default().with_keys(names)?;
        query.check().map(|()| (query.by, query.second))
    }

    #[test]
    fn one_or_two_different_keys_are_accepted() {
        assert_eq!(keys("day"), Ok((By::Day, None)));
        assert_eq!(keys("day,model"), Ok((By::Day, Some(By::Model))));
        assert_eq!(keys("day, tool"), Ok((By::Day, Some(By::Tool))));
        for wrong in ["", "hour", "day,", "day,day", "day,model,project", "tool,model"] {
            assert!(keys(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn filters_that_exclude_each_other_are_refused() {
        let tool = |query: UsageQuery| UsageQuery { tool: Some("bash".to_owned()), ..query };
        assert_eq!(tool(UsageQuery::by(By::Session)).check(), Ok(()));
        assert!(tool(UsageQuery::by(By::Model)).check().is_err());
        let model = Some("m".to_owned());
        assert!(tool(UsageQuery { model, ..UsageQuery::by(By::Session) }).check().is_err());
        let days = UsageQuery::by(By::Day).since(Timestamp(2 * 86_400_000)).until(Timestamp(0));
        assert!(days.check().is_err());
    }
}
