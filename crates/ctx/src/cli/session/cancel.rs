//! `ctx session cancel`: cancel the run, whichever process owns it. Waiting messages stay in the
//! inbox; this verb does not run them.

use crate::problem::Problem;

use super::super::Context;
use super::{engine_without_runs, print_session};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label or id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Cancel the runs of its workers too
    #[arg(long)]
    workers: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let info = if args.workers {
        engine.runs().cancel_with_workers(&args.session_name).await?
    } else {
        engine.runs().cancel(&args.session_name).await?
    };
    print_session(context, &info, "Idle:")
}
