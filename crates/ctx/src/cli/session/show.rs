//! `ctx session show`: show the messages of a session.

use ctx_engine::{Engine, Info, Order};
use serde_json::json;

use crate::json::message_json::Message;
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::transcript::{message_lines, retry_line, session_line, waiting_lines};

/// Messages per read of `--full`.
const PAGE: usize = 500;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label or id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Show all messages from the beginning
    #[arg(long, conflicts_with = "limit")]
    full: bool,
    /// Show at most this many of the newest messages
    #[arg(short = 'n', long, default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let info = engine.sessions().get(&args.session_name).await?;
    if args.full {
        return print_all(context, &engine, &info).await;
    }
    print_newest(context, &engine, &info, usize::from(args.limit)).await
}

/// Prints the newest messages and what the session waits for.
pub(super) async fn print_newest(
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
        lines.extend(waiting_lines(info).into_iter().chain(retry_line(info)));
    }
    let messages = page.messages;
    context.out.print(
        || {
            let messages: Vec<Message> = messages.into_iter().map(Message::from).collect();
            json!({"session": Session::from(info), "messages": messages, "more": more})
        },
        || lines.join("\n\n"),
    )
}

/// Prints all messages, page by page. The document of `--json` has its keys in the order of
/// `json!`.
async fn print_all(context: &Context, engine: &Engine, info: &Info) -> Result<(), Problem> {
    let (session, is_json) = (info.session.id.to_string(), context.out.is_json());
    let print = |lines: &str| context.out.print_text(lines);
    print(&if is_json {
        "{\"messages\":[".to_owned()
    } else {
        format!("{}\n", session_line(info))
    })?;
    let (mut from, mut comma) = (None, "");
    loop {
        let page = engine.messages().page(&session, Order::Asc, from, PAGE).await?;
        let mut shown = String::new();
        for told in page.messages {
            if is_json {
                shown += &format!("{comma}{}", json!(Message::from(told)));
                comma = ",";
            } else {
                shown += &format!("\n{}\n", message_lines(&told));
            }
        }
        print(&shown)?;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    if is_json {
        return print(&format!("],\"more\":false,\"session\":{}}}\n", json!(Session::from(info))));
    }
    for line in waiting_lines(info).into_iter().chain(retry_line(info)) {
        print(&format!("\n{line}\n"))?;
    }
    Ok(())
}
