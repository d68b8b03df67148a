//! `ctx session list`: list sessions by last activity.

use ctx_engine::core::session::Status;
use ctx_engine::{Engine, Hidden, Info, SessionQuery};
use serde_json::{Value, json};

use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{DIM, ID, more_line};
use super::super::table::{Cell, Column, Table};
use super::transcript::{condition_cell, has_generated_label};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Show only sessions with this text in label, title or project
    words: Vec<String>,
    /// Include archived and damaged sessions, and the default session before its first turn
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
    let Some(engine) = context.engine_if_recorded()? else {
        let hidden = Hidden::default();
        return context
            .print_nothing_recorded(|| json!({"sessions": [], "hidden": hidden, "total": 0}));
    };
    let statuses = match (args.all, args.archived) {
        (true, _) => Vec::new(),
        (false, true) => vec![Status::Active, Status::Suspended, Status::Archived],
        (false, false) => vec![Status::Active, Status::Suspended],
    };
    let is_filtered = args.waiting || args.project.is_some() || !args.words.is_empty();
    let words = (!args.words.is_empty()).then(|| args.words.join(" "));
    let (waiting, limit) = (args.waiting, usize::from(args.limit));
    let query = SessionQuery {
        statuses,
        project: args.project.clone(),
        words,
        waiting,
        parent: None,
        working_dir: None,
        after: None,
        limit,
    };
    let (mut infos, hidden) = engine.sessions().list(&query).await?;
    engine.sessions().as_recovered(&mut infos).await?;
    let total = match infos.len() < limit {
        true => infos.len() as u64,
        false => engine.sessions().count(&query).await?,
    };
    let more = total.saturating_sub(infos.len() as u64);
    let (document, mut lines) = sessions(context, &engine, &infos).await?;
    context.out.print_paged(
        || json!({"sessions": document, "hidden": hidden, "total": total}),
        || {
            if infos.is_empty() {
                lines.push(match is_filtered {
                    true => "No session matches.".to_owned(),
                    false => "No sessions. Start one with `ctx run TEXT` or `ctx chat`.".to_owned(),
                });
            }
            if more > 0 {
                lines.push(more_line(more, "session", "show more with `--limit N`"));
            }
            if !args.all && !args.archived && hidden.archived > 0 {
                let archived = hidden.archived;
                lines.push(format!("{DIM}{archived} archived; use `--archived` to show{DIM:#}"));
            }
            lines
        },
    )
}

/// The documents and the table of sessions.
pub(in crate::cli) async fn sessions(
    context: &Context,
    engine: &Engine,
    infos: &[Info],
) -> Result<(Vec<Value>, Vec<String>), Problem> {
    let ids: Vec<_> = infos.iter().map(|info| info.session.id).collect();
    let short = engine.ids().short_sessions(&ids).await?;
    let documents = infos.iter().zip(&short).map(|(info, short)| {
        let mut document = json!(Session::from(info));
        document["short_id"] = json!(short);
        document
    });
    let documents = documents.collect();
    if context.out.is_json() || infos.is_empty() {
        return Ok((documents, Vec::new()));
    }
    let times = context.out.times(engine.now());
    let mut table = Table::new([
        Column::new("ID"),
        Column::new("LABEL").at_most(24),
        Column::text("TITLE"),
        Column::new("STATE").at_most(32),
        Column::number("TURNS").if_width(70),
        Column::new("PROVIDER").at_most(30).if_width(120),
        Column::new("DIRECTORY").at_most(40).if_width(140),
        Column::new("ACTIVE"),
    ]);
    for (info, short) in infos.iter().zip(&short) {
        let row = &info.session;
        table.row([
            Cell::styled(short, ID),
            Cell::new(shown_label(info)),
            Cell::new(row.title.as_deref().unwrap_or_default()),
            condition_cell(info),
            Cell::new(row.turn_count.to_string()),
            Cell::new(provider(info)),
            Cell::new(row.working_dir.as_deref().unwrap_or_default()),
            Cell::styled(times.relative(row.last_activity_at), DIM),
        ]);
    }
    Ok((documents, table.lines(context.out.width())))
}

/// The label; empty if ctx generated it.
fn shown_label(info: &Info) -> &str {
    if has_generated_label(info) { "" } else { &info.session.label }
}

fn provider(info: &Info) -> String {
    match (&info.session.provider_id, &info.session.model) {
        (Some(provider), Some(model)) => format!("{provider}/{model}"),
        (provider, model) => provider.as_ref().or(model.as_ref()).cloned().unwrap_or_default(),
    }
}
