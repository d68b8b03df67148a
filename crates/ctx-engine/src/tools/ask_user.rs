//! `ask_user`: the question is put, the session becomes idle, the answer is the next message.

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::Tool;
use serde_json::Value;

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Ask the user something that you need to know before you can go on. End your turn afterwards.";
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
            "The question was put to {whom}. End your turn now; the answer comes as the next message."
        ),
        false,
    ))
}
