//! `ctx completions SHELL`: print a completion script.

use clap::CommandFactory;
use serde_json::json;

use crate::problem::Problem;

use super::{Cli, Context};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print the script for this shell
    shell: clap_complete::Shell,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctx", &mut script);
    let script = String::from_utf8_lossy(&script);
    context.out.print(
        || json!({"shell": args.shell.to_string(), "script": script}),
        || script.trim_end().to_owned(),
    )
}
