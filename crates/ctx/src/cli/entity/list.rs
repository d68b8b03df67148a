//! `ctx entity list`: list the entities.

use ctx_engine::core::id::EntityId;
use ctx_engine::{Engine, UlidKind};
use serde_json::json;

use crate::json::variant_name;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, DIM, GREEN, ID};
use super::super::table::{Cell, Column, Table};
use super::{address_text, document};

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
    let engine = context.engine()?;
    let after = match &args.after {
        Some(text) => Some(find_id(&engine, text).await?),
        None => None,
    };
    let limit = usize::from(args.limit);
    let mut entities = engine.entities().list(after, limit + 1).await?;
    let more = entities.len() > limit;
    entities.truncate(limit);
    let next_cursor = entities.last().filter(|_| more).map(|last| last.id.to_string());
    let ids = entities.iter().map(|entity| entity.id.0).collect();
    let short = engine.ids().short(UlidKind::Entity, ids).await?;
    let mut documents = Vec::with_capacity(entities.len());
    let mut table = Table::new([
        Column::new("ID"),
        Column::new("NAME").at_most(32),
        Column::new("KIND"),
        Column::new("RELATIONSHIP").at_most(16).if_width(80),
        Column::new("OWNER"),
        Column::text("ADDRESSES"),
    ]);
    for (entity, short) in entities.iter().zip(&short) {
        let (document, identities) = document(&engine, entity).await?;
        documents.push(document);
        let addresses: Vec<String> = identities.iter().map(address_text).collect();
        table.row([
            Cell::styled(short, ID),
            Cell::styled(&entity.name, BOLD),
            Cell::new(variant_name(&entity.kind)),
            Cell::new(entity.relationship.as_deref().unwrap_or_default()),
            Cell::styled(if entity.owner { "owner" } else { "" }, GREEN),
            Cell::new(addresses.join(", ")),
        ]);
    }
    context.out.print_paged(
        || json!({"entities": documents, "next_cursor": next_cursor}),
        || {
            if entities.is_empty() {
                return vec!["No entities. Add one with `ctx entity add NAME`.".to_owned()];
            }
            let mut lines = table.lines(context.out.width());
            if next_cursor.is_some() {
                let last = short.last().map_or("", String::as_str);
                lines.push(format!("{DIM}More entities; show them with `--after {last}`{DIM:#}"));
            }
            lines
        },
    )
}

async fn find_id(engine: &Engine, text: &str) -> Result<EntityId, Problem> {
    engine.ids().entity(text).await?.ok_or_else(|| {
        Problem::wrong_use("bad_id", "invalid entity id in --after")
            .hint("use `next_cursor` of the previous page")
    })
}
