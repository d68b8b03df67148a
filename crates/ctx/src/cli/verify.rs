//! `ctx verify`: check every hash and reference in the store.

use serde_json::json;

use crate::problem::Problem;

use super::Context;

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
                "{} turns, {} steps, {} commits, {} blobs, {} tasks, {} sessions, {} bytes: {}",
                report.turns,
                report.steps,
                report.commits,
                report.blobs,
                report.tasks,
                report.sessions,
                report.bytes,
                if report.findings.is_empty() { "no damage found" } else { "damaged" }
            ));
            lines.join("\n")
        },
    )?;
    match report.findings.len() {
        0 => Ok(()),
        n => {
            Err(Problem::failed("damaged", format!("the store is damaged: {n} faults were found"))
                .hint("rebuild derived data with `ctx verify --repair`, or restore a backup"))
        }
    }
}
