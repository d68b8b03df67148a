//! `ctx search WORDS`: find what was said.

use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::Context;
use super::output::{BOLD, DIM};

#[derive(clap::Args)]
pub(super) struct Args {
    /// All of them must be there; `word*` finds beginnings
    #[arg(required = true)]
    words: Vec<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let words = args.words.join(" ");
    let hits = context.engine()?.records().search(&words, usize::from(args.limit)).await?;
    context.out.say(
        || json!({"hits": hits.iter().map(shape::hit).collect::<Vec<_>>()}),
        || match hits.as_slice() {
            [] => format!("Nothing here says `{words}`."),
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
