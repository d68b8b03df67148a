//! `ctx session delete`: for good. A person is asked; a script must say that it means it.

use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::transcript::session_line;
use super::{idle_engine, terminal};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = idle_engine(context).await?;
    let info = engine.sessions().get(&args.which).await?;
    if !args.yes && !terminal::is_here(context) {
        return Err(Problem::wrong_use(
            "not_confirmed",
            "deleting is for good, and nobody is here to be asked",
        )
        .hint("say `--yes`, or put it away with `ctx session archive`"));
    }
    if !args.yes {
        context.out.say(|| json!(null), || session_line(&info))?;
        let said = terminal::line("Delete it for good? [y/N] ").await?.unwrap_or_default();
        if !matches!(said.to_lowercase().as_str(), "y" | "yes") {
            return context.out.say(|| json!(null), || "Nothing was deleted.".to_owned());
        }
    }
    engine.sessions().delete(&args.which).await?;
    context.out.say(
        || json!({"deleted": info.session.id, "label": info.session.label}),
        || format!("Deleted {}", session_line(&info)),
    )
}
