//! `ctx session retry`: run the last message again.

use ctx_engine::core::inbox::Overrides;

use crate::problem::Problem;

use super::super::Context;
use super::send_and_follow::{Asking, Exchange};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Use this provider for this run
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model for this run
    #[arg(long)]
    model: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.engine_for_runs()?;
    let exchange = Exchange::start(context, &engine, &args.session_name, Asking::Never).await?;
    let exchange = exchange.replacing_last_turn().await?;
    let overrides =
        Overrides { provider_id: args.provider, model: args.model, ..Overrides::default() };
    let sent = engine.runs().retry(&args.session_name, overrides).await;
    exchange.finish(sent.map(Some)).await
}
