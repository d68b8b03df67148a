//! Usage: tokens, cost, messages, tool calls and time.

use ctx_engine::core::prices;
use ctx_engine::core::usage::{Bill, By, Dollars, day_name};
use ctx_engine::{UsageKey, UsageReport};
use serde::Serialize;
use utoipa::ToSchema;

/// Most rows of a document. The total contains all.
pub(crate) const ROWS_MAX: usize = 1000;

/// What turns used, by one key
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageDocument {
    pub(crate) by: &'static str,
    /// Days in their order; everything else with the highest cost first
    pub(crate) usage: Vec<UsageEntry>,
    /// Rows that are not listed; the total contains them
    pub(crate) more: usize,
    pub(crate) total: UsageSum,
    /// The date of the prices in the program; those of the configuration come before them
    pub(crate) prices_of: &'static str,
}

/// What turns with the same key used
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageEntry {
    /// The day, model, project, session id or provider; null if it is unknown or was deleted
    pub(crate) key: Option<String>,
    /// Label of a session
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Title of a session
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(flatten)]
    pub(crate) sum: UsageSum,
}

/// A sum over turns. A value that no turn reported is null, never 0
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageSum {
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
    /// Time of the turns in milliseconds
    pub(crate) duration_ms: u64,
    /// Input tokens, the cached ones included
    pub(crate) input_tokens: Option<u64>,
    /// Input tokens that were not cached
    pub(crate) fresh_tokens: Option<u64>,
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    /// The known part of the cost
    pub(crate) cost: Option<f64>,
    pub(crate) currency: &'static str,
    /// Turns whose cost is unknown
    pub(crate) unpriced_turns: u64,
}

impl From<&Bill> for UsageSum {
    fn from(bill: &Bill) -> Self {
        let tally = &bill.tally;
        Self {
            turns: tally.turns,
            messages: tally.messages,
            tool_calls: tally.tool_calls,
            duration_ms: tally.duration_ms,
            input_tokens: tally.input.value(),
            fresh_tokens: tally.input.value().map(|_| tally.fresh),
            cached_tokens: tally.cached.value(),
            output_tokens: tally.output.value(),
            cost: bill.cost.map(Dollars::as_f64),
            currency: "USD",
            unpriced_turns: bill.unpriced_turns,
        }
    }
}

impl UsageEntry {
    fn new(key: &UsageKey, bill: &Bill) -> Self {
        let (key, label, title) = match key {
            UsageKey::Day(day) => (Some(day_name(*day)), None, None),
            UsageKey::Model(key) | UsageKey::Provider(key) | UsageKey::Project(key) => {
                (key.clone(), None, None)
            }
            UsageKey::Session { id, label, title } => {
                (Some(id.to_string()), Some(label.clone()), title.clone())
            }
            UsageKey::DeletedSession => (None, None, None),
        };
        Self { key, label, title, sum: UsageSum::from(bill) }
    }
}

impl UsageDocument {
    pub(crate) fn new(by: By, report: &UsageReport) -> Self {
        let rows = report.rows.iter().take(ROWS_MAX);
        Self {
            by: by.name(),
            usage: rows.map(|(key, bill)| UsageEntry::new(key, bill)).collect(),
            more: report.rows.len().saturating_sub(ROWS_MAX),
            total: UsageSum::from(&report.total),
            prices_of: prices::TABLE_DATE,
        }
    }
}
