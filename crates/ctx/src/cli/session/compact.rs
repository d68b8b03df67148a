//! `ctx session compact`: earlier turns are summarised; `ctx session fork --before-compaction` undoes it.

use ctx_engine::SessionQuery;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::session::Status;

use crate::problem::Problem;

use super::super::Context;
use super::exchange::{Asks, Exchange};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id [default: the one that was used last]
    #[arg(value_name = "SESSION")]
    which: Option<String>,
    /// What the summary is to look at above all
    #[arg(long)]
    focus: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.talking_engine()?;
    let which = match args.which {
        Some(which) => which,
        None => {
            let newest = SessionQuery {
                statuses: vec![Status::Active, Status::Suspended],
                ..SessionQuery::newest(1)
            };
            engine
                .sessions()
                .list(&newest)
                .await?
                .pop()
                .ok_or(Refusal::NoSession)?
                .session
                .id
                .to_string()
        }
    };
    let exchange = Exchange::open(context, &engine, &which, Asks::Never).await?;
    let sent = engine.contexts().compact(&which, args.focus.as_deref()).await;
    exchange.conclude(sent.map(Some)).await
}
