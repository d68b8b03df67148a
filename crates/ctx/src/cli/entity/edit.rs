//! `ctx entity edit`: change an entity.

use ctx_engine::NewEntity;
use ctx_engine::core::identity::EntityKind;
use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::{KindArg, document, entity_line, find, problem};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["name", "kind", "relationship", "owner"])))]
pub(in crate::cli) struct Args {
    /// Select the entity by id or name
    #[arg(value_name = "ENTITY")]
    entity: String,
    /// Set the name
    #[arg(long)]
    name: Option<String>,
    /// Set what the entity is
    #[arg(long)]
    kind: Option<KindArg>,
    /// Set what the entity is to the owner; an empty text removes it
    #[arg(long, value_name = "TEXT")]
    relationship: Option<String>,
    /// Set whether the entity is an owner of this store
    #[arg(long, value_name = "true|false")]
    owner: Option<bool>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let entity = find(&engine, &args.entity).await?;
    let relationship = match args.relationship {
        Some(text) if text.is_empty() => None,
        Some(text) => Some(text),
        None => entity.relationship,
    };
    let new = NewEntity {
        name: args.name.unwrap_or(entity.name),
        kind: args.kind.map_or(entity.kind, EntityKind::from),
        relationship,
        owner: args.owner.unwrap_or(entity.owner),
    };
    let entity = engine.entities().update(entity.id, new).await.map_err(problem)?;
    let (document, _) = document(&engine, &entity).await?;
    context.out.print(|| json!(document), || format!("Changed {}", entity_line(&entity)))
}
