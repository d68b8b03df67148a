//! `ctx run`: start a session in this directory, send a message and stream the answer.

use std::path::{Path, PathBuf};

use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::session::Origin;
use ctx_engine::core::text_limits::{TEXT_MAX_BYTES, check, one_line};
use ctx_engine::{NewMessage, NewSession};
use serde_json::json;

use crate::problem::Problem;

use super::output::{DIM, read_text};
use super::session::send_and_follow::{Asking, Exchange};
use super::session::transcript::session_argument;
use super::session::{terminal_prompts, working_dir};
use super::{Context, init};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Send this text, words joined by spaces; `-` reads standard input
    #[arg(required = true)]
    text: Vec<String>,
    /// Set the label of the session [default: generated]
    #[arg(long)]
    label: Option<String>,
    /// Use this provider [default: see `ctx provider list`]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model
    #[arg(long)]
    model: Option<String>,
    /// Run the agent in this directory [default: the working directory]
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let message = read_text(&args.text.join(" "))?;
    check(&message, TEXT_MAX_BYTES).map_err(|why| Refusal::BadText { what: "message", why })?;
    let dir = working_dir(args.dir.as_deref().unwrap_or(Path::new(".")))?;
    init::ensure_store(context).await?;
    let engine = context.engine_for_runs()?;
    let new = NewSession {
        label: args.label.clone(),
        title: Some(one_line(&message, 80)),
        working_dir: Some(dir),
        provider_id: args.provider.clone(),
        model: args.model.clone(),
        track_tasks: Some(true),
        origin: Some(Origin::Cli),
        ..NewSession::default()
    };
    let session = engine.sessions().create(new, None, None).await?.0.to_string();
    let exchange = Exchange::start(context, &engine, &session, Asking::OnTerminal).await?;
    let sent = engine.messages().submit(&session, NewMessage::text(message), None).await;
    let result = exchange.finish(sent.map(Some)).await;
    if terminal_prompts::is_interactive(context) {
        let name = session_argument(&engine.sessions().get(&session).await?);
        context.out.print(
            || json!(null),
            || format!("{DIM}session {name} · continue with `ctx session resume {name}`{DIM:#}"),
        )?;
    }
    result
}
