//! `ctx narrative`: the notes of a day, as a log.

use ctx_engine::core::time::{Span, Timestamp};
use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::Context;
use super::output::{BOLD, DIM};

/// The most notes that are shown of one day.
const NOTES_MAX: usize = 10_000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Which day, UTC [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let day = args.day.clone().unwrap_or_else(|| engine.now().day());
    let from = Timestamp::start_of_day(&day).ok_or_else(|| {
        Problem::wrong_use("bad_day", format!("`{day}` is not a day"))
            .hint("write it as YYYY-MM-DD")
    })?;
    let to = Timestamp(from.0.saturating_add_unsigned(Span::days(1).0));
    let sentences = engine.records().narrative(from, to, NOTES_MAX).await?;
    context.out.say(
        || json!({"day": day, "notes": sentences.iter().map(shape::sentence).collect::<Vec<_>>()}),
        || {
            if sentences.is_empty() {
                return format!("No notes on {day}.");
            }
            let line = |s: &ctx_engine::Sentence| {
                format!("{DIM}{}{DIM:#} {}", &s.at.to_string()[11..19], s.text)
            };
            let lines: Vec<String> = sentences.iter().map(line).collect();
            let more = if lines.len() == NOTES_MAX {
                "\nThere may be more: only so many are shown of one day."
            } else {
                ""
            };
            format!("{BOLD}{day}{BOLD:#}\n{}{more}", lines.join("\n"))
        },
    )
}
