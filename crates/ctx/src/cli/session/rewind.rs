//! `ctx session rewind`: the head goes back to an earlier turn.

use crate::problem::Problem;

use super::super::Context;
use super::{say_session, turn_of};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// The turn to go back to, by the beginning of its id
    turn: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let turn = turn_of(&engine, &args.turn).await?;
    say_session(context, &engine.sessions().rewind(&args.which, turn).await?, "Went back:")
}
