//! `ctx alias …`: further labels of sessions.

mod add;
mod list;
mod remove;

use clap::Subcommand;
use ctx_engine::core::alias::Alias;

use crate::json::variant_name;
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, visible_text};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List aliases in the order of their names
    List(list::Args),
    /// Add an alias of a session
    Add(add::Args),
    /// Remove an alias; the session stays
    Remove(remove::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::List(args) => list::run(context, &args).await,
        Verb::Add(args) => add::run(context, &args).await,
        Verb::Remove(args) => remove::run(context, &args).await,
    }
}

/// `dm:01J… → dm:irc:mom identity_promotion`
fn alias_line(alias: &Alias) -> String {
    format!(
        "{BOLD}{}{BOLD:#} → {} {DIM}{}{DIM:#}",
        visible_text(&alias.alias),
        visible_text(&alias.session_label),
        variant_name(&alias.reason)
    )
}
