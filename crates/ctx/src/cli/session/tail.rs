//! `ctx session tail`: what happens in a session, whoever runs it. With `--json`, one line for each event.

use ctx_engine::core::decide::Event;
use ctx_engine::core::message::Role;
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, FeedEvent, FeedItem, Info, Words};
use serde_json::{Value, json};

use crate::problem::Problem;

use super::super::Context;
use super::exchange::open_turn;
use super::idle_engine;
use super::printer::{Printer, Show};
use super::stream::{QUIET, show};
use super::transcript::waiting_lines;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// From after this event; 0 tells everything from the beginning [default: from now]
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Leave when nothing runs any more
    #[arg(long)]
    until_idle: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = idle_engine(context).await?;
    let mut info = engine.sessions().get(&args.which).await?;
    let session = info.session.id.to_string();
    let mut seen = args.from.unwrap_or(info.session.seq);
    let mut follow = engine.events().follow(&session, Some(seen)).await?;
    let mut printer = Printer::new(&context.out, Show::Everything);
    let start = info.session.seq;
    if info.session.state != Activity::Idle && seen >= start {
        questions(&engine, &info, &mut printer).await?;
    }
    loop {
        if args.until_idle && !info.is_busy() && info.session.seq <= seen {
            break;
        }
        let Ok(item) = tokio::time::timeout(QUIET, follow.next()).await else {
            // Whoever ran it may be dead: then it is not waited for.
            engine.runs().end_orphaned(info.session.id).await?;
            info = engine.sessions().get(&session).await?;
            // Messages may wait that nobody is there to run.
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
            Some(FeedItem::Words(words)) if context.out.is_json() => {
                context.out.say(|| delta(&words, &session), String::new)?
            }
            Some(FeedItem::Words(words)) => printer.words(&words)?,
            Some(FeedItem::Event(event)) => {
                seen = event.seq;
                if context.out.is_json() {
                    context.out.say(|| line(&event), String::new)?;
                    info = engine.sessions().get(&session).await?;
                    continue;
                }
                info = engine.sessions().get(&session).await?;
                // What was asked before this verb came is told with its turn.
                if matches!(event.event, Event::RunStarted { .. }) && event.seq > start {
                    questions(&engine, &info, &mut printer).await?;
                }
                show(&engine, &mut printer, &event).await?;
            }
        }
    }
    for line in waiting_lines(&info) {
        printer.line(&line)?;
    }
    printer.end_line()
}

/// What the open turn answers.
async fn questions(engine: &Engine, info: &Info, printer: &mut Printer) -> Result<(), Problem> {
    let open = open_turn(engine, info).await?;
    open.iter()
        .filter(|message| message.role == Role::User)
        .try_for_each(|message| printer.question(message))
}

/// An event as the API tells it.
fn line(event: &FeedEvent) -> Value {
    let mut line = event.event.json();
    line["seq"] = json!(event.seq);
    line["session"] = json!(event.session);
    line["at"] = json!(event.at.to_string());
    line
}

fn delta(words: &Words, session: &str) -> Value {
    let mut line = words.json();
    line["type"] = json!(words.name());
    line["session"] = json!(session);
    line
}
