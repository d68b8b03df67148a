//! `ctx entity unlink`: remove the link of an address to an entity.

use serde_json::json;

use crate::json::entity_json::Identity;
use crate::problem::Problem;

use super::super::Context;
use super::{AddressArgs, find, identity_line, shown};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the entity by id or name
    #[arg(value_name = "ENTITY")]
    entity: String,
    #[command(flatten)]
    address: AddressArgs,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let entity = find(&engine, &args.entity).await?;
    let identity = engine.entities().unlink(entity.id, &args.address.into()).await?;
    context.out.print(
        || json!(Identity::from(&identity)),
        || format!("Unlinked {} from {}", identity_line(&identity), shown(&entity.name)),
    )
}
