//! `ctx entity sessions`: list the sessions of an entity.

use serde_json::json;

use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::super::session::transcript::session_line;
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
    context.out.print(
        || json!({"sessions": sessions.iter().map(Session::from).collect::<Vec<_>>()}),
        || match sessions.as_slice() {
            [] => format!("No sessions of {}.", shown(&entity.name)),
            sessions => sessions.iter().map(session_line).collect::<Vec<_>>().join("\n"),
        },
    )
}
