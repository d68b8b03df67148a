//! `ctx session new`: an idle session.

use std::path::PathBuf;

use ctx_engine::NewSession;
use ctx_engine::core::session::Origin;

use crate::problem::Problem;

use super::super::Context;
use super::{say_session, working_dir};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// What to call it; unique [default: one is made up]
    #[arg(long)]
    label: Option<String>,
    /// A line for lists
    #[arg(long)]
    title: Option<String>,
    /// Where its agent works; a session that works somewhere tracks tasks
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The named system prompt
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// Who answers
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// With which model
    #[arg(long)]
    model: Option<String>,
    /// Its messages make and move tasks
    #[arg(long, conflicts_with = "chat")]
    track_tasks: bool,
    /// Its messages make no tasks
    #[arg(long)]
    chat: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.talking_engine()?;
    let track_tasks = match (args.track_tasks, args.chat) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    };
    let new = NewSession {
        label: args.label,
        title: args.title,
        working_dir: args.dir.as_deref().map(working_dir).transpose()?,
        persona: args.persona,
        provider_id: args.provider,
        model: args.model,
        track_tasks,
        origin: Some(Origin::Cli),
        ..NewSession::default()
    };
    let (id, _) = engine.sessions().create(new, None, None).await?;
    say_session(context, &engine.sessions().get(&id.to_string()).await?, "Made")
}
