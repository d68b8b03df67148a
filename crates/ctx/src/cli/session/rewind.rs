//! `ctx session rewind`: move the head back to an earlier turn.

use crate::problem::Problem;

use super::super::Context;
use super::{print_session, resolve_turn};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Move the head to this turn, given by a prefix of its id
    turn: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let turn = resolve_turn(&engine, &args.turn).await?;
    print_session(context, &engine.sessions().rewind(&args.session_name, turn).await?, "Rewound")
}
