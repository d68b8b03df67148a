//! `ctx verify`: check every hash and reference in the store.

use serde_json::json;

use crate::problem::Problem;

use super::Context;
use super::output::plural;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Rebuild derived data: indexes, refs and counters
    #[arg(long)]
    repair: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let progress = |done, total| context.out.progress("verifying", done, total);
    let report = context.engine()?.maintenance().verify(args.repair, &progress).await?;
    context.out.print(
        || {
            let mut document = json!(report);
            document["ok"] = json!(report.findings.is_empty());
            document
        },
        || {
            let mut lines: Vec<String> =
                report.repaired.iter().map(|what| format!("repaired: {what}")).collect();
            lines.extend(
                report
                    .findings
                    .iter()
                    .map(|finding| format!("{}: {}", finding.what, finding.fault)),
            );
            lines.push(format!(
                "{}, {}, {}, {}, {}, {}, {}: {}",
                plural(report.turns, "turn"),
                plural(report.steps, "step"),
                plural(report.commits, "commit"),
                plural(report.blobs, "blob"),
                plural(report.tasks, "task"),
                plural(report.sessions, "session"),
                plural(report.bytes, "byte"),
                if report.findings.is_empty() { "no damage found" } else { "damaged" }
            ));
            lines.join("\n")
        },
    )?;
    match report.findings.len() {
        0 => Ok(()),
        n => {
            let found = plural(n, "fault");
            Err(Problem::failed("damaged", format!("the store is damaged: found {found}"))
                .hint("rebuild derived data with `ctx verify --repair`, or restore a backup"))
        }
    }
}
