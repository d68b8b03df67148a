//! `ctx session inbox`: list, withdraw, edit and move waiting messages.

use ctx_engine::Engine;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::text_limits::one_line;
use serde_json::json;

use crate::json::inbox_json::InboxItem;
use crate::json::variant_name;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{DIM, read_text};
use super::transcript::strip_control_chars;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label or id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Withdraw a message
    #[arg(long, value_name = "ID", conflicts_with_all = ["edit", "moved"])]
    withdraw: Option<String>,
    /// Replace the text of a message
    #[arg(long, num_args = 2, value_names = ["ID", "TEXT"], conflicts_with = "moved")]
    edit: Option<Vec<String>>,
    /// Move a message to another position, counted from 1
    #[arg(long = "move", id = "moved", num_args = 2, value_names = ["ID", "POSITION"])]
    moved: Option<Vec<String>>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    apply_changes(&engine, args).await?;
    let session = engine.sessions().get(&args.session_name).await?.session.id.to_string();
    let items = engine.messages().inbox(&session).await?;
    context.out.print(
        || json!({"items": InboxItem::all(&session, &items)}),
        || {
            let line = |(n, item): (usize, &ctx_engine::core::inbox::Item)| {
                let text = strip_control_chars(&one_line(&item.text(), 80));
                format!(
                    "{} {DIM}{} · {} · {}{DIM:#} {text}",
                    n + 1,
                    item.message_id,
                    item.mode.name(),
                    variant_name(&item.state)
                )
            };
            match items.as_slice() {
                [] => "The inbox is empty.".to_owned(),
                items => items.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"),
            }
        },
    )
}

async fn apply_changes(engine: &Engine, args: &Args) -> Result<(), Problem> {
    if let Some(item) = &args.withdraw {
        engine.messages().withdraw(&args.session_name, parse_id(item)?).await?;
    }
    if let Some([item, text]) = args.edit.as_deref() {
        engine.messages().edit(&args.session_name, parse_id(item)?, &read_text(text)?).await?;
    }
    if let Some([item, position]) = args.moved.as_deref() {
        let invalid = || {
            let message = format!("invalid position `{position}`: the first position is 1");
            Problem::wrong_use("wrong_use", message)
        };
        let position =
            position.parse().ok().filter(|position| *position > 0).ok_or_else(invalid)?;
        engine.messages().reorder(&args.session_name, parse_id(item)?, position).await?;
    }
    Ok(())
}

fn parse_id(text: &str) -> Result<MessageId, Problem> {
    let invalid = || Problem::wrong_use("bad_id", format!("invalid message id `{text}`"));
    text.parse().map_err(|_| invalid().hint("list the ids with `ctx session inbox SESSION`"))
}
