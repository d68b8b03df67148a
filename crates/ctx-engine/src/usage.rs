//! Usage: reports of tokens and cost, and the check of a request against the budget.

use std::cmp::Reverse;

use ctx_core::budget::{Budget, Used};
use ctx_core::id::SessionId;
use ctx_core::prices::Prices;
use ctx_core::turn;
use ctx_core::usage::{Bill, By, Dollars, Tally, day_number};
use ctx_core::usage_query::{Sort, UsageQuery};
use ctx_store::{UsageKey, UsageRow};

use crate::engine::{Engine, Error};

/// Prices and limits of the user.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Spending {
    pub prices: Prices,
    pub budget: Budget,
}

impl Spending {
    /// What some turns of one model cost.
    fn bill(&self, tally: Tally, model: Option<&str>) -> Bill {
        Bill::new(tally, model.and_then(|model| self.prices.of(model)).as_ref())
    }

    fn sum<'a>(&self, rows: impl IntoIterator<Item = &'a UsageRow>) -> Bill {
        let mut sum = Bill::default();
        rows.into_iter().for_each(|row| sum += self.bill(row.tally, row.model.as_deref()));
        sum
    }
}

/// A row of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct UsageReportRow {
    pub key: UsageKey,
    /// The second key, if the query has one.
    pub second: Option<UsageKey>,
    pub bill: Bill,
}

/// What was used, by the keys of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    /// Days in their order; everything else in the order of the query.
    pub rows: Vec<UsageReportRow>,
    /// The sum of all rows.
    pub total: Bill,
}

/// Reports of tokens and cost.
#[derive(Clone, Copy)]
pub struct UsageReports<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// Reports of tokens and cost.
    pub const fn usage(&self) -> UsageReports<'_> {
        UsageReports { engine: self }
    }
}

impl UsageReports<'_> {
    /// What turns used, by the keys of a query. A cost that was reported comes before the price of
    /// a model.
    ///
    /// Fails if the store fails.
    pub async fn report(self, query: &UsageQuery) -> Result<UsageReport, Error> {
        let found = self.engine.store().usage(query.clone()).await?;
        let spending = self.engine.spending();
        let mut parts: Vec<UsageReportRow> = found
            .into_iter()
            .map(|row| {
                let bill = spending.bill(row.tally, row.model.as_deref());
                let bill = Bill { failed_calls: row.failed_calls, ..bill };
                UsageReportRow { key: row.key, second: row.second, bill }
            })
            .collect();
        parts.sort_by(|a, b| (&a.key, &a.second).cmp(&(&b.key, &b.second)));
        let mut rows: Vec<UsageReportRow> = Vec::new();
        let mut total = Bill::default();
        for part in parts {
            total += part.bill;
            match rows.last_mut() {
                Some(last) if last.key == part.key && last.second == part.second => {
                    last.bill += part.bill;
                }
                _ => rows.push(part),
            }
        }
        if query.by != By::Day {
            rows.sort_by_key(|row| Reverse(rank(query.sort, &row.bill)));
        }
        Ok(UsageReport { rows, total })
    }

    /// What was used today, in UTC.
    ///
    /// Fails if the store fails.
    pub async fn today(self) -> Result<Bill, Error> {
        let today = UsageQuery::by(By::Day).since(self.engine.now());
        Ok(self.report(&today).await?.total)
    }
}

/// What rows are sorted by.
fn rank(sort: Sort, bill: &Bill) -> (Option<Dollars>, u64, u64) {
    let tally = &bill.tally;
    match sort {
        Sort::Cost => (bill.cost, tally.tokens(), tally.turns),
        Sort::Tokens => (None, tally.tokens(), tally.turns),
        Sort::Duration => (None, tally.duration_ms, tally.turns),
        Sort::Turns => (None, tally.turns, tally.tokens()),
        Sort::ToolCalls => (None, tally.tool_calls, tally.turns),
    }
}

impl Engine {
    /// What was used in the scopes of a request; `None` if there is no budget.
    pub(crate) async fn used(
        &self,
        session: SessionId,
        provider_id: &str,
    ) -> Result<Option<Used>, Error> {
        let spending = self.spending();
        if spending.budget.is_empty() {
            return Ok(None);
        }
        let found = self.store().usage_of_scopes(session, day_number(self.now())).await?;
        let is_same = |row: &&UsageRow| row.provider_id.as_deref() == Some(provider_id);
        Ok(Some(Used {
            session: spending.sum(&found.session),
            day: spending.sum(&found.day),
            provider: spending.sum(found.day.iter().filter(is_same)),
        }))
    }

    /// The cost of a turn that is not stored yet.
    pub(crate) fn bill_of_open_turn(&self, usage: &turn::Usage, model: Option<&str>) -> Bill {
        let tally = Tally { turns: 1, answered: 1, ..Tally::of_usage(usage) };
        self.spending().bill(tally, model)
    }
}
