//! `ctx session archive` and `unarchive`.

use crate::problem::Problem;

use super::super::Context;
use super::{engine_without_runs, print_session};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
}

pub(super) async fn archive(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    print_session(context, &engine.sessions().archive(&args.session_name).await?, "Archived")
}

pub(super) async fn unarchive(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    print_session(context, &engine.sessions().unarchive(&args.session_name).await?, "Restored")
}
