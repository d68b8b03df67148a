//! Verbs that ctx runs for itself: nobody types them.

use std::process::exit;

use ctx_providers::TOKEN_VARIABLE;

use crate::problem::Problem;

/// Runs an agent until it ends or the process that wants it dies.
#[derive(clap::Args)]
pub(super) struct GuardArgs {
    /// The process that wants it
    parent: u32,
    /// The agent's command line
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Joins standard input and output to the tools of a session.
#[derive(clap::Args)]
pub(super) struct BridgeArgs {
    /// The name of the socket of the process that runs the session
    desk: String,
}

pub(super) fn guard(args: &GuardArgs) -> Result<(), Problem> {
    match ctx_providers::guard(args.parent, &args.command) {
        Ok(code) => exit(code),
        Err(error) => Err(Problem::failed(
            "agent_missing",
            format!("`{}` could not be started: {error}", args.command.join(" ")),
        )),
    }
}

pub(super) async fn bridge(args: &BridgeArgs) -> Result<(), Problem> {
    let token = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
    let joined = ctx_providers::bridge(&args.desk, &token).await;
    joined.map_err(|error| {
        Problem::failed(
            "no_session",
            format!("the session that this agent works for cannot be reached: {error}"),
        )
    })?;
    // Reading standard input holds a thread that nothing can end.
    exit(0);
}
