//! `ctx alias list`: list aliases.

use serde_json::json;

use crate::json::entity_json::Alias;
use crate::json::variant_name;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, DIM};
use super::super::table::{Cell, Column, Table};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Show only aliases of this session, given by label, id or alias
    #[arg(value_name = "SESSION")]
    session_name: Option<String>,
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue after this alias
    #[arg(long, value_name = "ALIAS")]
    after: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let (session, after) = (args.session_name.as_deref(), args.after.as_deref());
    let limit = usize::from(args.limit);
    let mut aliases = context.engine()?.aliases().list(session, after, limit + 1).await?;
    let more = aliases.len() > limit;
    aliases.truncate(limit);
    let next_cursor = aliases.last().filter(|_| more).map(|last| last.alias.clone());
    context.out.print_paged(
        || {
            let aliases: Vec<Alias> = aliases.iter().map(Alias::from).collect();
            json!({"aliases": aliases, "next_cursor": next_cursor})
        },
        || {
            if aliases.is_empty() {
                let none = "No aliases. Add one with `ctx alias add ALIAS SESSION`.";
                return vec![none.to_owned()];
            }
            let mut table =
                Table::new([Column::text("ALIAS"), Column::text("SESSION"), Column::new("REASON")]);
            for alias in &aliases {
                let reason = variant_name(&alias.reason);
                table.row([
                    Cell::styled(&alias.alias, BOLD),
                    Cell::new(&alias.session_label),
                    Cell::styled(reason, DIM),
                ]);
            }
            let mut lines = table.lines(context.out.width());
            if next_cursor.is_some() {
                let how = "show them with `--after` and the last alias";
                lines.push(format!("{DIM}More aliases; {how}{DIM:#}"));
            }
            lines
        },
    )
}
