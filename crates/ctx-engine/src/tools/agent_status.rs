//! `get_agent_status`: the state of a session's workers (R192).

use ctx_core::decide::AgentTool;
use ctx_core::inbox::Tool;
use ctx_core::worker::last_text;
use ctx_store::TurnQuery;
use serde_json::{Value, json};

use super::{Answer, Caller, own_session, text};
use crate::context::messages_of;
use crate::engine::{Engine, Error};

pub(super) fn tool() -> Tool {
    let what = "Get the state of your workers: what each is doing, the state of its task, and its \
        last message.";
    super::tool(
        AgentTool::GetAgentStatus,
        what,
        &[("agent", "The name of one worker; all workers if absent", false)],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let own = own_session(engine, caller).await?;
    let mut workers = engine.sessions().workers(&own.label).await?;
    if let Some(wanted) = text(params, "agent") {
        workers.retain(|worker| worker.label == wanted);
        if workers.is_empty() {
            return Ok((format!("`{wanted}` is no worker of yours"), true));
        }
    }
    let mut all = Vec::with_capacity(workers.len());
    for worker in workers {
        let info = engine.sessions().get(&worker.id.to_string()).await?;
        let newest = match info.session.head {
            Some(head) => engine.store().turns(TurnQuery::newest(head, 1)).await?.pop(),
            None => None,
        };
        let last_text =
            newest.map(messages_of).transpose()?.and_then(|messages| last_text(&messages));
        let task = info.task.as_ref().map(
            |task| json!({"description": task.description, "state": task.state.name().name()}),
        );
        all.push(json!({
            "agent": worker.label,
            "state": info.session.state,
            "status": info.session.status,
            "task": task,
            "waiting": info.inbox.len(),
            "last_words": last_text,
        }));
    }
    Ok((json!({"agents": all}).to_string(), false))
}
