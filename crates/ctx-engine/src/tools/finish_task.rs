//! `finish_task`: the agent says that it is done.

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::Tool;
use serde_json::Value;

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Say that the task is done, with a summary of what was done. The user confirms or asks for more.";
    super::tool(AgentTool::FinishTask, what, &[("summary", "What was done", true)])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let Some(summary) = text(params, "summary").map(str::to_owned) else {
        return Ok(missing("summary"));
    };
    super::decide(engine, caller, move |view, invocation| decide::done(view, &summary, invocation))
        .await?;
    let next = if own_session(engine, caller).await?.is_worker() {
        "Your manager is told"
    } else {
        "The user will confirm or ask for changes"
    };
    Ok((format!("Noted. {next}; end your turn now."), false))
}
