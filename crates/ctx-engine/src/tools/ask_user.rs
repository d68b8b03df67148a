//! `ask_user`: asks a question and makes the session idle; the answer is the next message.

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::Tool;
use serde_json::Value;

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Ask the user a question that you need answered before you can continue. End your \
        turn afterwards.";
    super::tool(AgentTool::AskUser, what, &[("question", "What you need to know", true)])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let Some(question) = text(params, "question").map(str::to_owned) else {
        return Ok(missing("question"));
    };
    super::decide(engine, caller, move |view, invocation| decide::ask(view, &question, invocation))
        .await?;
    let whom =
        if own_session(engine, caller).await?.is_worker() { "your manager" } else { "the user" };
    Ok((
        format!(
            "The question was put to {whom}. End your turn now; the answer is the next message."
        ),
        false,
    ))
}
