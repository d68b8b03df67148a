//! `ctx session fork`: another way from a turn on.

use std::path::PathBuf;

use ctx_engine::Branch;

use crate::problem::Problem;

use super::super::Context;
use super::{say_session, turn_of, working_dir};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// From which turn, by the beginning of its id [default: the newest]
    #[arg(long, value_name = "ID")]
    turn: Option<String>,
    /// From before the newest compaction: the context is whole again
    #[arg(long, conflicts_with = "turn")]
    before_compaction: bool,
    /// What to call the new session [default: one is made up]
    #[arg(long)]
    label: Option<String>,
    /// Where its agent works [default: where the other one does]
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let head = engine.sessions().head(&args.which).await?;
    let before = match args.before_compaction {
        true => engine.contexts().newest_compaction(&args.which).await?.0.header.parent,
        false => None,
    };
    let turn = match (&args.turn, before.or(head)) {
        (Some(digits), _) => turn_of(&engine, digits).await?,
        (None, Some(head)) => head,
        (None, None) => {
            return Err(Problem::failed("nothing_to_fork", "nothing was said in this session yet")
                .hint("make another with `ctx session new`"));
        }
    };
    let dir = args.dir.as_deref().map(working_dir).transpose()?;
    let branch =
        Branch { turn: Some(turn), label: args.label.clone(), title: None, working_dir: dir };
    let id = engine.sessions().branch(&args.which, branch).await?;
    say_session(context, &engine.sessions().get(&id.to_string()).await?, "Made")
}
