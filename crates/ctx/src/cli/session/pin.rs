//! `ctx session pin`: pin, unpin and list turns that every request includes.

use ctx_engine::core::pin::Pin;
use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::resolve_turn;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label or id
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
    let line =
        |pin: &Pin| format!("{} · turn {}, {} tokens", pin.turn.0.short(), pin.depth, pin.tokens);
    context.out.print(
        || json!({"pins": pins.iter().map(document).collect::<Vec<_>>()}),
        || match pins.as_slice() {
            [] => "No pinned turns.".to_owned(),
            pins => pins.iter().map(line).collect::<Vec<_>>().join("\n"),
        },
    )
}
