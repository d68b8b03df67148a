//! `finish_task`: declares the task done. A worker is not done before its own workers are. An agent
//! that ctx does not run may also seal the task, as the user's word or as abandoned.

use ctx_core::decide::{self, AgentTool, ClosedTask, Invocation, Needs, SessionView};
use ctx_core::worker::WorkerState;
use ctx_store::Target;
use serde_json::{Value, json};

use super::definition::ParameterKind::{OptionalChoice, Text};
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::parameters::{required, text};
use super::{Caller, ToolAnswer, own_session};
use crate::engine::{Engine, Error};

pub(super) fn definition() -> ToolDefinition {
    let what = "Declare the task done, with a summary. The user confirms it or requests more.";
    let outcome = "`done` (default): the user confirms it later. `confirmed`: the user has \
        confirmed the result, and the task is sealed as a commit. `abandoned`: the task is given \
        up, with the summary as the reason";
    define(
        AgentTool::FinishTask,
        Effect::Records,
        "Finish the task",
        what,
        vec![
            parameter("summary", "What was done", Text),
            parameter("outcome", outcome, OptionalChoice(&["done", "confirmed", "abandoned"]))
                .only_outside(),
            session_parameter(),
        ],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let summary = required(params, "summary").to_owned();
    let session = caller.session.to_string();
    match text(params, "outcome") {
        Some("confirmed") => {
            return Ok(sealed(&engine.tasks().confirm(&session, Some(summary)).await?));
        }
        Some("abandoned") => {
            return Ok(sealed(&engine.tasks().abandon(&session, Some(summary)).await?));
        }
        _ => {}
    }
    let is_worker = own_session(engine, caller).await?.is_worker();
    if is_worker {
        let working = working(engine, caller).await?;
        if !working.is_empty() {
            let working = working.join(", ");
            return Ok(ToolAnswer::error(format!(
                "the task is not finished: your workers {working} are at work. End your turn; \
                 their reports are the next message."
            )));
        }
    }
    let rule =
        move |view: &SessionView, invocation: &Invocation| decide::done(view, &summary, invocation);
    super::decide(engine, caller, Vec::new(), rule).await?;
    let next = if is_worker {
        "Your manager receives a report"
    } else {
        "The user will confirm or ask for changes"
    };
    Ok(ToolAnswer::ok(format!("Recorded. {next}; end your turn now.")))
}

fn sealed(closed: &ClosedTask) -> ToolAnswer {
    let record = &closed.commit;
    let (id, outcome) = (record.id.to_string(), record.commit.commit_type.name());
    ToolAnswer::with(
        format!("Sealed as {outcome}: commit {id}."),
        json!({"commit": id, "outcome": outcome, "task": record.commit.task.to_string()}),
    )
}

/// The workers of the session that have not ended or not reported.
async fn working(engine: &Engine, caller: &Caller) -> Result<Vec<String>, Error> {
    let needs = Needs { workers: true, ..Needs::NOTHING };
    let view = engine.store().view(&Target::Id(caller.session), needs).await?;
    let workers = view.map(|view| view.workers).unwrap_or_default();
    Ok(workers.into_iter().filter(WorkerState::is_working).map(|worker| worker.label).collect())
}
