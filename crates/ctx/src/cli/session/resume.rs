//! `ctx session resume`: where a conversation stands; at a terminal it goes on from there.

use ctx_engine::Outgoing;

use crate::problem::Problem;

use super::super::Context;
use super::exchange::{Asks, Exchange};
use super::{show, terminal};

/// How many messages remind somebody of where they were.
const REMINDER: usize = 6;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.talking_engine()?;
    let info = engine.sessions().get(&args.which).await?;
    show::newest(context, &engine, &info, REMINDER).await?;
    if !terminal::is_here(context) {
        return Ok(());
    }
    let mut exchange = Exchange::open(context, &engine, &args.which, Asks::Person).await?;
    let talked = talk(context, &engine, &info.session.id.to_string(), &mut exchange).await;
    engine.background().shutdown().await;
    talked
}

/// A line, an answer, a line, until the person has nothing to say.
async fn talk(
    context: &Context,
    engine: &ctx_engine::Engine,
    session: &str,
    exchange: &mut Exchange<'_>,
) -> Result<(), Problem> {
    // What it waits for comes first.
    exchange.told(Ok(None)).await?;
    while let Some(line) = exchange.stream().line("\n> ").await? {
        if line.is_empty() {
            break;
        }
        let sent = engine.messages().submit(session, Outgoing::text(line), None).await;
        if let Err(problem) = exchange.told(sent.map(Some)).await {
            if problem.code == "left" {
                return Err(problem);
            }
            // A failure is history; the conversation goes on.
            context.out.problem(&problem);
        }
    }
    Ok(())
}
