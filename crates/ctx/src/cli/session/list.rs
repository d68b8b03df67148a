//! `ctx session list`: list sessions by last activity.

use ctx_engine::SessionQuery;
use ctx_engine::core::session::Status;
use serde_json::json;

use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::DIM;
use super::transcript::session_line;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Show only sessions with this text in label, title or project
    words: Vec<String>,
    /// Include archived and damaged sessions
    #[arg(long)]
    all: bool,
    /// Include archived sessions
    #[arg(long)]
    archived: bool,
    /// Show only sessions of this project
    #[arg(long)]
    project: Option<String>,
    /// Show only sessions that wait for a person
    #[arg(long)]
    waiting: bool,
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
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
    let (infos, hidden) = engine.sessions().list(&query).await?;
    context.out.print(
        || {
            let sessions: Vec<Session> = infos.iter().map(Session::from).collect();
            json!({"sessions": sessions, "hidden": hidden})
        },
        || {
            let mut lines: Vec<String> = infos.iter().map(session_line).collect();
            if lines.is_empty() {
                lines.push("No sessions. Start one with `ctx run TEXT`.".to_owned());
            }
            if !args.all && !args.archived && hidden.archived > 0 {
                let archived = hidden.archived;
                lines.push(format!("{DIM}{archived} archived; use `--archived` to show{DIM:#}"));
            }
            lines.join("\n")
        },
    )
}
