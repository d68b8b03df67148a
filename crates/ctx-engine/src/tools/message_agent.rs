//! `send_message_to_agent`: messages between a worker and its manager (R189).

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::{Mode, Overrides, Tool};
use ctx_core::message::Source;
use ctx_core::worker::MANAGER;
use serde_json::Value;

use super::ParameterKind::Text;
use super::{Answer, Caller, own_session, parameter, required};
use crate::engine::{Engine, Error};
use crate::submit::NewMessage;

pub(super) fn tool() -> Tool {
    let what = "Send a message to another agent. It becomes a turn of its own there, after what it \
        is doing now.";
    let to = "A worker of yours by its label, or `manager` for the agent that gave you your task";
    super::tool(
        AgentTool::SendMessageToAgent,
        what,
        &[parameter("to", to, Text), parameter("content", "What to say", Text)],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let (to, content) = (required(params, "to"), required(params, "content"));
    let own = own_session(engine, caller).await?;
    let workers = engine.sessions().workers(&own.label).await?;
    let label = match decide::recipient(&own, to, &workers) {
        Ok(label) => label,
        Err(refusal) => return Ok(Answer::error(format!("invalid parameter `to`: {refusal}"))),
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
    Ok(Answer::ok(format!("Sent to {label}.")))
}
