//! `ctx entity sessions`: list the sessions of an entity.

use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::super::session::list;
use super::{find, shown};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the entity by id or name
    #[arg(value_name = "ENTITY")]
    entity: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let entity = find(&engine, &args.entity).await?;
    let sessions = engine.entities().sessions(entity.id).await?;
    let (documents, lines) = list::sessions(context, &engine, &sessions).await?;
    context.out.print_paged(
        || json!({"sessions": documents}),
        || match lines.is_empty() {
            true => vec![format!("No sessions of {}.", shown(&entity.name))],
            false => lines,
        },
    )
}
