//! `ctx search WORDS`: full-text search.

use serde_json::json;

use crate::json::object_json;
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Find entries that contain all these words; `word*` matches a prefix
    #[arg(required = true)]
    words: Vec<String>,
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let words = args.words.join(" ");
    let hits = context.engine()?.records().search(&words, usize::from(args.limit)).await?;
    context.out.print(
        || json!({"hits": hits.iter().map(object_json::search_hit).collect::<Vec<_>>()}),
        || match hits.as_slice() {
            [] => format!("No results for `{words}`."),
            hits => {
                let line = |hit: &ctx_engine::Hit| {
                    format!(
                        "{BOLD}{} {}{BOLD:#} {DIM}{}{DIM:#} {}",
                        hit.kind,
                        hit.id.short(),
                        hit.at,
                        hit.snippet
                    )
                };
                hits.iter().map(line).collect::<Vec<_>>().join("\n")
            }
        },
    )
}
