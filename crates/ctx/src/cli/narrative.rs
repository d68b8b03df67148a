//! `ctx narrative`: show the notes of a day.

use ctx_engine::core::time::{Span, Timestamp};
use serde_json::json;

use crate::json::object_json;
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM};

const NOTES_MAX: usize = 10_000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show this day (UTC) [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let day = args.day.clone().unwrap_or_else(|| engine.now().day());
    let from = Timestamp::start_of_day(&day).ok_or_else(|| {
        Problem::wrong_use("bad_day", format!("invalid day `{day}`: use the format YYYY-MM-DD"))
    })?;
    let to = Timestamp(from.0.saturating_add_unsigned(Span::days(1).0));
    let sentences = engine.records().narrative(from, to, NOTES_MAX).await?;
    context.out.print(
        || {
            let notes: Vec<_> = sentences.iter().map(object_json::narrative_note).collect();
            json!({"day": day, "notes": notes})
        },
        || {
            if sentences.is_empty() {
                return format!("No notes on {day}.");
            }
            let line = |s: &ctx_engine::NarrativeNote| {
                format!("{DIM}{}{DIM:#} {}", &s.at.to_string()[11..19], s.text)
            };
            let lines: Vec<String> = sentences.iter().map(line).collect();
            let more = if lines.len() == NOTES_MAX {
                format!("\nOnly the first {NOTES_MAX} notes are shown.")
            } else {
                String::new()
            };
            format!("{BOLD}{day}{BOLD:#}\n{}{more}", lines.join("\n"))
        },
    )
}
