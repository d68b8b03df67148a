//! `ctx entity list`: list the entities.

use ctx_engine::core::id::EntityId;
use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::super::output::DIM;
use super::{document, entity_line, identity_line};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue after the entity with this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let after = args.after.as_deref().map(parse_id).transpose()?;
    let engine = context.engine()?;
    let limit = usize::from(args.limit);
    let mut entities = engine.entities().list(after, limit + 1).await?;
    let more = entities.len() > limit;
    entities.truncate(limit);
    let next_cursor = entities.last().filter(|_| more).map(|last| last.id.to_string());
    let mut documents = Vec::with_capacity(entities.len());
    let mut lines = Vec::new();
    for entity in &entities {
        let (document, identities) = document(&engine, entity).await?;
        documents.push(document);
        lines.push(entity_line(entity));
        lines.extend(identities.iter().map(|identity| format!("  {}", identity_line(identity))));
    }
    context.out.print(
        || json!({"entities": documents, "next_cursor": next_cursor}),
        || {
            if lines.is_empty() {
                return "No entities. Add one with `ctx entity add NAME`.".to_owned();
            }
            if let Some(last) = &next_cursor {
                lines.push(format!("{DIM}more with `--after {last}`{DIM:#}"));
            }
            lines.join("\n")
        },
    )
}

fn parse_id(text: &str) -> Result<EntityId, Problem> {
    text.parse().map_err(|_| {
        Problem::wrong_use("bad_id", "invalid entity id in --after")
            .hint("use `next_cursor` of the previous page")
    })
}
