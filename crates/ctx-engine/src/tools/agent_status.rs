//! `get_agent_status`: the state of a session's workers (R192).

use ctx_core::decide::{self, AgentTool, Needs};
use ctx_core::worker::{WorkerState, last_text};
use ctx_store::Target;
use serde_json::{Value, json};

use super::definition::ParameterKind::OptionalText;
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::parameters::text;
use super::{Caller, ToolAnswer, own_session};
use crate::context::messages_of;
use crate::engine::{Engine, Error};

pub(super) fn definition() -> ToolDefinition {
    let what = "Get the state of your workers: what each is doing, the state of its task, the \
        workers that it waits for, and its last message.";
    let label = "The label of one worker; all workers if absent";
    define(
        AgentTool::GetAgentStatus,
        Effect::Reads,
        "State of agents",
        what,
        vec![parameter("label", label, OptionalText), session_parameter()],
    )
    .output(json!({"workers": {"type": "array", "items": {"type": "object"}}}), &["workers"])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let own = own_session(engine, caller).await?;
    let mut workers = engine.sessions().workers(&own.label).await?;
    if let Some(wanted) = text(params, "label") {
        if let Err(refusal) = decide::own_worker(wanted, &workers) {
            return Ok(ToolAnswer::error(format!("invalid parameter `label`: {refusal}")));
        }
        workers.retain(|worker| worker.label == wanted);
    }
    let mut all = Vec::with_capacity(workers.len());
    for worker in workers {
        let info = engine.sessions().get(&worker.id.to_string()).await?;
        let newest = match info.session.head {
            Some(head) => engine.last_exchange(head).await?,
            None => None,
        };
        let last_text =
            newest.map(messages_of).transpose()?.and_then(|messages| last_text(&messages));
        let task = info.task.as_ref().map(
            |task| json!({"description": task.description, "state": task.state.name().name()}),
        );
        let needs = Needs { workers: true, ..Needs::NOTHING };
        let view = engine.store().view(&Target::Id(worker.id), needs).await?;
        let below = view.map(|view| view.workers).unwrap_or_default();
        let waits_for: Vec<String> =
            below.into_iter().filter(WorkerState::is_working).map(|below| below.label).collect();
        all.push(json!({
            "label": worker.label,
            "state": info.session.state,
            "status": info.session.status,
            "task": task,
            "waiting": info.inbox.len(),
            "waits_for": waits_for,
            "last_words": last_text,
        }));
    }
    Ok(ToolAnswer::json(json!({"workers": all})))
}
