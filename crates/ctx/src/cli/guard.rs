//! `ctx guard`, hidden: the process between ctx and an agent. It ends the agent when ctx ends, even
//! if ctx is killed.

use std::process::exit;

use crate::problem::Problem;

#[derive(clap::Args)]
pub(super) struct Args {
    /// End the agent when the process with this id ends
    parent: u32,
    /// Run this command line, given after `--`
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Exits with the exit code of the agent.
pub(super) fn run(args: &Args) -> Result<(), Problem> {
    match ctx_providers::run_guarded(args.parent, &args.command) {
        Ok(code) => exit(code),
        Err(error) => Err(Problem::failed(
            "agent_missing",
            format!("failed to start `{}`: {error}", args.command.join(" ")),
        )),
    }
}
