//! `ask_user`: asks a question and makes the session idle; the answer is the next message.

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::Tool;
use serde_json::Value;

use super::ParameterKind::Text;
use super::{Answer, Caller, own_session, parameter, required};
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Ask the user a question that you need answered before you can continue. End your \
        turn afterwards.";
    super::tool(AgentTool::AskUser, what, &[parameter("question", "What you need to know", Text)])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let question = required(params, "question").to_owned();
    super::decide(engine, caller, move |view, invocation| decide::ask(view, &question, invocation))
        .await?;
    let whom =
        if own_session(engine, caller).await?.is_worker() { "your manager" } else { "the user" };
    Ok(Answer::ok(format!(
        "The question was put to {whom}. End your turn now; the answer is the next message."
    )))
}
