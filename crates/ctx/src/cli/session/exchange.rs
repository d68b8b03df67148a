//! One exchange with a session, from before the message is sent until the session is idle or waits: what `run`, `send`,
//! `answer` and `retry` have in common.

use ctx_engine::core::id::{MessageId, TurnId};
use ctx_engine::core::message::{Message as Said, Part};
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, Error, Info, Order, Submitted, Told};
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::{Accepted, Message, Session};

use super::super::Context;
use super::printer::{Printer, Show};
use super::stream::Stream;
use super::terminal;
use super::transcript::waiting_lines;

/// How many messages one read takes.
const PAGE: usize = 200;

/// Whether what the session waits for is asked here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Asks {
    /// It is only told.
    Never,
    /// A person at the terminal is asked.
    Person,
}

/// An exchange that is under way.
pub(in crate::cli) struct Exchange<'a> {
    context: &'a Context,
    engine: &'a Engine,
    stream: Stream,
    session: String,
    /// The newest turn that was there before.
    since: Option<TurnId>,
    asks: Asks,
}

impl<'a> Exchange<'a> {
    /// Begins to follow the session; what is sent after this is seen from its first word.
    pub(in crate::cli) async fn open(
        context: &'a Context,
        engine: &'a Engine,
        session: &str,
        asks: Asks,
    ) -> Result<Self, Problem> {
        let info = engine.sessions().get(session).await?;
        let mut printer = Printer::new(&context.out, Show::Answer);
        if info.session.state == Activity::Suspended {
            // The turn goes on; what it said before was told by whoever waited for it then.
            open_turn(engine, &info).await?.iter().for_each(|message| printer.knows(message));
        }
        let stream = Stream::open(engine, &info, printer).await?;
        let asks = if terminal::is_here(context) { asks } else { Asks::Never };
        Ok(Self {
            context,
            engine,
            stream,
            session: info.session.id.to_string(),
            since: info.session.head,
            asks,
        })
    }

    /// What is new counts from the turn before the newest: that one is done again.
    pub(in crate::cli) async fn again(mut self) -> Result<Self, Problem> {
        if let Some(head) = self.since {
            self.since = self.engine.messages().turn(head).await?.header.parent;
        }
        Ok(self)
    }

    /// Streams until the session is idle or waits, says how it ended, and lets this process be forgotten.
    pub(in crate::cli) async fn conclude(
        mut self,
        sent: Result<Option<Submitted>, Error>,
    ) -> Result<(), Problem> {
        let told = self.told(sent).await;
        self.engine.background().shutdown().await;
        told
    }

    /// As [`Exchange::conclude`], for somebody who goes on talking.
    pub(super) async fn told(
        &mut self,
        sent: Result<Option<Submitted>, Error>,
    ) -> Result<(), Problem> {
        self.stream.renew();
        let sent = sent?;
        let info = match self.asks {
            Asks::Person => terminal::attend(self.engine, &mut self.stream).await?,
            Asks::Never => self.stream.settled().await?,
        };
        let messages = since(self.engine, &self.session, self.since).await?;
        self.since = info.session.head;
        if self.stream.was_cancelled() {
            return Err(Problem::failed(
                "cancelled",
                "the run was cancelled; what it made is kept",
            )
            .with("session", json!(info.session.label)));
        }
        if let Some((code, message)) =
            failure(&messages, sent.as_ref().map(|sent| sent.message_id), &info)
        {
            return Err(Problem::of_run(&code, &message).with("session", json!(info.session.label)));
        }
        for line in waiting_lines(&info) {
            self.stream.printer.line(&line)?;
        }
        if !self.context.out.is_json() {
            return Ok(());
        }
        let messages: Vec<Message> = messages.into_iter().map(Message::from).collect();
        let mut document = json!({"session": Session::from(&info), "messages": messages});
        if let Some(sent) = &sent {
            document["message"] = json!(Accepted::from(sent));
        }
        self.context.out.say(|| document, String::new)
    }

    /// The stream, for what is asked between two exchanges.
    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

/// What the open turn says so far, oldest first.
pub(super) async fn open_turn(engine: &Engine, info: &Info) -> Result<Vec<Said>, Problem> {
    let page =
        engine.messages().page(&info.session.id.to_string(), Order::Desc, None, PAGE).await?;
    let mut open: Vec<Said> = page
        .messages
        .into_iter()
        .take_while(|told| told.turn.is_none())
        .map(|told| told.message)
        .collect();
    open.reverse();
    Ok(open)
}

/// What was said since a turn, oldest first, the open turn included.
async fn since(engine: &Engine, session: &str, turn: Option<TurnId>) -> Result<Vec<Told>, Problem> {
    let mut new = Vec::new();
    let mut from = None;
    loop {
        let page = engine.messages().page(session, Order::Desc, from, PAGE).await?;
        let read = page.messages.len();
        let before = new.len();
        new.extend(
            page.messages.into_iter().take_while(|told| told.turn.is_none() || told.turn != turn),
        );
        let reached = new.len() - before < read;
        match page.next {
            Some(next) if !reached => from = Some(next),
            _ => break,
        }
    }
    new.reverse();
    Ok(new)
}

/// The error of the turn that the message led to, or of the newest one.
fn failure(messages: &[Told], sent: Option<MessageId>, info: &Info) -> Option<(String, String)> {
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
