//! `ctx entity link`: link an address on a channel to an entity.

use serde_json::json;

use crate::json::entity_json::Identity;
use crate::problem::Problem;

use super::super::Context;
use super::{AddressArgs, find, identity_line, problem, shown};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the entity by id or name
    #[arg(value_name = "ENTITY")]
    entity: String,
    #[command(flatten)]
    address: AddressArgs,
    /// Record a claim that is not verified; its sender stays unknown
    #[arg(long)]
    claimed: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let entity = find(&engine, &args.entity).await?;
    let linked = engine.entities().link(entity.id, args.address.into(), !args.claimed).await;
    let identity = linked.map_err(problem)?;
    context.out.print(
        || json!(Identity::from(&identity)),
        || format!("Linked {} to {}", identity_line(&identity), shown(&entity.name)),
    )
}
