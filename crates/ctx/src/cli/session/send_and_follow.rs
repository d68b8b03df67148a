//! Sends something to a session and follows the session until it is idle or suspended. `run`,
//! `send`, `answer`, `retry`, `compact` and `resume` use it.

use ctx_engine::core::id::{MessageId, TurnId};
use ctx_engine::core::message::{Message as CoreMessage, Part};
use ctx_engine::core::session::Activity;
use ctx_engine::core::turn::Status;
use ctx_engine::{Engine, Error, Info, ListedMessage, Order, Submitted};
use serde_json::json;

use crate::json::message_json::{Accepted, Message};
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::live_printer::{Detail, LivePrinter};
use super::session_follower::SessionFollower;
use super::terminal_prompts;
use super::transcript::waiting_lines;

/// Messages per read.
const PAGE: usize = 200;

/// Whether the user is asked for what the session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Asking {
    /// Only print what the session waits for.
    Never,
    /// Ask the user, if there is a terminal.
    OnTerminal,
}

/// Follows a session from before the message is sent.
pub(in crate::cli) struct Exchange<'a> {
    context: &'a Context,
    engine: &'a Engine,
    follower: SessionFollower,
    session: String,
    /// The head before the message was sent.
    since: Option<TurnId>,
    asking: Asking,
}

impl<'a> Exchange<'a> {
    /// Starts to follow the session. Call it before sending, so that no output is missed.
    pub(in crate::cli) async fn start(
        context: &'a Context,
        engine: &'a Engine,
        session: &str,
        asking: Asking,
    ) -> Result<Self, Problem> {
        let info = engine.sessions().get(session).await?;
        let mut printer = LivePrinter::new(&context.out, Detail::AnswerOnly);
        if info.session.state == Activity::Suspended {
            // The open turn continues; an earlier command has printed its first messages.
            let printed = open_turn_messages(engine, &info).await?;
            printed.iter().for_each(|message| printer.mark_printed(message));
        }
        let follower = SessionFollower::start(engine, &info, printer).await?;
        let asking = if terminal_prompts::is_interactive(context) { asking } else { Asking::Never };
        Ok(Self {
            context,
            engine,
            follower,
            session: info.session.id.to_string(),
            since: info.session.head,
            asking,
        })
    }

    /// For a retry, which replaces the newest turn: messages count as new from its parent on.
    pub(in crate::cli) async fn replacing_last_turn(mut self) -> Result<Self, Problem> {
        if let Some(head) = self.since {
            self.since = self.engine.messages().turn(head).await?.header.parent;
        }
        Ok(self)
    }

    /// Follows the session to the end, prints the result and shuts the engine down.
    pub(in crate::cli) async fn finish(
        mut self,
        sent: Result<Option<Submitted>, Error>,
    ) -> Result<(), Problem> {
        let result = self.follow(sent).await;
        self.engine.background().shutdown().await;
        result
    }

    /// Follows the session until it is idle or suspended and prints the result. Fails if the run
    /// failed or was cancelled. Further messages can be sent afterwards.
    pub(super) async fn follow(
        &mut self,
        sent: Result<Option<Submitted>, Error>,
    ) -> Result<(), Problem> {
        self.follower.reset_cancelled();
        let sent = sent?;
        let info = match self.asking {
            Asking::OnTerminal => {
                terminal_prompts::follow_and_ask(self.engine, &mut self.follower).await?
            }
            Asking::Never => self.follower.follow_until_settled().await?,
        };
        let messages = messages_since(self.engine, &self.session, self.since).await?;
        self.since = info.session.head;
        let cancelled = self.follower.was_cancelled()
            || was_cancelled(self.engine, &messages, sent.as_ref()).await?;
        if cancelled {
            let problem = match self.follower.was_cancelled() {
                true => {
                    Problem::interrupted("cancelled", "Cancelled. The output so far is stored.")
                }
                false => Problem::failed(
                    "cancelled",
                    "the run was cancelled: its output so far is stored",
                ),
            };
            return Err(problem.with("session", json!(info.session.label)));
        }
        if let Some((code, message)) =
            run_failure(&messages, sent.as_ref().map(|sent| sent.message_id), &info)
        {
            return Err(
                Problem::run_failed(&code, &message).with("session", json!(info.session.label))
            );
        }
        for line in waiting_lines(&info) {
            self.follower.printer.print_line(&line)?;
        }
        if !self.context.out.is_json() {
            return Ok(());
        }
        let messages: Vec<Message> = messages.into_iter().map(Message::from).collect();
        let mut document = json!({"session": Session::from(&info), "messages": messages});
        if let Some(sent) = &sent {
            document["message"] = json!(Accepted::from(sent));
        }
        self.context.out.print(|| document, String::new)
    }

    pub(super) fn follower(&mut self) -> &mut SessionFollower {
        &mut self.follower
    }
}

/// The messages of the open turn, oldest first.
pub(super) async fn open_turn_messages(
    engine: &Engine,
    info: &Info,
) -> Result<Vec<CoreMessage>, Problem> {
    Ok(engine.messages().open_turn(&info.session.id.to_string()).await?)
}

/// The messages after a turn, oldest first, including those of the open turn.
async fn messages_since(
    engine: &Engine,
    session: &str,
    turn: Option<TurnId>,
) -> Result<Vec<ListedMessage>, Problem> {
    let mut new = Vec::new();
    let mut from = None;
    loop {
        let page = engine.messages().page(session, Order::Desc, from, PAGE).await?;
        let read = page.messages.len();
        let count_before = new.len();
        new.extend(
            page.messages.into_iter().take_while(|told| told.turn.is_none() || told.turn != turn),
        );
        let reached = new.len() - count_before < read;
        match page.next {
            Some(next) if !reached => from = Some(next),
            _ => break,
        }
    }
    new.reverse();
    Ok(new)
}

/// Whether another process cancelled the run of the sent message.
async fn was_cancelled(
    engine: &Engine,
    messages: &[ListedMessage],
    sent: Option<&Submitted>,
) -> Result<bool, Problem> {
    let Some(sent) = sent else { return Ok(false) };
    let own = messages.iter().find(|told| told.message.id == sent.message_id);
    let Some(turn) = own.and_then(|told| told.turn) else { return Ok(false) };
    Ok(engine.messages().turn(turn).await?.header.status == Status::Cancelled)
}

/// Code and message of the error in the turn of the sent message, else in the newest turn.
fn run_failure(
    messages: &[ListedMessage],
    sent: Option<MessageId>,
    info: &Info,
) -> Option<(String, String)> {
    let own = messages.iter().find(|told| Some(told.message.id) == sent).and_then(|told| told.turn);
    let turn = own.or(info.session.head)?;
    let parts = messages
        .iter()
        .filter(|told| told.turn == Some(turn))
        .flat_map(|told| &told.message.content);
    parts.rev().find_map(|part| match part {
        Part::Error { code, message, .. } => Some((code.clone(), message.clone())),
        _ => None,
    })
}
