//! `ctx log`: list commits, newest first.

use ctx_engine::CommitQuery;
use ctx_engine::core::commit::{Commit, CommitType};
use ctx_engine::core::id::CommitId;
use serde_json::json;

use crate::json::commit_json;
use crate::problem::Problem;

use super::Context;
use super::output::commit_line;
use super::show::resolve;

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
    let engine = context.engine()?;
    let before = match &args.before {
        Some(digits) => Some(CommitId(resolve(&engine, digits).await?.id)),
        None => None,
    };
    let limit = usize::from(args.limit);
    let project = (!args.all).then(|| engine.project().to_owned());
    // The extra commit shows whether there is another page.
    let mut commits = engine
        .records()
        .commits(&CommitQuery { project, types: args.types.clone(), before, limit: limit + 1 })
        .await?;
    let more = commits.len() > limit;
    commits.truncate(limit);
    let next = if more { commits.last().map(|(id, _)| *id) } else { None };
    context.out.print(
        || {
            let document = |(id, commit): &(CommitId, Commit)| commit_json::commit(*id, commit);
            let documents: Vec<_> = commits.iter().map(document).collect();
            json!({"commits": documents, "next_cursor": next})
        },
        || match commits.as_slice() {
            [] => "No commits yet. Seal a task with `ctx stage seal`.".to_owned(),
            commits => {
                let line = |(id, commit): &(CommitId, Commit)| commit_line(*id, commit);
                commits.iter().map(line).collect::<Vec<_>>().join("\n")
            }
        },
    )
}
