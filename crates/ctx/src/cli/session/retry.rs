//! `ctx session retry`: run the last message again.

use ctx_engine::core::inbox::Overrides;

use crate::problem::Problem;

use super::super::Context;
use super::exchange::{Asks, Exchange};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// Who answers, this time
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// With which model, this time
    #[arg(long)]
    model: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.talking_engine()?;
    let exchange =
        Exchange::open(context, &engine, &args.which, Asks::Never).await?.again().await?;
    let overrides = Overrides { provider_id: args.provider, model: args.model, tools: Vec::new() };
    let sent = engine.runs().retry(&args.which, overrides).await;
    exchange.conclude(sent.map(Some)).await
}
