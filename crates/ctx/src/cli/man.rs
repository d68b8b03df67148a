//! `ctx man DIR`: write the man pages of all verbs, for packages.

use std::path::PathBuf;

use clap::CommandFactory;
use serde_json::json;

use crate::problem::Problem;

use super::{Cli, Context};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Write the pages to this directory
    dir: PathBuf,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let dir = &args.dir;
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.map_err(|e| {
        let message = format!("failed to write man pages to {}: {e}", dir.display());
        Problem::failed("output", message)
    })?;
    context.out.print(|| json!({"dir": dir}), String::new)
}
