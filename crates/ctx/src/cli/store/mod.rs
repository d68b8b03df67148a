//! `ctx store …`: stores as a whole, wherever they are.

mod copy;
pub(super) mod index;

use clap::Subcommand;

use crate::problem::Problem;

use super::Context;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Copy a store into another one and verify the copy
    Copy(copy::Args),
    /// Bring the search index up to date
    Index(index::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Copy(args) => copy::run(context, &args).await,
        Verb::Index(args) => index::run(context, &args).await,
    }
}
