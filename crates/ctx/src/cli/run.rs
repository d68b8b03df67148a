//! `ctx run`: a conversation with the default agent, here and now.

use std::path::{Path, PathBuf};

use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::session::Origin;
use ctx_engine::core::text::{TEXT_MAX_BYTES, check, one_line};
use ctx_engine::{NewSession, Outgoing};
use serde_json::json;

use crate::problem::Problem;

use super::output::{DIM, text};
use super::session::exchange::{Asks, Exchange};
use super::session::transcript::address;
use super::session::{terminal, working_dir};
use super::{Context, init};

#[derive(clap::Args)]
pub(super) struct Args {
    /// What to say; `-` reads it from standard input
    text: String,
    /// What to call the session [default: one is made up]
    #[arg(long)]
    label: Option<String>,
    /// Who answers [default: the one that ctx.toml names]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// With which model
    #[arg(long)]
    model: Option<String>,
    /// Where the agent works [default: here]
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let said = text(&args.text)?;
    check(&said, TEXT_MAX_BYTES).map_err(|why| Refusal::BadText { what: "message", why })?;
    let dir = working_dir(args.dir.as_deref().unwrap_or(Path::new(".")))?;
    init::unless_there(context).await?;
    let engine = context.talking_engine()?;
    let new = NewSession {
        label: args.label.clone(),
        title: Some(one_line(&said, 80)),
        working_dir: Some(dir),
        provider_id: args.provider.clone(),
        model: args.model.clone(),
        track_tasks: Some(true),
        origin: Some(Origin::Cli),
        ..NewSession::default()
    };
    let session = engine.sessions().create(new, None, None).await?.0.to_string();
    let exchange = Exchange::open(context, &engine, &session, Asks::Person).await?;
    let sent = engine.messages().submit(&session, Outgoing::text(said), None).await;
    let told = exchange.conclude(sent.map(Some)).await;
    if terminal::is_here(context) {
        let name = address(&engine.sessions().get(&session).await?);
        context.out.say(
            || json!(null),
            || format!("{DIM}session {name} · go on with `ctx session resume {name}`{DIM:#}"),
        )?;
    }
    told
}
