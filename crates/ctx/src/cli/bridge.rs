//! `ctx bridge`, hidden: the MCP server of ctx's tools, as an agent starts it. It forwards standard
//! input and output to the process that runs the session.

use std::process::exit;

use ctx_providers::TOKEN_VARIABLE;

use crate::problem::Problem;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Connect to this socket of the process that runs the session
    socket: String,
}

pub(super) async fn run(args: &Args) -> Result<(), Problem> {
    let token = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
    ctx_providers::run_bridge(&args.socket, &token).await.map_err(|error| {
        Problem::failed("no_session", format!("failed to reach the session of the agent: {error}"))
    })?;
    // A thread still blocks on standard input, so returning from main would hang.
    exit(0);
}
