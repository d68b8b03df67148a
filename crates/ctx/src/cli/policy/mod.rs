//! `ctx policy …`: check the policies, and explain their decision about a message.

mod check;
mod explain;

use clap::Subcommand;

use crate::problem::Problem;

use super::Context;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Check a policy file and list its policies in the order of evaluation
    Check(check::Args),
    /// Show the decision about a message, and the part of each policy in it
    ///
    /// Nothing is stored or sent. A denial is a result: the exit code is 0.
    Explain(explain::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Check(args) => check::run(context, &args),
        Verb::Explain(args) => explain::run(context, args).await,
    }
}
