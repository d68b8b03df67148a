//! `ctx usage`: tokens, cost, messages, tool calls and time.

use clap::Subcommand;
use ctx_engine::core::prices::TABLE_DATE;
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::usage::{Bill, parse_since};
use ctx_engine::core::usage_query::{Sort, UsageQuery};
use ctx_engine::{Engine, UsageKey, UsageReport};
use serde_json::json;

use crate::json::usage_json::{ROWS_MAX, UsageDocument, UsageSum};
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, plural, wrapped_lines};
use super::table::{Cell, Column, Table};
use super::times::system_time;

/// Longest key in a table, in characters.
const KEY_MAX_CHARS: usize = 40;
const UNKNOWN: &str = "unknown";
const COLUMNS: [Column; 8] = [
    Column::number("turns"),
    Column::number("messages").if_width(90),
    Column::number("tools").if_width(90),
    Column::number("fresh").if_width(70),
    Column::number("cached").if_width(70),
    Column::number("output"),
    Column::number("cost"),
    Column::number("time"),
];
const TOOL_COLUMNS: [Column; 4] = [
    Column::number("turns"),
    Column::number("calls"),
    Column::number("failed"),
    Column::number("rate"),
];

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Sum by day (UTC), model, project, session, provider or tool, or by two of them such as
    /// day,model
    #[arg(long, default_value = "day", value_name = "KEY[,KEY]")]
    by: String,
    /// Begin at a day such as 2026-11-17, or a duration before now such as 7d; whole days count
    #[arg(long, value_name = "D")]
    since: Option<String>,
    /// End with this day, in the same form
    #[arg(long, value_name = "D")]
    until: Option<String>,
    /// Count only turns of this provider
    #[arg(long)]
    provider: Option<String>,
    /// Count only turns of this model
    #[arg(long)]
    model: Option<String>,
    /// Count only sessions of this project
    #[arg(long)]
    project: Option<String>,
    /// Count only the calls of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Sort rows that are not days by this value, largest first
    #[arg(long, default_value = "cost", value_parser = Sort::ALL.map(Sort::name))]
    sort: String,
}

#[derive(Subcommand)]
enum Verb {
    /// Print today's usage in one line, for shells and status lines of agents
    Statusline,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    match args.verb {
        Some(Verb::Statusline) => statusline(context).await,
        None => report(context, args).await,
    }
}

async fn report(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine_if_recorded()?;
    let query = query(args, engine.as_ref().map_or_else(system_time, Engine::now))?;
    let Some(engine) = engine else {
        let nothing = UsageReport { rows: Vec::new(), total: Bill::default() };
        return context.print_nothing_recorded(|| json!(UsageDocument::new(&query, &nothing)));
    };
    let report = engine.usage().report(&query).await?;
    let width = context.out.width();
    context.out.print_paged(
        || json!(UsageDocument::new(&query, &report)),
        || lines(&query, &report, width),
    )
}

fn query(args: &Args, now: Timestamp) -> Result<UsageQuery, Problem> {
    let time = |name: &str, text: &str| {
        parse_since(text, now).ok_or_else(|| {
            let why = format!("invalid value `{text}` for --{name}: it is no day and no duration");
            let code = if name == "since" { "bad_since" } else { "bad_until" };
            Problem::wrong_use(code, why).hint("use a day such as 2026-11-17, or 7d")
        })
    };
    let wrong = |why: String| {
        Problem::wrong_use("bad_usage_query", format!("invalid report: {why}"))
            .hint("see the keys and filters with `ctx usage --help`")
    };
    let mut query = UsageQuery::default().with_keys(&args.by).map_err(wrong)?;
    if let Some(text) = args.since.as_deref() {
        query = query.since(time("since", text)?);
    }
    if let Some(text) = args.until.as_deref() {
        query = query.until(time("until", text)?);
    }
    let query = UsageQuery {
        provider: args.provider.clone(),
        model: args.model.clone(),
        project: args.project.clone(),
        tool: args.tool.clone(),
        sort: Sort::named(&args.sort).unwrap_or_default(),
        ..query
    };
    query.check().map_err(wrong)?;
    Ok(query)
}

/// One line about today. A store that does not exist has no usage.
async fn statusline(context: &Context) -> Result<(), Problem> {
    let engine = match context.engine() {
        Ok(engine) => Some(engine),
        Err(problem) if problem.code == "no_store" => None,
        Err(problem) => return Err(problem),
    };
    let today = match &engine {
        Some(engine) => engine.usage().today().await?,
        None => Bill::default(),
    };
    context.out.print(
        || json!({"today": UsageSum::from(&today)}),
        || {
            let turns = plural(today.tally.turns, "turn");
            let tokens = amount(today.tally.tokens());
            format!("today {} · {tokens} tokens · {turns}", cost(&today))
        },
    )
}

fn lines(query: &UsageQuery, report: &UsageReport, width: Option<usize>) -> Vec<String> {
    if report.rows.is_empty() {
        return vec!["No usage. Send a message with `ctx run`.".to_owned()];
    }
    let tools = query.counts_tools();
    let mut columns = vec![Column::text(query.by.name())];
    columns.extend(query.second.map(|by| Column::text(by.name())));
    columns.extend(if tools { &TOOL_COLUMNS[..] } else { &COLUMNS[..] });
    let values = |bill: &Bill| if tools { tool_line(bill) } else { line(bill) };
    let mut table = Table::new(columns);
    for row in report.rows.iter().take(ROWS_MAX) {
        let keys = [Some(&row.key), row.second.as_ref()].into_iter().flatten().map(key_text);
        table.row(keys.chain(values(&row.bill)).map(Cell::new));
    }
    let mut total = vec!["total".to_owned()];
    total.extend(query.second.map(|_| String::new()));
    total.extend(values(&report.total));
    table.row(total.iter().map(|text| Cell::styled(text, BOLD)));
    let mut lines = table.lines(width);
    let more = report.rows.len().saturating_sub(ROWS_MAX);
    if more > 0 {
        lines.insert(lines.len() - 1, format!("{DIM}… {more} more{DIM:#}"));
    }
    if report.total.unpriced_turns > 0 {
        let unpriced = report.total.unpriced_turns;
        let verb = if unpriced == 1 { "has" } else { "have" };
        let unpriced = plural(unpriced, "turn");
        let text = format!(
            "{unpriced} {verb} no known cost. Set prices under [prices] in ctx.toml; those of the \
             program are of {TABLE_DATE}."
        );
        let wrapped = wrapped_lines(&text, width).into_iter();
        lines.extend(wrapped.map(|line| format!("{DIM}{line}{DIM:#}")));
    }
    lines
}

fn key_text(key: &UsageKey) -> String {
    let text = match key {
        UsageKey::Day(day) => ctx_engine::core::usage::day_name(*day),
        UsageKey::Model(key) | UsageKey::Provider(key) => {
            key.clone().unwrap_or_else(|| "(none)".to_owned())
        }
        UsageKey::Project(key) => key.clone().unwrap_or_else(|| "(deleted)".to_owned()),
        UsageKey::Session { label, title, .. } => title.clone().unwrap_or_else(|| label.clone()),
        UsageKey::DeletedSession => "(deleted)".to_owned(),
        UsageKey::Tool(name) => name.clone(),
    };
    one_line(&text, KEY_MAX_CHARS)
}

/// Calls and failures, in the order of `TOOL_COLUMNS`.
fn tool_line(bill: &Bill) -> Vec<String> {
    let failed = bill.failed_calls.unwrap_or(0);
    vec![
        bill.tally.turns.to_string(),
        bill.tally.tool_calls.to_string(),
        failed.to_string(),
        format!("{}%", failed.saturating_mul(100) / bill.tally.tool_calls.max(1)),
    ]
}

/// The values of a sum, in the order of `COLUMNS`.
fn line(bill: &Bill) -> Vec<String> {
    let tally = &bill.tally;
    let tokens = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), amount);
    vec![
        tally.turns.to_string(),
        tally.messages.to_string(),
        tally.tool_calls.to_string(),
        tokens(tally.input.value().map(|_| tally.fresh)),
        tokens(tally.cached.value()),
        tokens(tally.output.value()),
        cost(bill),
        duration(tally.duration_ms),
    ]
}

/// A cost that is known in part is a lower bound.
fn cost(bill: &Bill) -> String {
    match bill.cost {
        None if bill.tally.answered == 0 => "-".to_owned(),
        None => UNKNOWN.to_owned(),
        Some(cost) if bill.unpriced_turns > 0 => format!("≥ ${}", cost.rounded()),
        Some(cost) => format!("${}", cost.rounded()),
    }
}

/// A count with three digits and a unit: 950, 12.3k, 4.56M.
fn amount(count: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let places = match count / unit {
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        format!("{:.places$}{name}", count as f64 / unit as f64)
    };
    match count {
        0..1000 => count.to_string(),
        1000..999_500 => scaled(1000, "k"),
        999_500..999_500_000 => scaled(1_000_000, "M"),
        _ => scaled(1_000_000_000, "G"),
    }
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_digits_and_a_unit() {
        let table = [
            (0, "0"),
            (999, "999"),
            (1000, "1.00k"),
            (12_345, "12.3k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (4_560_000, "4.56M"),
            (12_000_000_000, "12.0G"),
        ];
        for (count, text) in table {
            assert_eq!(amount(count), text);
        }
    }

    #[test]
    fn durations_have_two_units() {
        let table = [(7, "7ms"), (59_999, "59s"), (61_000, "1m 01s"), (7_380_000, "2h 03m")];
        for (ms, text) in table {
            assert_eq!(duration(ms), text);
        }
    }
}
