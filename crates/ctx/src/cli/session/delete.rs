//! `ctx session delete`: delete a session permanently. On a terminal it asks for confirmation; a
//! script must use `--yes`.

use serde_json::json;

use crate::problem::Problem;

use super::super::Context;
use super::transcript::session_line;
use super::{engine_without_runs, terminal_prompts};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let info = engine.sessions().get(&args.session_name).await?;
    if !args.yes && !terminal_prompts::is_interactive(context) {
        return Err(Problem::wrong_use(
            "not_confirmed",
            "the session was not deleted: there is no terminal to ask for confirmation",
        )
        .hint("confirm with `--yes`, or use `ctx session archive` to keep the history"));
    }
    if !args.yes {
        context.out.print(|| json!(null), || session_line(&info, &context.out))?;
        let answer = terminal_prompts::read_line("Delete permanently? [y/N] ").await?;
        if !matches!(answer.unwrap_or_default().to_lowercase().as_str(), "y" | "yes") {
            return context.out.print(|| json!(null), || "Nothing was deleted.".to_owned());
        }
    }
    engine.sessions().delete(&args.session_name).await?;
    context.out.print(
        || json!({"deleted": info.session.id, "label": info.session.label}),
        || format!("Deleted {}", session_line(&info, &context.out)),
    )
}
