//! `ctx entity show`: show an entity and its identities.

use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::super::output::DIM;
use super::{document, entity_line, find, identity_line};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the entity by id or name
    #[arg(value_name = "ENTITY")]
    entity: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let entity = find(&engine, &args.entity).await?;
    let (document, identities) = document(&engine, &entity).await?;
    context.out.print(
        || json!(document),
        || {
            let mut lines = vec![entity_line(&entity)];
            if identities.is_empty() {
                let id = entity.id;
                lines.push(format!(
                    "  {DIM}no identities; add one with \
                     `ctx entity link {id} --channel CHANNEL --sender ID`{DIM:#}"
                ));
            }
            lines.extend(identities.iter().map(|one| format!("  {}", identity_line(one))));
            lines.join("\n")
        },
    )
}
