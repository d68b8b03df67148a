//! Usage: reports of tokens and cost, and the check of a request against the budget.

use ctx_core::budget::{Budget, Used};
use ctx_core::id::SessionId;
use ctx_core::prices::Prices;
use ctx_core::time::Timestamp;
use ctx_core::turn;
use ctx_core::usage::{Bill, By, Tally, day_number};
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

/// What was used, by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    /// Days in their order; everything else with the highest cost first.
    pub rows: Vec<(UsageKey, Bill)>,
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
    /// What all turns since a time used, by a key. The time is rounded down to the start of its
    /// day in UTC. A cost that was reported comes before the price of a model.
    ///
    /// Fails if the store fails.
    pub async fn report(self, by: By, since: Option<Timestamp>) -> Result<UsageReport, Error> {
        let since = since.map_or(i64::MIN, day_number);
        let found = self.engine.store().usage(by, since).await?;
        let spending = self.engine.spending();
        let mut bills: Vec<(UsageKey, Bill)> = found
            .into_iter()
            .map(|row| (row.key, spending.bill(row.tally, row.model.as_deref())))
            .collect();
        bills.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut rows: Vec<(UsageKey, Bill)> = Vec::new();
        let mut total = Bill::default();
        for (key, bill) in bills {
            total += bill;
            match rows.last_mut() {
                Some((last, sum)) if *last == key => *sum += bill,
                _ => rows.push((key, bill)),
            }
        }
        if by != By::Day {
            rows.sort_by_key(|(_, bill)| {
                std::cmp::Reverse((bill.cost, bill.tally.tokens(), bill.tally.turns))
            });
        }
        Ok(UsageReport { rows, total })
    }

    /// What was used today, in UTC.
    ///
    /// Fails if the store fails.
    pub async fn today(self) -> Result<Bill, Error> {
        Ok(self.report(By::Day, Some(self.engine.now())).await?.total)
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
