//! `ctx provider …`: list and test providers.

mod list;
mod test;

use clap::Subcommand;

use crate::problem::Problem;

use super::Context;

pub(super) use list::default_provider_check;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List the providers, and show which one a new session uses
    List(list::Args),
    /// Send a question to a provider and report the result and the timings
    Test(test::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::List(args) => list::run(context, &args),
        Verb::Test(args) => test::run(context, &args).await,
    }
}
