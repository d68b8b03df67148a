//! `ctx session resume`: show the latest messages and, on a terminal, continue the conversation.

use ctx_engine::NewMessage;

use crate::problem::Problem;

use super::super::Context;
use super::send_and_follow::{Asking, Exchange};
use super::{newest_here, show, terminal_prompts};

/// Number of latest messages to show.
const MESSAGES_SHOWN: usize = 6;
const PROMPT: &str = "\n(/quit leaves)> ";

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id [default: the newest of this directory]
    #[arg(value_name = "SESSION")]
    session_name: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let name = match &args.session_name {
        Some(name) => name.clone(),
        None => newest_here(context, &context.engine()?).await?.session.id.to_string(),
    };
    run_for(context, &name).await
}

/// Shows the latest messages of a session and continues it.
pub(in crate::cli) async fn run_for(context: &Context, session: &str) -> Result<(), Problem> {
    let engine = context.engine_for_runs()?;
    let info = engine.sessions().get(session).await?;
    show::print_newest(context, &engine, &info, MESSAGES_SHOWN, show::Paging::Never).await?;
    if !terminal_prompts::is_interactive(context) {
        return Ok(());
    }
    let mut exchange = Exchange::start(context, &engine, session, Asking::OnTerminal).await?;
    let result = converse(context, &engine, &info.session.id.to_string(), &mut exchange).await;
    engine.background().shutdown().await;
    result
}

/// Sends each line that the user types and prints the answer, until an empty line, `/quit` or the
/// end of the input.
async fn converse(
    context: &Context,
    engine: &ctx_engine::Engine,
    session: &str,
    exchange: &mut Exchange<'_>,
) -> Result<(), Problem> {
    // First ask what the session already waits for.
    exchange.follow(Ok(None)).await?;
    while !exchange.follower().has_left() {
        let Some(line) = exchange.follower().read_line(PROMPT).await? else {
            if exchange.follower().has_left() {
                break;
            }
            eprintln!();
            return Err(Problem::interrupted("left", "Left. The conversation is stored."));
        };
        if line.is_empty() {
            break;
        }
        let sent = engine.messages().submit(session, NewMessage::text(line), None).await;
        if let Err(problem) = exchange.follow(sent.map(Some)).await {
            if matches!(&*problem.code, "left" | "detached") {
                return Err(problem);
            }
            // The failure is part of the history; the conversation continues.
            context.out.print_problem(&problem);
        }
    }
    Ok(())
}
