//! `ctx session fork`: create a session that shares all turns up to a given turn.

use std::path::PathBuf;

use ctx_engine::Branch;

use crate::problem::Problem;

use super::super::Context;
use super::{print_session, resolve_turn, working_dir};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Fork at this turn, given by a prefix of its id [default: the newest]
    #[arg(long, value_name = "ID")]
    turn: Option<String>,
    /// Fork before the newest compaction, to use the full context again
    #[arg(long, conflicts_with = "turn")]
    before_compaction: bool,
    /// Set the label of the new session [default: generated]
    #[arg(long)]
    label: Option<String>,
    /// Run its agent in this directory [default: the directory of the session]
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let head = engine.sessions().head(&args.session_name).await?;
    let before = match args.before_compaction {
        true => engine.contexts().newest_compaction(&args.session_name).await?.0.header.parent,
        false => None,
    };
    let turn = match (&args.turn, before.or(head)) {
        (Some(digits), _) => resolve_turn(&engine, digits).await?,
        (None, Some(head)) => head,
        (None, None) => {
            return Err(Problem::failed(
                "nothing_to_fork",
                "cannot fork the session: it has no turns yet",
            )
            .hint("create another session with `ctx session new`"));
        }
    };
    let dir = args.dir.as_deref().map(working_dir).transpose()?;
    let branch =
        Branch { turn: Some(turn), label: args.label.clone(), title: None, working_dir: dir };
    let id = engine.sessions().branch(&args.session_name, branch).await?;
    print_session(context, &engine.sessions().get(&id.to_string()).await?, "Created")
}
