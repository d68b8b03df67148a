//! `ctx session send`: send a message and stream the answer.

use ctx_engine::NewMessage;
use ctx_engine::core::inbox::{Mode, Overrides};
use ctx_engine::core::message::Source;
use serde_json::json;

use crate::json::message_json::{Accepted, Message};
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::read_text;
use super::send_and_follow::{Asking, Exchange};

const SOURCES: [&str; 6] = ["human", "agent", "trigger", "webhook", "timer", "event"];

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Send this text, words joined by spaces; `-` reads standard input
    #[arg(required = true)]
    text: Vec<String>,
    /// Use this provider for this message
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model for this message
    #[arg(long)]
    model: Option<String>,
    /// Set what happens if the session is busy: interrupt, steer, followup, collect, steer-backlog
    /// or queue
    #[arg(long)]
    mode: Option<Mode>,
    /// Set the source of the message
    #[arg(long, default_value = "human", value_parser = SOURCES)]
    source: String,
    /// Queue the message and exit; a server or the next command runs it
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let mut message = NewMessage::text(read_text(&args.text.join(" "))?);
    message.mode = args.mode;
    message.source = source(&args.source);
    message.overrides =
        Overrides { provider_id: args.provider, model: args.model, ..Overrides::default() };
    let engine = context.engine_for_runs()?;
    if args.no_wait {
        let posted = engine.messages().post(&args.session_name, message).await;
        engine.background().shutdown().await;
        let (posted, info) = (posted?, engine.sessions().get(&args.session_name).await?);
        let none: [Message; 0] = [];
        return context.out.print(
            || {
                json!({
                    "message": Accepted::from(&posted),
                    "session": Session::from(&info),
                    "messages": none,
                })
            },
            || match posted.position {
                None => "Sent.".to_owned(),
                Some(position) => format!("Queued at position {position}."),
            },
        );
    }
    let exchange = Exchange::start(context, &engine, &args.session_name, Asking::Never).await?;
    let sent = engine.messages().submit(&args.session_name, message, None).await;
    exchange.finish(sent.map(Some)).await
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
