//! `ctx session archive` and `unarchive`: put a session away, and take it out again.

use crate::problem::Problem;

use super::super::Context;
use super::{idle_engine, say_session};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
}

pub(super) async fn archive(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = idle_engine(context).await?;
    say_session(context, &engine.sessions().archive(&args.which).await?, "Put away:")
}

pub(super) async fn unarchive(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = idle_engine(context).await?;
    say_session(context, &engine.sessions().unarchive(&args.which).await?, "Taken out:")
}
