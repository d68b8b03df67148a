//! `ctx store …`: stores as a whole, wherever they are.

mod copy;

use clap::Subcommand;

use crate::problem::Problem;

use super::Context;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Copy a store into another one and verify the copy
    Copy(copy::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Copy(args) => copy::run(context, &args).await,
    }
}
