//! `send_message_to_agent`: messages between a worker and its manager (R189).

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::{Mode, Overrides};
use ctx_core::message::Source;
use ctx_core::worker::MANAGER;
use serde_json::Value;

use super::definition::ParameterKind::Text;
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::parameters::required;
use super::{Caller, ToolAnswer, own_session};
use crate::engine::{Engine, Error};
use crate::submit::NewMessage;

pub(super) fn definition() -> ToolDefinition {
    let what = "Send a message to another agent. It becomes a turn of its own there, after what it \
        is doing now.";
    let to = "A worker of yours by its label, or `manager` for the agent that gave you your task. \
        An agent that ctx does not run may name any session";
    define(
        AgentTool::SendMessageToAgent,
        Effect::Acts,
        "Message an agent",
        what,
        vec![
            parameter("to", to, Text),
            parameter("content", "What to say", Text),
            session_parameter(),
        ],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let (to, content) = (required(params, "to"), required(params, "content"));
    let own = own_session(engine, caller).await?;
    let workers = engine.sessions().workers(&own.label).await?;
    let label = match decide::recipient(&own, to, &workers) {
        Ok(label) => label,
        // The API lets such a caller write to every session as well.
        Err(_) if caller.is_outside() && to != MANAGER => {
            engine.sessions().get(to).await?.session.label
        }
        Err(refusal) => return Ok(ToolAnswer::error(format!("invalid parameter `to`: {refusal}"))),
    };
    let (text, from_worker) = if to == MANAGER {
        (format!("Message from {}:\n\n{content}", own.label), Some(own.label))
    } else {
        (content.to_owned(), None)
    };
    // A worker's message does not restrict its manager.
    let rights = caller.rights().filter(|_| from_worker.is_none());
    let message = NewMessage {
        source: Source::Agent,
        mode: Some(Mode::Followup),
        overrides: Overrides { from_worker, rights, ..Overrides::default() },
        ..NewMessage::text(text)
    };
    engine.messages().submit(&label, message, None).await?;
    Ok(ToolAnswer::ok(format!("Sent to {label}.")))
}
