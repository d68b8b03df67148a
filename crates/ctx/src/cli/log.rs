//! `ctx log`: sealed work, newest first.

use ctx_engine::CommitQuery;
use ctx_engine::core::commit::CommitType;
use ctx_engine::core::id::CommitId;
use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::Context;
use super::output::commit_line;
use super::show::resolve;

#[derive(clap::Args)]
pub(super) struct Args {
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Only commits of this type; may be given more than once
    #[arg(long = "type", value_name = "TYPE", value_parser = CommitType::NAMES)]
    types: Vec<String>,
    /// Older than this commit: the `next_cursor` of the page before
    #[arg(long, value_name = "COMMIT")]
    before: Option<String>,
    /// Of every project in this store
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
    // One more than is shown says whether there is another page.
    let mut commits = engine
        .records()
        .commits(&CommitQuery { project, types: args.types.clone(), before, limit: limit + 1 })
        .await?;
    let more = commits.len() > limit;
    commits.truncate(limit);
    let next = if more { commits.last().map(|(id, _)| *id) } else { None };
    context.out.say(
        || json!({"commits": commits.iter().map(|(id, commit)| shape::commit(*id, commit)).collect::<Vec<_>>(), "next_cursor": next}),
        || match commits.as_slice() {
            [] => "Nothing is sealed yet. A task becomes a commit with `ctx stage compact`.".to_owned(),
            commits => commits.iter().map(|(id, commit)| commit_line(*id, commit)).collect::<Vec<_>>().join("\n"),
        },
    )
}
