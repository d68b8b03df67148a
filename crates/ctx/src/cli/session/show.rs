//! `ctx session show`: what was said.

use ctx_engine::{Engine, Info, Order};
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::{Message, Session};

use super::super::Context;
use super::transcript::{message_lines, session_line, waiting_lines};

/// How many messages one read takes.
const PAGE: usize = 500;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// Everything from the beginning
    #[arg(long, conflicts_with = "limit")]
    full: bool,
    /// The newest so many messages
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let info = engine.sessions().get(&args.which).await?;
    if args.full {
        return full(context, &engine, &info).await;
    }
    newest(context, &engine, &info, usize::from(args.limit)).await
}

/// The newest messages, and what is waited for.
pub(super) async fn newest(
    context: &Context,
    engine: &Engine,
    info: &Info,
    limit: usize,
) -> Result<(), Problem> {
    let mut page =
        engine.messages().page(&info.session.id.to_string(), Order::Desc, None, limit).await?;
    page.messages.reverse();
    let more = page.next.is_some();
    let mut lines = vec![session_line(info)];
    if !context.out.is_json() {
        lines.extend(more.then(|| "…".to_owned()));
        lines.extend(page.messages.iter().map(message_lines));
        lines.extend(waiting_lines(info));
    }
    let messages = page.messages;
    context.out.say(
        || {
            let messages: Vec<Message> = messages.into_iter().map(Message::from).collect();
            json!({"session": Session::from(info), "messages": messages, "more": more})
        },
        || lines.join("\n\n"),
    )
}

/// All of it, a page at a time: a long conversation is never in memory whole, unless one document is wanted.
async fn full(context: &Context, engine: &Engine, info: &Info) -> Result<(), Problem> {
    let session = info.session.id.to_string();
    let say = |lines: String| context.out.say(|| json!(null), || lines);
    let mut all: Vec<Message> = Vec::new();
    if !context.out.is_json() {
        say(session_line(info))?;
    }
    let mut from = None;
    loop {
        let page = engine.messages().page(&session, Order::Asc, from, PAGE).await?;
        if context.out.is_json() {
            all.extend(page.messages.into_iter().map(Message::from));
        } else {
            for told in &page.messages {
                say(format!("\n{}", message_lines(told)))?;
            }
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    if context.out.is_json() {
        return context.out.say(
            || json!({"session": Session::from(info), "messages": all, "more": false}),
            String::new,
        );
    }
    for line in waiting_lines(info) {
        say(format!("\n{line}"))?;
    }
    Ok(())
}
