//! `ctx session send`: a message, and the answer as it comes.

use ctx_engine::Outgoing;
use ctx_engine::core::inbox::{Mode, Overrides};
use ctx_engine::core::message::Source;
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::{Accepted, Message, Session};

use super::super::Context;
use super::super::output::text;
use super::exchange::{Asks, Exchange};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// What to say; `-` reads it from standard input
    text: String,
    /// Who answers, this time
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// With which model, this time
    #[arg(long)]
    model: Option<String>,
    /// What becomes of it if the session is busy: interrupt, steer, followup, collect, steer-backlog or queue
    #[arg(long)]
    mode: Option<Mode>,
    /// Where it comes from
    #[arg(long, default_value = "human", value_parser = ["human", "agent", "trigger", "webhook", "timer", "event"])]
    source: String,
    /// Only put it into the inbox: a server, or whoever comes next, runs it
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let mut message = Outgoing::text(text(&args.text)?);
    message.mode = args.mode;
    message.source = source(&args.source);
    message.overrides =
        Overrides { provider_id: args.provider, model: args.model, tools: Vec::new() };
    let engine = context.talking_engine()?;
    if args.no_wait {
        let posted = engine.messages().post(&args.which, message).await;
        engine.background().shutdown().await;
        let (posted, info) = (posted?, engine.sessions().get(&args.which).await?);
        let none: [Message; 0] = [];
        return context.out.say(
            || json!({"message": Accepted::from(&posted), "session": Session::from(&info), "messages": none}),
            || posted.position.map_or_else(|| "Sent.".to_owned(), |place| format!("It waits in the inbox, as number {place}.")),
        );
    }
    let exchange = Exchange::open(context, &engine, &args.which, Asks::Never).await?;
    let sent = engine.messages().submit(&args.which, message, None).await;
    exchange.conclude(sent.map(Some)).await
}

fn source(name: &str) -> Source {
    match name {
        "agent" => Source::Agent,
        "trigger" => Source::Trigger,
        "webhook" => Source::Webhook,
        "timer" => Source::Timer,
        "event" => Source::Event,
        _ => Source::Human,
    }
}
