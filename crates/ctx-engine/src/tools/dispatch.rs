//! `dispatch_to_agent`: starts a worker with a session and a task of its own (R186). A worker works
//! inside its manager's directory and with a configured provider; workers are limited in depth.
//! With `wait` the call returns when the worker has ended, or after a bound.

use std::path::Path;
use std::time::Duration;

use ctx_core::decide::{self, AgentTool, ToolRefusal};
use ctx_core::id::SessionId;
use ctx_core::inbox::{Mode, Overrides};
use ctx_core::message::Source;
use ctx_core::session::{Origin, Parent, Session};
use ctx_core::text_limits::one_line;
use ctx_core::worker::{End, last_text, resolve_dir};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::definition::ParameterKind::{OptionalFlag, OptionalText, Text};
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::parameters::{flag, required, text};
use super::{Caller, ToolAnswer, own_session};
use crate::context::messages_of;
use crate::engine::{Engine, Error};
use crate::submit::{NewMessage, NewSession};

/// Longest title of a worker, in characters.
const TITLE_MAX_CHARS: usize = 80;

/// Longest last message of a worker in the result of the call, in bytes. A longer result is stored
/// as a blob, in which the label of the worker is not found (R191).
const LAST_WORDS_MAX_BYTES: usize = 3000;

/// How often a call that waits reports its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn definition() -> ToolDefinition {
    let what = "Give a task to a worker: another agent that works on it in a session of \
                its own, beside you. You receive a message when it has ended; \
                end your turn if you have nothing else to do.";
    let to = "The agent of the worker: the name of a provider or of a persona; yours if absent";
    let wait = "Whether to wait for the worker and return its last message. After a while its \
                status is returned instead, and you receive a message when it has ended";
    define(
        AgentTool::DispatchToAgent,
        Effect::Acts,
        "Give a task to an agent",
        what,
        vec![
            parameter("to", to, OptionalText),
            parameter("task", "The complete task: the worker has no other context", Text),
            parameter("wait", wait, OptionalFlag),
            parameter("model", "The model of the worker", OptionalText),
            parameter("working_dir", "The working directory: yours or one inside it", OptionalText),
            session_parameter(),
        ],
    )
    .output(
        json!({
            "label": {"type": "string"},
            "status": {"type": "string"},
            "last_words": {"type": ["string", "null"]},
            "note": {"type": "string"},
        }),
        &["label", "status"],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let task = required(params, "task");
    let manager = own_session(engine, caller).await?;
    let (depth, workers) =
        (engine.depth(&manager).await?, engine.sessions().workers(&manager.label).await?);
    if let Err(refusal) = decide::check_dispatch(depth, &workers) {
        return Ok(ToolAnswer::error(refusal.to_string()));
    }
    let working_dir = match directory(&manager, text(params, "working_dir")) {
        Ok(dir) => dir,
        Err(why) => return Ok(ToolAnswer::error(why)),
    };
    let (to, model) = (text(params, "to"), text(params, "model").map(str::to_owned));
    let catalog = engine.shared().run_host().catalog;
    let agent = match decide::worker_agent(&manager, to, model, &catalog) {
        Ok(agent) => agent,
        Err(refusal) => return Ok(ToolAnswer::error(format!("invalid parameter `to`: {refusal}"))),
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
    caller.progress.report(|| format!("{label} started"));
    if flag(params, "wait") {
        return wait(engine, caller, id, &label).await;
    }
    Ok(ToolAnswer::json(json!({"label": label, "status": "running"})))
}

/// Waits for the worker. Its end is reported by the answer, and not by a message as well.
async fn wait(
    engine: &Engine,
    caller: &Caller,
    worker: SessionId,
    label: &str,
) -> Result<ToolAnswer, Error> {
    if caller.is_outside() {
        return wait_outside(engine, caller, worker, label).await;
    }
    let bound = engine.shared().timeouts.worker_wait;
    let Some(ended) = engine.wait_for_worker(worker, bound, &caller.stop).await? else {
        let note = "It has not ended yet. You receive a message when it has ended.";
        let status = json!({"label": label, "status": "running", "note": note});
        return Ok(ToolAnswer::json(status));
    };
    let last_words = ended.last_words().map(clip);
    let answer = json!({"label": label, "status": ended.end.name(), "last_words": last_words});
    Ok(ToolAnswer { reported: Some((worker, ended.head)), ..ToolAnswer::json(answer) })
}

/// Waits for the worker of an agent that ctx does not run. Such an agent receives no report.
async fn wait_outside(
    engine: &Engine,
    caller: &Caller,
    worker: SessionId,
    label: &str,
) -> Result<ToolAnswer, Error> {
    let name = worker.to_string();
    let until = Instant::now() + engine.shared().timeouts.worker_wait;
    let info = loop {
        let pause = until.saturating_duration_since(Instant::now()).min(PROGRESS_INTERVAL);
        let info = tokio::select! {
            info = engine.sessions().wait_until_settled(&name, pause) => info?,
            () = caller.stop.cancelled() => engine.sessions().get(&name).await?,
        };
        if !info.is_busy() || caller.stop.is_cancelled() || Instant::now() >= until {
            break info;
        }
        caller.progress.report(|| format!("{label} is at work"));
    };
    let newest = match info.session.head.filter(|_| !info.is_busy()) {
        Some(head) => engine.last_exchange(head).await?,
        None => None,
    };
    let Some(newest) = newest else {
        let note = "It has not ended yet. `get_agent_status` returns its state.";
        let status = json!({"label": label, "status": "running", "note": note});
        return Ok(ToolAnswer::json(status));
    };
    let end = End::of(newest.header.status, info.task.as_ref());
    let last_words = last_text(&messages_of(newest)?).map(clip);
    Ok(ToolAnswer::json(json!({"label": label, "status": end.name(), "last_words": last_words})))
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
