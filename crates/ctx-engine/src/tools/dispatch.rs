//! `dispatch_to_agent`: starts a worker with a session and a task of its own (R186). A worker works
//! inside its manager's directory and with a configured provider; workers are limited in depth.

use std::path::Path;

use ctx_core::decide::{self, AgentTool, ToolRefusal};
use ctx_core::inbox::{Mode, Tool};
use ctx_core::message::Source;
use ctx_core::session::{Origin, Parent, Session};
use ctx_core::text_limits::one_line;
use ctx_core::worker::resolve_dir;
use serde_json::{Value, json};

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};
use crate::submit::{NewMessage, NewSession};

/// Longest title of a worker, in characters.
const TITLE_MAX_CHARS: usize = 80;

pub(super) fn tool() -> Tool {
    let what = "Give a task to a worker: another agent that works on it in a session of \
                its own, beside you. You receive a message when it has ended; \
                end your turn if you have nothing else to do.";
    super::tool(
        AgentTool::DispatchToAgent,
        what,
        &[
            ("task", "The complete task: the worker has no other context", true),
            ("provider", "The provider of the worker; yours if absent", false),
            ("model", "The model of the worker", false),
            ("working_dir", "The working directory: yours or one inside it", false),
        ],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let Some(task) = text(params, "task") else { return Ok(missing("task")) };
    let manager = own_session(engine, caller).await?;
    let (depth, workers) =
        (engine.depth(&manager).await?, engine.sessions().workers(&manager.label).await?);
    if let Err(refusal) = decide::check_dispatch(depth, &workers) {
        return Ok((refusal.to_string(), true));
    }
    let working_dir = match directory(&manager, text(params, "working_dir")) {
        Ok(dir) => dir,
        Err(why) => return Ok((why, true)),
    };
    let named = |field| text(params, field).map(str::to_owned);
    let (provider_id, model) = decide::worker_model(&manager, named("provider"), named("model"));
    let new = NewSession {
        title: Some(one_line(task, TITLE_MAX_CHARS)),
        project: Some(manager.project.clone()),
        working_dir,
        provider_id,
        model,
        track_tasks: Some(true),
        origin: Some(Origin::Subagent),
        parent: Some(Parent {
            session: manager.label.clone(),
            turn: None,
            tool_call: caller.tool_call.clone(),
        }),
        ..NewSession::default()
    };
    let first =
        NewMessage { source: Source::Agent, mode: Some(Mode::Followup), ..NewMessage::text(task) };
    let (id, _) = engine.sessions().create(new, Some(first), None).await?;
    let label = engine.sessions().get(&id.to_string()).await?.session.label;
    Ok((json!({"agent": label, "status": "running"}).to_string(), false))
}

/// The working directory of the worker, or why it is refused.
fn directory(manager: &Session, named: Option<&str>) -> Result<Option<String>, String> {
    let (own, named) = match (&manager.working_dir, named) {
        (own, None) => return Ok(own.clone()),
        (None, Some(_)) => {
            return Err(ToolRefusal::NoDirectory.to_string());
        }
        (Some(own), Some(named)) => (own, named),
    };
    // Symbolic links are resolved before the comparison.
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| format!("working_dir {}: {error}", path.display()))
    };
    let (inner, outer) = (real(&resolve_dir(own, named))?, real(Path::new(own))?);
    decide::check_worker_dir(own, &inner, &outer, inner.is_dir())
        .map_err(|refusal| refusal.to_string())?;
    Ok(Some(inner.to_string_lossy().into_owned()))
}
