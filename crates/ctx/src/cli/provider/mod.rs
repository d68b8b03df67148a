//! `ctx provider …`: who can answer here, and whether they do.

mod list;
mod test;

use clap::Subcommand;

use crate::problem::Problem;

use super::Context;

pub(super) use list::summary;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Who can answer, and which one a session would use
    List(list::Args),
    /// Ask one a question, and say what worked and how long it took
    Test(test::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::List(args) => list::run(context, &args),
        Verb::Test(args) => test::run(context, &args).await,
    }
}
