//! `ask_user`: asks a question and makes the session idle; the answer is the next message.

use ctx_core::decide::{self, AgentTool, Invocation, SessionView};
use serde_json::Value;

use super::definition::ParameterKind::Text;
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::parameters::required;
use super::{Caller, ToolAnswer, own_session};
use crate::engine::{Engine, Error};

pub(super) fn definition() -> ToolDefinition {
    let what = "Ask the user a question that you need answered before you can continue. End your \
        turn afterwards.";
    define(
        AgentTool::AskUser,
        Effect::Records,
        "Ask the user",
        what,
        vec![parameter("question", "What you need to know", Text), session_parameter()],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let question = required(params, "question").to_owned();
    let rule =
        move |view: &SessionView, invocation: &Invocation| decide::ask(view, &question, invocation);
    super::decide(engine, caller, Vec::new(), rule).await?;
    if caller.is_outside() {
        return Ok(ToolAnswer::ok(
            "The question was put to the user. End your turn now; `get_task` returns the answer \
             when the user has answered.",
        ));
    }
    let whom =
        if own_session(engine, caller).await?.is_worker() { "your manager" } else { "the user" };
    Ok(ToolAnswer::ok(format!(
        "The question was put to {whom}. End your turn now; the answer is the next message."
    )))
}
