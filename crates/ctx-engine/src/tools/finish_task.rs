//! `finish_task`: declares the task done. A worker is not done before its own workers are.

use ctx_core::decide::{self, AgentTool, Needs};
use ctx_core::inbox::Tool;
use ctx_core::worker::WorkerState;
use ctx_store::Target;
use serde_json::Value;

use super::ParameterKind::Text;
use super::{Answer, Caller, own_session, parameter, required};
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Declare the task done, with a summary. The user confirms it or requests more.";
    super::tool(AgentTool::FinishTask, what, &[parameter("summary", "What was done", Text)])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let summary = required(params, "summary").to_owned();
    let is_worker = own_session(engine, caller).await?.is_worker();
    if is_worker {
        let working = working(engine, caller).await?;
        if !working.is_empty() {
            let working = working.join(", ");
            return Ok(Answer::error(format!(
                "the task is not finished: your workers {working} are at work. End your turn; \
                 their reports are the next message."
            )));
        }
    }
    super::decide(engine, caller, move |view, invocation| decide::done(view, &summary, invocation))
        .await?;
    let next = if is_worker {
        "Your manager receives a report"
    } else {
        "The user will confirm or ask for changes"
    };
    Ok(Answer::ok(format!("Recorded. {next}; end your turn now.")))
}

/// The workers of the session that have not ended or not reported.
async fn working(engine: &Engine, caller: &Caller) -> Result<Vec<String>, Error> {
    let needs = Needs { workers: true, ..Needs::NOTHING };
    let view = engine.store().view(&Target::Id(caller.session), needs).await?;
    let workers = view.map(|view| view.workers).unwrap_or_default();
    Ok(workers.into_iter().filter(WorkerState::is_working).map(|worker| worker.label).collect())
}
