//! `ctx alias add`: add an alias of a session.

use serde_json::json;

use crate::json::entity_json::Alias;
use crate::problem::Problem;

use super::super::Context;
use super::alias_line;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Add this label
    alias: String,
    /// Select the session by label, id or alias
    #[arg(value_name = "SESSION")]
    session_name: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let alias = context.engine()?.aliases().add(&args.alias, &args.session_name).await?;
    context.out.print(|| json!(Alias::from(&alias)), || format!("Added {}", alias_line(&alias)))
}
