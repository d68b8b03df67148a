//! `ctx entity merge`: merge an entity into another one.

use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::{document, entity_line, find};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The id or name of the entity that stays
    #[arg(long, value_name = "ENTITY")]
    into: String,
    /// The id or name of the entity that is merged into it
    #[arg(long, value_name = "ENTITY")]
    from: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let (into, from) = (find(&engine, &args.into).await?, find(&engine, &args.from).await?);
    let entity = engine.entities().merge(into.id, from.id).await?;
    let (document, _) = document(&engine, &entity).await?;
    context.out.print(
        || json!(document),
        || format!("Merged {}\n  into {}", entity_line(&from), entity_line(&entity)),
    )
}
