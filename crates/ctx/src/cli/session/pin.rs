//! `ctx session pin`: pin, unpin and list turns that every request includes.

use ctx_engine::core::pin::Pin;
use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::super::output::ID;
use super::super::table::{Cell, Column, Table};
use super::resolve_turn;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Pin this turn, given by a prefix of its id; without it, list the pinned turns
    turn: Option<String>,
    /// Unpin the turn
    #[arg(long, requires = "turn")]
    remove: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    // The limit of pinned tokens depends on the provider's context window.
    let engine = context.engine_for_runs()?;
    let pins = match &args.turn {
        None => engine.contexts().pins(&args.session_name).await?,
        Some(digits) => {
            let turn = resolve_turn(&engine, digits).await?;
            if args.remove {
                engine.contexts().unpin(&args.session_name, turn).await?
            } else {
                engine.contexts().pin(&args.session_name, turn).await?
            }
        }
    };
    let document = |pin: &Pin| {
        json!({
            "turn": pin.turn,
            "depth": pin.depth,
            "tokens": pin.tokens,
            "pinned_at": pin.at.to_string(),
        })
    };
    let short = engine.ids().short_objects(pins.iter().map(|pin| pin.turn.0).collect()).await?;
    context.out.print(
        || json!({"pins": pins.iter().map(document).collect::<Vec<_>>()}),
        || {
            if pins.is_empty() {
                return "No pinned turns.".to_owned();
            }
            let mut table = Table::new([
                Column::new("TURN"),
                Column::number("NUMBER"),
                Column::number("TOKENS"),
            ]);
            for (pin, short) in pins.iter().zip(&short) {
                table.row([
                    Cell::styled(short, ID),
                    Cell::new(pin.depth.to_string()),
                    Cell::new(pin.tokens.to_string()),
                ]);
            }
            table.lines(context.out.width()).join("\n")
        },
    )
}
