//! `dispatch_to_agent`: starts a worker with a session and a task of its own (R186). A worker works
//! inside its manager's directory and with a configured provider; workers are limited in depth.
//! With `wait` the call returns when the worker has ended, or after a bound.

use std::path::Path;

use ctx_core::decide::{self, AgentTool, ToolRefusal};
use ctx_core::id::SessionId;
use ctx_core::inbox::{Mode, Overrides, Tool};
use ctx_core::message::Source;
use ctx_core::session::{Origin, Parent, Session};
use ctx_core::text_limits::one_line;
use ctx_core::worker::resolve_dir;
use serde_json::{Value, json};

use super::ParameterKind::{OptionalFlag, OptionalText, Text};
use super::{Answer, Caller, own_session, parameter, required, text};
use crate::engine::{Engine, Error};
use crate::submit::{NewMessage, NewSession};

/// Longest title of a worker, in characters.
const TITLE_MAX_CHARS: usize = 80;

/// Longest last message of a worker in the result of the call, in bytes. A longer result is stored
/// as a blob, in which the label of the worker is not found (R191).
const LAST_WORDS_MAX_BYTES: usize = 3000;

pub(super) fn tool() -> Tool {
    let what = "Give a task to a worker: another agent that works on it in a session of \
                its own, beside you. You receive a message when it has ended; \
                end your turn if you have nothing else to do.";
    let to = "The agent of the worker: the name of a provider or of a persona; yours if absent";
    let wait = "Whether to wait for the worker and return its last message. After a while its \
                status is returned instead, and you receive a message when it has ended";
    super::tool(
        AgentTool::DispatchToAgent,
        what,
        &[
            parameter("to", to, OptionalText),
            parameter("task", "The complete task: the worker has no other context", Text),
            parameter("wait", wait, OptionalFlag),
            parameter("model", "The model of the worker", OptionalText),
            parameter("working_dir", "The working directory: yours or one inside it", OptionalText),
        ],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let task = required(params, "task");
    let manager = own_session(engine, caller).await?;
    let (depth, workers) =
        (engine.depth(&manager).await?, engine.sessions().workers(&manager.label).await?);
    if let Err(refusal) = decide::check_dispatch(depth, &workers) {
        return Ok(Answer::error(refusal.to_string()));
    }
    let working_dir = match directory(&manager, text(params, "working_dir")) {
        Ok(dir) => dir,
        Err(why) => return Ok(Answer::error(why)),
    };
    let (to, model) = (text(params, "to"), text(params, "model").map(str::to_owned));
    let catalog = &engine.shared().run_host.catalog;
    let agent = match decide::worker_agent(&manager, to, model, catalog) {
        Ok(agent) => agent,
        Err(refusal) => return Ok(Answer::error(format!("invalid parameter `to`: {refusal}"))),
    };
    let new = NewSession {
        title: Some(one_line(task, TITLE_MAX_CHARS)),
        project: Some(manager.project.clone()),
        working_dir,
        persona: agent.persona,
        provider_id: agent.provider_id,
        model: agent.model,
        track_tasks: Some(true),
        origin: Some(Origin::Subagent),
        parent: Some(Parent {
            session: manager.label.clone(),
            turn: None,
            tool_call: caller.tool_call.clone(),
        }),
        ..NewSession::default()
    };
    let first = NewMessage {
        source: Source::Agent,
        mode: Some(Mode::Followup),
        overrides: Overrides { rights: caller.rights(), ..Overrides::default() },
        ..NewMessage::text(task)
    };
    let (id, _) = engine.sessions().create(new, Some(first), None).await?;
    let label = engine.sessions().get(&id.to_string()).await?.session.label;
    if params.get("wait").and_then(Value::as_bool) == Some(true) {
        return wait(engine, caller, id, &label).await;
    }
    Ok(Answer::ok(json!({"label": label, "status": "running"}).to_string()))
}

/// Waits for the worker. Its end is reported by the answer, and not by a message as well.
async fn wait(
    engine: &Engine,
    caller: &Caller,
    worker: SessionId,
    label: &str,
) -> Result<Answer, Error> {
    let bound = engine.shared().timeouts.worker_wait;
    let Some(ended) = engine.wait_for_worker(worker, bound, &caller.stop).await? else {
        let note = "It has not ended yet. You receive a message when it has ended.";
        let status = json!({"label": label, "status": "running", "note": note});
        return Ok(Answer::ok(status.to_string()));
    };
    let last_words = ended.last_words().map(clip);
    let answer = json!({"label": label, "status": ended.end.name(), "last_words": last_words});
    Ok(Answer { reported: Some((worker, ended.head)), ..Answer::ok(answer.to_string()) })
}

fn clip(mut text: String) -> String {
    if text.len() > LAST_WORDS_MAX_BYTES {
        text.truncate(text.floor_char_boundary(LAST_WORDS_MAX_BYTES));
        text.push('…');
    }
    text
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
