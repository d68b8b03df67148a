//! Usage: tokens, cost, messages, tool calls and time.

use ctx_engine::core::prices;
use ctx_engine::core::usage::{Bill, By, Dollars, day_name};
use ctx_engine::core::usage_query::UsageQuery;
use ctx_engine::{UsageKey, UsageReport, UsageReportRow};
use serde::Serialize;
use utoipa::ToSchema;

/// Most rows of a document with one key and with two. The total contains all.
pub(crate) const ROWS_MAX: usize = 1000;
const TWO_KEY_ROWS_MAX: usize = 20_000;

/// What turns used, by one key or two
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageDocument {
    pub(crate) by: String,
    /// Days in their order; everything else with the highest cost first, or in the order of `sort`
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
    /// The day, model, project, session id, provider or tool; null if it is unknown or was deleted
    pub(crate) key: Option<String>,
    /// The value of the second name of `by`; absent if there is one name
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) second_key: Option<Option<String>>,
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
    /// Null where calls of tools are counted
    pub(crate) messages: Option<u64>,
    pub(crate) tool_calls: u64,
    /// Calls of tools that failed; only where calls of tools are counted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed_tool_calls: Option<u64>,
    /// Time of the turns in milliseconds; null where calls of tools are counted
    pub(crate) duration_ms: Option<u64>,
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
        let of_turns = bill.failed_calls.is_none();
        Self {
            turns: tally.turns,
            messages: of_turns.then_some(tally.messages),
            tool_calls: tally.tool_calls,
            failed_tool_calls: bill.failed_calls,
            duration_ms: of_turns.then_some(tally.duration_ms),
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

/// Key, label and title of a row.
fn names(key: &UsageKey) -> (Option<String>, Option<String>, Option<String>) {
    match key {
        UsageKey::Day(day) => (Some(day_name(*day)), None, None),
        UsageKey::Model(key) | UsageKey::Provider(key) | UsageKey::Project(key) => {
            (key.clone(), None, None)
        }
        UsageKey::Session { id, label, title } => {
            (Some(id.to_string()), Some(label.clone()), title.clone())
        }
        UsageKey::DeletedSession => (None, None, None),
        UsageKey::Tool(name) => (Some(name.clone()), None, None),
    }
}

impl UsageEntry {
    fn new(row: &UsageReportRow) -> Self {
        let (key, mut label, mut title) = names(&row.key);
        let second_key = row.second.as_ref().map(|second| {
            let (key, second_label, second_title) = names(second);
            label = label.take().or(second_label);
            title = title.take().or(second_title);
            key
        });
        Self { key, second_key, label, title, sum: UsageSum::from(&row.bill) }
    }
}

impl UsageDocument {
    pub(crate) fn new(query: &UsageQuery, report: &UsageReport) -> Self {
        let limit = if query.second.is_some() { TWO_KEY_ROWS_MAX } else { ROWS_MAX };
        let keys = [Some(query.by), query.second];
        let by: Vec<&str> = keys.into_iter().flatten().map(By::name).collect();
        Self {
            by: by.join(","),
            usage: report.rows.iter().take(limit).map(UsageEntry::new).collect(),
            more: report.rows.len().saturating_sub(limit),
            total: UsageSum::from(&report.total),
            prices_of: prices::TABLE_DATE,
        }
    }
}
