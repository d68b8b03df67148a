//! `ctx session cancel`: end what runs, wherever it runs. Messages that wait are left for whoever comes next.

use crate::problem::Problem;

use super::super::Context;
use super::{idle_engine, say_session};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// End what its workers do, too
    #[arg(long)]
    workers: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = idle_engine(context).await?;
    let info = if args.workers {
        engine.runs().cancel_with_workers(&args.which).await?
    } else {
        engine.runs().cancel(&args.which).await?
    };
    say_session(context, &info, "Nothing runs:")
}
