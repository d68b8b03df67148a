//! `send_message_to_agent`: a worker speaks to its manager, a manager to its workers (R189).

use ctx_core::inbox::{Mode, Tool};
use ctx_core::message::Source;
use ctx_core::worker::MANAGER;
use serde_json::Value;

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};
use crate::submit::Outgoing;

pub(super) const NAME: &str = "send_message_to_agent";

pub(super) fn tool() -> Tool {
    let what = "Send a message to another agent. It becomes a turn of its own there, after what it is doing now.";
    let to = "A worker of yours by its name, or `manager` for the agent that gave you your task";
    super::tool(NAME, what, &[("to", to, true), ("text", "What to say", true)])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let Some(to) = text(params, "to") else { return Ok(missing("to")) };
    let Some(said) = text(params, "text") else { return Ok(missing("text")) };
    let own = own_session(engine, caller).await?;
    let label = match (to, &own.parent) {
        (MANAGER, Some(parent)) => parent.session.clone(),
        (MANAGER, None) => {
            return Ok(("you have no manager: nobody dispatched you".to_owned(), true));
        }
        (worker, _) => {
            let workers = engine.workers(&own.label).await?;
            if !workers.iter().any(|session| session.label == worker) {
                let known: Vec<&str> =
                    workers.iter().map(|session| session.label.as_str()).collect();
                return Ok((
                    format!("`{worker}` is no worker of yours; they are: {}", known.join(", ")),
                    true,
                ));
            }
            worker.to_owned()
        }
    };
    let text = if to == MANAGER {
        format!("Message from {}:\n\n{said}", own.label)
    } else {
        said.to_owned()
    };
    let message =
        Outgoing { source: Source::Agent, mode: Some(Mode::Followup), ..Outgoing::text(text) };
    engine.submit(&label, message, None).await?;
    Ok((format!("Sent to {label}."), false))
}
