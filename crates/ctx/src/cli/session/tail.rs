//! `ctx session tail`: follow a session that this or another process runs. With `--json` it prints
//! one line per event.

use ctx_engine::core::decide::Event;
use ctx_engine::core::message::Role;
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, FeedEvent, FeedItem, Info, TextDelta};
use serde_json::{Value, json};

use crate::problem::Problem;

use super::super::Context;
use super::engine_without_runs;
use super::live_printer::{Detail, LivePrinter};
use super::send_and_follow::open_turn_messages;
use super::session_follower::{QUIET, print_event};
use super::transcript::waiting_lines;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Start after this event; 0 starts at the beginning [default: now]
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Exit when the session is idle
    #[arg(long)]
    until_idle: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    tokio::select! {
        done = follow(context, args) => done,
        _ = tokio::signal::ctrl_c() => {
            eprintln!();
            Err(Problem::interrupted("left", "Left. The session goes on."))
        }
    }
}

async fn follow(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let mut info = engine.sessions().get(&args.session_name).await?;
    let session = info.session.id.to_string();
    let mut seen = args.from.unwrap_or(info.session.seq);
    let mut follow = engine.events().follow(&session, Some(seen)).await?;
    let mut printer = LivePrinter::new(&context.out, Detail::Everything);
    let start = info.session.seq;
    if info.session.state != Activity::Idle && seen >= start {
        print_questions(&engine, &info, &mut printer).await?;
    }
    loop {
        if args.until_idle && !info.is_busy() && info.session.seq <= seen {
            break;
        }
        let Ok(item) = tokio::time::timeout(QUIET, follow.next()).await else {
            printer.print_held_word()?;
            // If the process that ran the session has died, recover its run.
            engine.runs().end_orphaned(info.session.id).await?;
            info = engine.sessions().get(&session).await?;
            // Waiting messages do not count: this verb does not run them.
            if args.until_idle
                && info.session.state != Activity::Running
                && info.session.seq <= seen
            {
                break;
            }
            continue;
        };
        match item? {
            None => return printer.end_line(),
            Some(FeedItem::Delta(words)) if context.out.is_json() => {
                context.out.print(|| delta_json(&words, &session), String::new)?;
            }
            Some(FeedItem::Delta(words)) => printer.print_delta(&words)?,
            Some(FeedItem::Event(event)) => {
                seen = event.seq;
                if context.out.is_json() {
                    context.out.print(|| event_json(&event), String::new)?;
                    info = engine.sessions().get(&session).await?;
                    continue;
                }
                info = engine.sessions().get(&session).await?;
                // Questions of earlier runs are printed with their turns.
                if matches!(event.event, Event::RunStarted { .. }) && event.seq > start {
                    print_questions(&engine, &info, &mut printer).await?;
                }
                print_event(&engine, &mut printer, &event).await?;
            }
        }
    }
    for line in waiting_lines(&info) {
        printer.print_line(&line)?;
    }
    printer.end_line()
}

/// Prints the user messages of the open turn.
async fn print_questions(
    engine: &Engine,
    info: &Info,
    printer: &mut LivePrinter,
) -> Result<(), Problem> {
    let open = open_turn_messages(engine, info).await?;
    open.iter()
        .filter(|message| message.role == Role::User)
        .try_for_each(|message| printer.print_question(message))
}

/// The same document as on the event stream of the API.
fn event_json(event: &FeedEvent) -> Value {
    let mut line = event.event.json();
    line["seq"] = json!(event.seq);
    line["session"] = json!(event.session);
    line["at"] = json!(event.at.to_string());
    line
}

fn delta_json(words: &TextDelta, session: &str) -> Value {
    let mut line = words.json();
    line["type"] = json!(words.name());
    line["session"] = json!(session);
    line
}
