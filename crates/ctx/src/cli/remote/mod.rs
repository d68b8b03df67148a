//! `ctx remote …`: the other stores that sessions are exchanged with.

mod add;
mod list;
mod remove;
mod serve;

use clap::Subcommand;

use crate::problem::Problem;

use super::Context;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Add a remote: another machine, a ctx server or a shared directory
    Add(add::Args),
    /// List the remotes
    List,
    /// Remove a remote from the list; nothing is deleted there
    Remove(remove::Args),
    /// Serve the store to another machine, over standard input and output
    #[command(hide = true)]
    Serve(serve::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Add(args) => add::run(context, &args).await,
        Verb::List => list::run(context),
        Verb::Remove(args) => remove::run(context, &args),
        Verb::Serve(args) => serve::run(context, &args).await,
    }
}
