//! `ctx session list`: conversations, those with the newest activity first.

use ctx_engine::SessionQuery;
use ctx_engine::core::session::Status;
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::Session;

use super::super::Context;
use super::super::output::DIM;
use super::transcript::session_line;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Only those with these words in label, title or project
    words: Vec<String>,
    /// Also those that are put away or damaged
    #[arg(long)]
    all: bool,
    /// Also those that are put away
    #[arg(long)]
    archived: bool,
    /// Only those of this project
    #[arg(long)]
    project: Option<String>,
    /// Only those that wait for a person
    #[arg(long)]
    waiting: bool,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let statuses = match (args.all, args.archived) {
        (true, _) => Vec::new(),
        (false, true) => vec![Status::Active, Status::Suspended, Status::Archived],
        (false, false) => vec![Status::Active, Status::Suspended],
    };
    let words = (!args.words.is_empty()).then(|| args.words.join(" "));
    let (waiting, limit) = (args.waiting, usize::from(args.limit));
    let query = SessionQuery {
        statuses,
        project: args.project.clone(),
        words,
        waiting,
        parent: None,
        after: None,
        limit,
    };
    let infos = engine.sessions().list(&query).await?;
    let hidden = engine.sessions().hidden().await?;
    context.out.say(
        || json!({"sessions": infos.iter().map(Session::from).collect::<Vec<_>>(), "hidden": hidden}),
        || {
            let mut lines: Vec<String> = infos.iter().map(session_line).collect();
            if lines.is_empty() {
                lines.push("No conversations here. Begin one with `ctx run TEXT`.".to_owned());
            }
            if !args.all && !args.archived && hidden.archived > 0 {
                lines.push(format!("{DIM}{} put away; `--archived` shows them{DIM:#}", hidden.archived));
            }
            lines.join("\n")
        },
    )
}
