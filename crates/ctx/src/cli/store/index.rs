//! `ctx store index`: bring the search index up to date.

use std::path::Path;
use std::process::{Command, Stdio};

use ctx_engine::{Engine, Indexing, Location};
use serde_json::json;

use crate::problem::Problem;

use super::super::Context;

/// Rows above which [`after_import`] starts a process that indexes them.
const OWN_PROCESS_ROWS: u64 = 2000;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Run with the lowest priority
    #[arg(long, hide = true)]
    background: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    if args.background {
        const LOWEST: i32 = 19;
        // Not permitted everywhere.
        let _ = rustix::process::nice(LOWEST);
    }
    let engine = context.engine_without_providers(Indexing::Background)?;
    let rows = engine.maintenance().unindexed().await?;
    engine.maintenance().update_indexes().await?;
    let plural = if rows == 1 { "" } else { "s" };
    context.out.print(|| json!({"indexed": rows}), || format!("Indexed {rows} row{plural}"))
}

/// Brings the index up to date after an import. For many rows that takes longer than the import
/// itself, so it is left to a process of its own; returns the number of these rows.
pub(in crate::cli) async fn after_import(
    context: &Context,
    engine: &Engine,
) -> Result<u64, Problem> {
    let rows = engine.maintenance().unindexed().await?;
    if let Location::Directory(dir) = context.location(&context.config()?)?
        && rows > OWN_PROCESS_ROWS
        && start(context, &dir).is_ok()
    {
        return Ok(rows);
    }
    engine.maintenance().update_indexes().await?;
    Ok(0)
}

/// Starts a process that indexes a store. It outlives this one, and a signal to the terminal does
/// not reach it.
fn start(context: &Context, store: &Path) -> std::io::Result<()> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--data").arg(&context.data).arg("--store").arg(store);
    if let Some(config) = &context.config {
        command.arg("--config").arg(config);
    }
    command.args(["store", "index", "--background"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}
