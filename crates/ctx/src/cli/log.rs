//! `ctx log`: list commits, newest first.

use ctx_engine::CommitQuery;
use ctx_engine::core::commit::{Commit, CommitType};
use ctx_engine::core::id::CommitId;
use serde_json::json;

use crate::json::commit_json;
use crate::problem::Problem;

use super::Context;
use super::output::{DIM, GREEN, ID, YELLOW, more_line};
use super::show::resolve_commit;
use super::table::{Cell, Column, Table};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Show only commits of this type; can be repeated
    #[arg(long = "type", value_name = "TYPE", value_parser = CommitType::NAMES)]
    types: Vec<String>,
    /// Show commits older than this one (the `next_cursor` of the previous page)
    #[arg(long, value_name = "COMMIT")]
    before: Option<String>,
    /// Include all projects of the store
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let Some(engine) = context.engine_if_recorded()? else {
        return context.print_nothing_recorded(|| json!({"commits": [], "next_cursor": null}));
    };
    let before = match &args.before {
        Some(text) => Some(resolve_commit(&engine, text).await?),
        None => None,
    };
    let limit = usize::from(args.limit);
    let project = (!args.all).then(|| engine.project().to_owned());
    // The extra commit shows whether there is another page.
    let query = CommitQuery { project, types: args.types.clone(), before, limit: limit + 1 };
    let mut commits = engine.records().commits(&query).await?;
    let is_more = commits.len() > limit;
    commits.truncate(limit);
    let more = match is_more {
        true => engine.records().count_commits(&query).await?.saturating_sub(limit as u64),
        false => 0,
    };
    let next = commits.last().filter(|_| is_more).map(|(id, _)| *id);
    let short = engine.ids().short_objects(commits.iter().map(|(id, _)| id.0).collect()).await?;
    let times = context.out.times(engine.now());
    context.out.print_paged(
        || {
            let document = |(id, commit): &(CommitId, Commit)| commit_json::commit(*id, commit);
            let documents: Vec<_> = commits.iter().map(document).collect();
            json!({"commits": documents, "next_cursor": next})
        },
        || {
            if commits.is_empty() {
                return vec!["No commits yet. Seal a task with `ctx stage seal`.".to_owned()];
            }
            let mut table = Table::new([
                Column::new("COMMIT"),
                Column::text("TASK"),
                Column::text("RESULT").if_width(80),
                Column::new("TYPE"),
                Column::number("FILES").if_width(100),
                Column::new("PROJECT").at_most(24).if_width(if args.all { 0 } else { usize::MAX }),
                Column::new("SEALED"),
            ]);
            for ((_, commit), short) in commits.iter().zip(&short) {
                let written = commit.files.iter().filter(|file| file.written).count();
                table.row([
                    Cell::styled(short, ID),
                    Cell::new(&commit.description),
                    Cell::new(&commit.message),
                    Cell::styled(type_word(&commit.commit_type), type_style(&commit.commit_type)),
                    Cell::new(if written == 0 { String::new() } else { written.to_string() }),
                    Cell::new(if args.all { commit.project.as_str() } else { "" }),
                    Cell::styled(times.relative(commit.created_at), DIM),
                ]);
            }
            let mut lines = table.lines(context.out.width());
            if let (Some(_), Some(last)) = (next, short.last()) {
                let how = format!("show them with `--before {last}` or `--limit N`");
                lines.push(more_line(more, "commit", &how));
            }
            lines
        },
    )
}

/// The outcome of a commit in one word.
pub(super) const fn type_word(commit_type: &CommitType) -> &'static str {
    match commit_type {
        CommitType::Normal => "normal",
        CommitType::Abandoned => "abandoned",
        CommitType::StaleAutoCompact { .. } => "stale",
        CommitType::InterruptedByNewTask { .. } => "interrupted",
    }
}

pub(super) const fn type_style(commit_type: &CommitType) -> anstyle::Style {
    match commit_type {
        CommitType::Normal => GREEN,
        _ => YELLOW,
    }
}
