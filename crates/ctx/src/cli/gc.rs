//! `ctx gc`: delete stored blobs that nothing references.

use ctx_engine::core::time::Span;
use serde_json::json;

use crate::problem::Problem;

use super::Context;
use super::output::plural;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Keep blobs younger than this, because a running command may still reference them
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    grace: Span,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let report = context.engine()?.maintenance().gc(args.grace).await?;
    context.out.print(
        || json!(report),
        || match report.blobs_removed {
            0 => format!("Deleted no blobs; {} are in use or too young.", report.blobs_kept),
            n => format!(
                "Deleted {} ({} bytes); {} remain.",
                plural(n, "blob"),
                report.bytes_removed,
                report.blobs_kept
            ),
        },
    )
}
