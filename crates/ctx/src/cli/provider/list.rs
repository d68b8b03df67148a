//! `ctx provider list`: list the configured and discovered providers, their availability and the
//! default.

use serde_json::{Value, json};

use crate::json::provider_json::Providers;
use crate::problem::Problem;
use crate::provider_setup::{Assembled, assemble};

use super::super::Context;
use super::super::output::{BOLD, DIM, GREEN, YELLOW, more_line, visible_line};
use super::super::table::{Cell, Column, Table};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let assembled = assemble(&context.config()?, &context.data)?;
    let width = context.out.width();
    let limit = usize::from(args.limit);
    context.out.print_paged(|| document(&assembled, limit), || lines(&assembled, limit, width))
}

/// The document of `GET /api/providers`, with the reasons in `origin` and `default_reason`.
fn document(assembled: &Assembled, limit: usize) -> Value {
    let mut document = json!(Providers::from(&assembled.providers));
    if let Some(providers) = document["providers"].as_array_mut() {
        providers.truncate(limit);
    }
    document["default_reason"] = json!(assembled.default_reason);
    for provider in document["providers"].as_array_mut().into_iter().flatten() {
        let origin = provider["id"].as_str().and_then(|id| assembled.origins.get(id)).cloned();
        provider["origin"] = json!(origin);
    }
    document
}

fn lines(assembled: &Assembled, limit: usize, width: Option<usize>) -> Vec<String> {
    let providers = &assembled.providers;
    let mut table = Table::new([
        Column::new("  NAME"),
        Column::new("KIND"),
        Column::new("STATE"),
        Column::new("MODEL").at_most(30),
        Column::text("WHY").if_width(70),
    ]);
    for (name, provider) in providers.all.iter().take(limit) {
        let about = provider.about();
        let mark = if *name == providers.default { "*" } else { " " };
        let origin = assembled.origins.get(name).map(String::as_str).unwrap_or_default();
        let (state, colour, why) = match &about.unavailable {
            None => ("available", GREEN, origin.to_owned()),
            Some(why) => ("not available", YELLOW, format!("{why} · {origin}")),
        };
        table.row([
            Cell::styled(format!("{mark} {name}"), BOLD),
            Cell::new(about.kind),
            Cell::styled(state, colour),
            Cell::new(about.model.unwrap_or_default()),
            Cell::styled(why, DIM),
        ]);
    }
    let mut lines = table.lines(width);
    let more = providers.all.len().saturating_sub(limit) as u64;
    if more > 0 {
        lines.push(more_line(more, "provider", "show more with `--limit N`"));
    }
    lines.push(format!(
        "Default provider: {BOLD}{}{BOLD:#} ({})",
        visible_line(&providers.default, 80),
        visible_line(&assembled.default_reason, 200)
    ));
    lines
}

/// For `ctx doctor`: whether the default provider is available, and a description.
pub(in crate::cli) fn default_provider_check(assembled: &Assembled) -> (bool, String) {
    let providers = &assembled.providers;
    let unavailable =
        |name: &String| providers.all.get(name).and_then(|provider| provider.about().unavailable);
    let others =
        providers.all.keys().filter(|name| **name != providers.default).map(
            |name| match unavailable(name) {
                None => name.clone(),
                Some(why) => format!("{name} ({why})"),
            },
        );
    let others: Vec<String> = others.collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
    match unavailable(&providers.default) {
        None => (
            true,
            format!("default provider {}: {}{others}", providers.default, assembled.default_reason),
        ),
        Some(why) => (
            false,
            format!("default provider {} is not available: {why}{others}", providers.default),
        ),
    }
}
