//! `ctx session pin`: turns that every request has, whatever is summarised around them.

use ctx_engine::core::pin::Pin;
use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::turn_of;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// The turn, by the beginning of its id; without one the pinned turns are listed
    turn: Option<String>,
    /// Let it go again
    #[arg(long, requires = "turn")]
    remove: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    // How much may be pinned depends on who answers.
    let engine = context.talking_engine()?;
    let pins = match &args.turn {
        None => engine.contexts().pins(&args.which).await?,
        Some(digits) => {
            let turn = turn_of(&engine, digits).await?;
            if args.remove {
                engine.contexts().unpin(&args.which, turn).await?
            } else {
                engine.contexts().pin(&args.which, turn).await?
            }
        }
    };
    let row = |pin: &Pin| json!({"turn": pin.turn, "depth": pin.depth, "tokens": pin.tokens, "pinned_at": pin.at.to_string()});
    let line =
        |pin: &Pin| format!("{} · turn {}, {} tokens", pin.turn.0.short(), pin.depth, pin.tokens);
    context.out.say(
        || json!({"pins": pins.iter().map(row).collect::<Vec<_>>()}),
        || match pins.as_slice() {
            [] => "Nothing is pinned.".to_owned(),
            pins => pins.iter().map(line).collect::<Vec<_>>().join("\n"),
        },
    )
}
