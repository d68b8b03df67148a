//! `ctx session new`: create an idle session.

use std::path::PathBuf;

use ctx_engine::NewSession;
use ctx_engine::core::session::Origin;

use crate::problem::Problem;

use super::super::Context;
use super::{print_session, working_dir};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Set the label, which must be unique [default: generated]
    #[arg(long)]
    label: Option<String>,
    /// Set the title that lists show
    #[arg(long)]
    title: Option<String>,
    /// Run its agent in this directory; a session with a directory tracks tasks
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Use the system prompt of this persona
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// Use this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model
    #[arg(long)]
    model: Option<String>,
    /// Track tasks: messages open and update tasks
    #[arg(long, conflicts_with = "chat")]
    track_tasks: bool,
    /// Disable task tracking
    #[arg(long)]
    chat: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.engine_for_runs()?;
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
    print_session(context, &engine.sessions().get(&id.to_string()).await?, "Created")
}
