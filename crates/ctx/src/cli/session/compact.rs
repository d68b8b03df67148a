//! `ctx session compact`: summarize earlier turns to shorten the context of a conversation.
//! `ctx session fork --before-compaction` starts from the full context again.

use ctx_engine::SessionQuery;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::session::Status;

use crate::problem::Problem;

use super::super::Context;
use super::send_and_follow::{Asking, Exchange};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id [default: the one with the latest activity]
    #[arg(value_name = "SESSION")]
    session_name: Option<String>,
    /// Make the summary cover this subject in most detail
    #[arg(long)]
    focus: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let engine = context.engine_for_runs()?;
    let session = match args.session_name {
        Some(session) => session,
        None => {
            let newest = SessionQuery {
                statuses: vec![Status::Active, Status::Suspended],
                ..SessionQuery::newest(1)
            };
            engine
                .sessions()
                .list(&newest)
                .await?
                .0
                .pop()
                .ok_or(Refusal::NoSession)?
                .session
                .id
                .to_string()
        }
    };
    let exchange = Exchange::start(context, &engine, &session, Asking::Never).await?;
    let sent = engine.contexts().compact(&session, args.focus.as_deref()).await;
    exchange.finish(sent.map(Some)).await
}
