//! `ctx session inbox`: list, withdraw, edit and move waiting messages.

use ctx_engine::core::id::MessageId;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::short_id::ulid_beginning;
use ctx_engine::{Engine, short_among};
use serde_json::json;

use crate::json::inbox_json::InboxItem;
use crate::json::variant_name;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{ID, read_text, visible_line};
use super::super::table::{Cell, Column, Table};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
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
    let ids: Vec<_> = items.iter().map(|item| item.message_id.0).collect();
    let short = short_among(&ids);
    context.out.print(
        || json!({"items": InboxItem::all(&session, &items)}),
        || {
            if items.is_empty() {
                return "The inbox is empty.".to_owned();
            }
            let mut table = Table::new([
                Column::number("#"),
                Column::new("ID"),
                Column::new("MODE"),
                Column::new("STATE"),
                Column::text("TEXT"),
            ]);
            for ((n, item), short) in items.iter().enumerate().zip(&short) {
                table.row([
                    Cell::new((n + 1).to_string()),
                    Cell::styled(short, ID),
                    Cell::new(item.mode.name()),
                    Cell::new(variant_name(&item.state)),
                    Cell::new(item.text()),
                ]);
            }
            table.lines(context.out.width()).join("\n")
        },
    )
}

async fn apply_changes(engine: &Engine, args: &Args) -> Result<(), Problem> {
    if let Some(item) = &args.withdraw {
        let id = find_id(engine, args, item).await?;
        let withdrawn = engine.messages().withdraw(&args.session_name, id).await;
        withdrawn.map_err(|error| with_id(error.into(), item))?;
    }
    if let Some([item, text]) = args.edit.as_deref() {
        let (id, text) = (find_id(engine, args, item).await?, read_text(text)?);
        let edited = engine.messages().edit(&args.session_name, id, &text).await;
        edited.map_err(|error| with_id(error.into(), item))?;
    }
    if let Some([item, position]) = args.moved.as_deref() {
        let invalid = || {
            let message = format!("invalid position `{position}`: the first position is 1");
            Problem::wrong_use("wrong_use", message)
        };
        let position =
            position.parse().ok().filter(|position| *position > 0).ok_or_else(invalid)?;
        let id = find_id(engine, args, item).await?;
        let moved = engine.messages().reorder(&args.session_name, id, position).await;
        moved.map_err(|error| with_id(error.into(), item))?;
    }
    Ok(())
}

/// Names the id that was looked up in the error about a missing message.
fn with_id(problem: Problem, text: &str) -> Problem {
    if problem.code != Refusal::NoInboxItem.code() {
        return problem;
    }
    problem.message(format!("message `{text}` not found in the inbox"))
}

async fn find_id(engine: &Engine, args: &Args, text: &str) -> Result<MessageId, Problem> {
    let list = "list the ids with `ctx session inbox SESSION`";
    if ulid_beginning(text).is_none() {
        let message = format!("invalid message id `{}`", visible_line(text, 80));
        return Err(Problem::wrong_use("bad_id", message).hint(list));
    }
    let found = engine.ids().inbox_item(&args.session_name, text).await?;
    found.ok_or_else(|| with_id(Refusal::NoInboxItem.into(), text))
}
