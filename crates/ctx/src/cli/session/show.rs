//! `ctx session show`: show the messages of a session.

use ctx_engine::core::id::TurnId;
use ctx_engine::core::message::Role;
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, Info, ListedMessage, Order};
use serde_json::json;

use crate::json::message_json::Message;
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{DIM, escaped};
use super::transcript::{Reader, retry_line, session_line, waiting_lines};
use super::turn_marks::TurnMarks;

/// Messages per read of `--full`.
const PAGE: usize = 500;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
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
    let mut info = engine.sessions().get(&args.session_name).await?;
    engine.sessions().as_recovered(std::slice::from_mut(&mut info)).await?;
    if args.full {
        return print_all(context, &engine, &info).await;
    }
    print_newest(context, &engine, &info, usize::from(args.limit), Paging::OnTerminal).await
}

/// Whether the output may go through the pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paging {
    /// The session is followed afterwards.
    Never,
    OnTerminal,
}

/// Prints the newest messages and what the session waits for.
pub(super) async fn print_newest(
    context: &Context,
    engine: &Engine,
    info: &Info,
    limit: usize,
    paging: Paging,
) -> Result<(), Problem> {
    let session = info.session.id.to_string();
    let mut page = engine.messages().page(&session, Order::Desc, None, limit).await?;
    page.messages.reverse();
    let more = page.next.is_some();
    let mut messages = page.messages;
    if context.out.is_json() {
        let messages: Vec<Message> = messages.into_iter().map(Message::from).collect();
        let document = json!({"session": Session::from(info), "messages": messages, "more": more});
        return context.out.print(|| document, String::new);
    }
    if paging == Paging::Never && info.session.state == Activity::Running {
        // Who follows the run receives its text from the beginning.
        messages.retain(|told| told.turn.is_some() || told.message.role == Role::User);
    }
    let mut reader = SessionReader::new(context, engine, info).await?;
    let mut lines = vec![session_line(info, &context.out)];
    if more {
        let how = "show all with `--full`";
        lines.push(format!("{DIM}… earlier messages are not shown; {how}{DIM:#}"));
    }
    lines.extend(reader.messages(engine, &messages).await?);
    lines.extend(waiting_lines(info).into_iter().chain(retry_line(info)));
    let text = lines.join("\n\n");
    match paging {
        Paging::Never => context.out.print_text(&format!("{text}\n")),
        Paging::OnTerminal => {
            let lines = text.lines().map(str::to_owned).collect();
            context.out.print_paged(|| json!(null), || lines)
        }
    }
}

/// Prints messages with the headings of their turns.
struct SessionReader {
    reader: Reader,
    marks: TurnMarks,
    /// The turn of the message before.
    turn: Option<TurnId>,
}

impl SessionReader {
    async fn new(context: &Context, engine: &Engine, info: &Info) -> Result<Self, Problem> {
        let times = context.out.times(engine.now());
        let marks = TurnMarks::read(engine, &info.session.id.to_string(), times).await?;
        Ok(Self { reader: Reader::new(context, engine), marks, turn: None })
    }

    async fn messages(
        &mut self,
        engine: &Engine,
        messages: &[ListedMessage],
    ) -> Result<Vec<String>, Problem> {
        self.marks.add(engine, messages.iter().filter_map(|told| told.turn)).await?;
        let mut blocks = Vec::with_capacity(messages.len());
        for told in messages {
            let message = self.reader.message(told);
            blocks.push(match told.turn {
                Some(turn) if self.turn != Some(turn) => {
                    self.turn = Some(turn);
                    format!("{}\n{message}", self.marks.of(turn))
                }
                _ => message,
            });
        }
        Ok(blocks)
    }
}

/// Prints all messages, page by page. The document of `--json` has its keys in the order of
/// `json!`.
async fn print_all(context: &Context, engine: &Engine, info: &Info) -> Result<(), Problem> {
    let (session, is_json) = (info.session.id.to_string(), context.out.is_json());
    let mut pages = context.out.open_pages();
    pages.print(&if is_json {
        "{\"messages\":[".to_owned()
    } else {
        format!("{}\n", session_line(info, &context.out))
    })?;
    let mut reader = match is_json {
        true => None,
        false => Some(SessionReader::new(context, engine, info).await?),
    };
    let (mut from, mut comma) = (None, "");
    loop {
        let page = engine.messages().page(&session, Order::Asc, from, PAGE).await?;
        let mut shown = String::new();
        match &mut reader {
            Some(reader) => {
                for block in reader.messages(engine, &page.messages).await? {
                    shown += &format!("\n{block}\n");
                }
            }
            None => {
                for told in page.messages {
                    shown += &format!("{comma}{}", json!(Message::from(told)));
                    comma = ",";
                }
            }
        }
        pages.print(&if is_json { escaped(&shown) } else { shown.as_str().into() })?;
        from = page.next;
        if from.is_none() || pages.is_closed() {
            break;
        }
    }
    if is_json {
        let session = json!(Session::from(info));
        return pages.print(&escaped(&format!("],\"more\":false,\"session\":{session}}}\n")));
    }
    for line in waiting_lines(info).into_iter().chain(retry_line(info)) {
        pages.print(&format!("\n{line}\n"))?;
    }
    Ok(())
}
