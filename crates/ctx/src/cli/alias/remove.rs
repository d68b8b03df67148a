//! `ctx alias remove`: remove an alias.

use serde_json::json;

use crate::json::entity_json::Alias;
use crate::problem::Problem;

use super::super::Context;
use super::alias_line;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Remove this alias
    alias: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let alias = context.engine()?.aliases().remove(&args.alias).await?;
    context.out.print(|| json!(Alias::from(&alias)), || format!("Removed {}", alias_line(&alias)))
}
