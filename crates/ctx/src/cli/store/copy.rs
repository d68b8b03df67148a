//! `ctx store copy FROM TO`: copy a store between directories and PostgreSQL databases.

use ctx_engine::{CopiedStore, CopyPhase, Location, copy_store, is_same_store};
use serde_json::{Value, json};

use crate::config::Config;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::plural;

/// The tables that the text names.
const NAMED: [&str; 5] = ["sessions", "turns", "steps", "commits", "blobs"];

#[derive(clap::Args)]
#[command(after_help = "\
FROM and TO are directories that contain ctx.db, or URLs such as postgres://USER@HOST/DATABASE.
TO is created if there is no store. FROM may be in use; its copy is as it was at one moment.
TO has either the whole copy or nothing of it. See docs/postgres.md.")]
pub(in crate::cli) struct Args {
    /// Copy the store in this directory or PostgreSQL database
    from: String,
    /// Copy it into this directory or PostgreSQL database
    to: String,
    /// Add what a target lacks that is not empty, and change nothing in it
    #[arg(long)]
    merge: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let config = context.config()?;
    let from = location("FROM", &args.from, &config)?;
    let to = location("TO", &args.to, &config)?;
    if is_same_store(&from, &to) {
        let message = format!("cannot copy {from}: FROM and TO are the same store");
        return Err(Problem::wrong_use("same_store", message)
            .hint("give another directory or another database as TO"));
    }
    let progress = |phase, done, total| match phase {
        CopyPhase::Copying => context.out.progress("copying", done, total),
        CopyPhase::Verifying => context.out.progress("verifying", done, total),
    };
    let copied = copy_store(&from, &to, args.merge, &progress).await.map_err(explained)?;
    context.out.print(|| document(&from, &to, &copied), || text(&from, &to, &copied))?;
    match copied.verified.findings.len() {
        0 => Ok(()),
        n => Err(Problem::failed(
            "damaged",
            format!("the target is damaged: found {}", plural(n, "fault")),
        )
        .hint("find out with `ctx verify` whether the source is damaged as well")),
    }
}

fn location(name: &str, text: &str, config: &Config) -> Result<Location, Problem> {
    let scheme = text.trim().split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match (Location::parse(text), scheme) {
        (Location::Server(_), Some(scheme)) if !scheme.starts_with("postgres") => {
            Err(Problem::wrong_use(
                "bad_location",
                format!(
                    "invalid {name}: a store is not kept at a URL that begins with {scheme}://"
                ),
            )
            .hint("give a directory, or a URL such as postgres://USER@HOST/DATABASE"))
        }
        (Location::Server(server), _) => Ok(Location::Server(config.with_store_password(server)?)),
        (directory, _) => Ok(directory),
    }
}

fn explained(error: ctx_engine::Error) -> Problem {
    match error.code() {
        "no_store" => Problem::from(error)
            .hint("FROM is a directory that contains ctx.db, such as .ctx, or a postgres:// URL"),
        _ => error.into(),
    }
}

fn document(from: &Location, to: &Location, copied: &CopiedStore) -> Value {
    let tables = copied.report.tables.iter().map(|rows| {
        (rows.table.to_owned(), json!({"copied": rows.copied, "skipped": rows.skipped}))
    });
    let mut verified = json!(copied.verified);
    verified["ok"] = json!(copied.verified.findings.is_empty());
    json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "created": copied.created,
        "tables": tables.collect::<serde_json::Map<_, _>>(),
        "renamed": copied.report.renamed,
        "verified": verified,
    })
}

fn text(from: &Location, to: &Location, copied: &CopiedStore) -> String {
    let tables = &copied.report.tables;
    let rows: u64 = tables.iter().map(|rows| rows.copied).sum();
    let skipped: u64 = tables.iter().map(|rows| rows.skipped).sum();
    let named = tables.iter().filter(|rows| NAMED.contains(&rows.table));
    let named = named.map(|rows| plural(rows.copied, rows.table.trim_end_matches('s')));
    let (named, rows) = (named.collect::<Vec<_>>().join(", "), plural(rows, "row"));
    let mut lines = vec![format!("Copied {from} to {to}: {rows}; {named}.")];
    if skipped > 0 {
        let skipped = plural(skipped, "row");
        lines.push(format!("Skipped {skipped} that the target has or does not need."));
    }
    for renamed in &copied.report.renamed {
        lines.push(format!(
            "Renamed session {} to {}: its label {} is in use.",
            renamed.id, renamed.to, renamed.from
        ));
    }
    let findings = &copied.verified.findings;
    lines.extend(findings.iter().map(|finding| format!("{}: {}", finding.what, finding.fault)));
    if findings.is_empty() {
        lines.push("Verified the target: no damage found.".to_owned());
    }
    lines.join("\n")
}
