//! `ctx entity add`: add an entity.

use ctx_engine::NewEntity;
use ctx_engine::core::identity::EntityKind;
use serde_json::json;

use crate::json::entity_json::Entity;
use crate::problem::Problem;

use super::super::Context;
use super::{KindArg, entity_line, problem};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Set the name
    name: String,
    /// Set what the entity is [default: person]
    #[arg(long)]
    kind: Option<KindArg>,
    /// Set what the entity is to the owner, such as family; policies can match it
    #[arg(long, value_name = "TEXT")]
    relationship: Option<String>,
    /// Make the entity an owner of this store
    #[arg(long)]
    owner: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    // Creates the store, because entities are often added before the first `ctx serve`.
    context.create_store()?;
    let new = NewEntity {
        name: args.name,
        kind: args.kind.map(EntityKind::from).unwrap_or_default(),
        relationship: args.relationship,
        owner: args.owner,
    };
    let entity = context.engine()?.entities().create(new).await.map_err(problem)?;
    context
        .out
        .print(|| json!(Entity::new(&entity, &[])), || format!("Added {}", entity_line(&entity)))
}
