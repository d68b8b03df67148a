//! `finish_task`: declares the task done.

use ctx_core::decide::{self, AgentTool};
use ctx_core::inbox::Tool;
use serde_json::Value;

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Declare the task done, with a summary. The user confirms it or requests more.";
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
        "Your manager receives a report"
    } else {
        "The user will confirm or ask for changes"
    };
    Ok((format!("Recorded. {next}; end your turn now."), false))
}
