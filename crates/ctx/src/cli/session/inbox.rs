//! `ctx session inbox`: the messages that wait.

use ctx_engine::Engine;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::text::one_line;
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::{InboxItem, name};

use super::super::Context;
use super::super::output::{DIM, text};
use super::transcript::plain;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// Take a message back
    #[arg(long, value_name = "ID", conflicts_with_all = ["edit", "moved"])]
    withdraw: Option<String>,
    /// Let a message say something else
    #[arg(long, num_args = 2, value_names = ["ID", "TEXT"], conflicts_with = "moved")]
    edit: Option<Vec<String>>,
    /// Move a message to another place, from 1
    #[arg(long = "move", id = "moved", num_args = 2, value_names = ["ID", "PLACE"])]
    moved: Option<Vec<String>>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    change(&engine, args).await?;
    let session = engine.sessions().get(&args.which).await?.session.id.to_string();
    let items = engine.messages().inbox(&session).await?;
    context.out.say(
        || json!({"items": InboxItem::all(&session, &items)}),
        || {
            let line = |(n, item): (usize, &ctx_engine::core::inbox::Item)| {
                let words = plain(&one_line(&item.text(), 80));
                format!(
                    "{} {DIM}{} · {} · {}{DIM:#} {words}",
                    n + 1,
                    item.message_id,
                    item.mode.name(),
                    name(&item.state)
                )
            };
            match items.as_slice() {
                [] => "No messages wait.".to_owned(),
                items => items.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"),
            }
        },
    )
}

async fn change(engine: &Engine, args: &Args) -> Result<(), Problem> {
    if let Some(item) = &args.withdraw {
        engine.messages().withdraw(&args.which, id(item)?).await?;
    }
    if let Some([item, words]) = args.edit.as_deref() {
        engine.messages().edit(&args.which, id(item)?, &text(words)?).await?;
    }
    if let Some([item, place]) = args.moved.as_deref() {
        let wrong =
            || Problem::wrong_use("wrong_use", format!("`{place}` is not a place; the first is 1"));
        let place = place.parse().ok().filter(|place| *place > 0).ok_or_else(wrong)?;
        engine.messages().reorder(&args.which, id(item)?, place).await?;
    }
    Ok(())
}

fn id(text: &str) -> Result<MessageId, Problem> {
    let wrong = || Problem::wrong_use("bad_id", format!("`{text}` is not the id of a message"));
    text.parse().map_err(|_| wrong().hint("`ctx session inbox SESSION` lists them"))
}
