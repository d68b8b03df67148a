//! `ctx gc`: remove stored contents that nothing refers to.

use ctx_engine::core::time::Span;
use serde_json::json;

use crate::problem::Problem;

use super::Context;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Keep what is younger than this: somebody may be about to refer to it
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    grace: Span,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let report = context.engine()?.maintenance().gc(args.grace).await?;
    context.out.say(
        || json!(report),
        || match report.blobs_removed {
            0 => format!("Nothing to remove; {} blobs are in use or too young.", report.blobs_kept),
            n => format!(
                "Removed {n} blobs of {} bytes; {} are left.",
                report.bytes_removed, report.blobs_kept
            ),
        },
    )
}
