//! `send_message_to_agent`: messages between a worker and its manager (R189).

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::{Mode, Tool};
use ctx_core::message::Source;
use ctx_core::worker::MANAGER;
use serde_json::Value;

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};
use crate::submit::NewMessage;

pub(super) fn tool() -> Tool {
    let what = "Send a message to another agent. It becomes a turn of its own there, after what it \
        is doing now.";
    let to = "A worker of yours by its name, or `manager` for the agent that gave you your task";
    super::tool(
        AgentTool::SendMessageToAgent,
        what,
        &[("to", to, true), ("text", "What to say", true)],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let Some(to) = text(params, "to") else { return Ok(missing("to")) };
    let Some(content) = text(params, "text") else { return Ok(missing("text")) };
    let own = own_session(engine, caller).await?;
    let workers = engine.sessions().workers(&own.label).await?;
    let label = match decide::recipient(&own, to, &workers) {
        Ok(label) => label,
        Err(refusal) => return Ok((refusal.to_string(), true)),
    };
    let text = if to == MANAGER {
        format!("Message from {}:\n\n{content}", own.label)
    } else {
        content.to_owned()
    };
    let message =
        NewMessage { source: Source::Agent, mode: Some(Mode::Followup), ..NewMessage::text(text) };
    engine.messages().submit(&label, message, None).await?;
    Ok((format!("Sent to {label}."), false))
}
