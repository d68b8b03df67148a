//! `dispatch_to_agent`: a worker gets a session of its own, a task, and starts at once (R186). It may never do more than
//! its manager may: it works inside the manager's directory, with a provider that is configured, at most so deep.

use std::path::Path;

use ctx_core::inbox::{Mode, Tool};
use ctx_core::message::Source;
use ctx_core::session::{Activity, Origin, Parent, Session};
use ctx_core::text::one_line;
use ctx_core::worker::{BUSY_MAX, DEPTH_MAX, DISPATCH, is_inside, within};
use serde_json::{Value, json};

use super::{Answer, Caller, missing, own_session, text};
use crate::engine::{Engine, Error};
use crate::submit::{NewSession, Outgoing};

/// How long a worker's title may be.
const TITLE_MAX_CHARS: usize = 80;

pub(super) fn tool() -> Tool {
    let what = "Give a task to a worker: another agent that works on it in a session of its own, beside you. You are told with a \
                message when it has ended; end your turn if you have nothing else to do.";
    super::tool(
        DISPATCH,
        what,
        &[
            ("task", "The whole task: the worker knows nothing else", true),
            ("provider", "Who is to work on it; whoever answers here if absent", false),
            ("model", "With which model", false),
            ("working_dir", "Where it works: your own directory or one inside it", false),
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
    if engine.depth(&manager).await? >= DEPTH_MAX {
        return Ok((
            format!("workers may be {DEPTH_MAX} deep, and you are one that deep: do it yourself"),
            true,
        ));
    }
    let busy = engine
        .workers(&manager.label)
        .await?
        .iter()
        .filter(|worker| worker.state != Activity::Idle)
        .count();
    if busy >= BUSY_MAX {
        return Ok((
            format!(
                "{busy} workers of yours are at work, and at most {BUSY_MAX} may be: wait until one has ended"
            ),
            true,
        ));
    }
    let working_dir = match directory(&manager, text(params, "working_dir")) {
        Ok(dir) => dir,
        Err(why) => return Ok((why, true)),
    };
    let provider = text(params, "provider").map(str::to_owned);
    let same = provider.is_none() || provider == manager.provider_id;
    let new = NewSession {
        title: Some(one_line(task, TITLE_MAX_CHARS)),
        project: Some(manager.project.clone()),
        working_dir,
        provider_id: provider.or_else(|| manager.provider_id.clone()),
        model: text(params, "model")
            .map(str::to_owned)
            .or_else(|| manager.model.clone().filter(|_| same)),
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
        Outgoing { source: Source::Agent, mode: Some(Mode::Followup), ..Outgoing::text(task) };
    let (id, _) = engine.create(new, Some(first), None).await?;
    let label = engine.info(&id.to_string()).await?.session.label;
    Ok((json!({"agent": label, "status": "running"}).to_string(), false))
}

/// Where the worker works; why not there, if it may not.
fn directory(manager: &Session, named: Option<&str>) -> Result<Option<String>, String> {
    let (own, named) = match (&manager.working_dir, named) {
        (own, None) => return Ok(own.clone()),
        (None, Some(_)) => {
            return Err(
                "this session works in no directory, so its workers cannot either".to_owned()
            );
        }
        (Some(own), Some(named)) => (own, named),
    };
    // Links are followed before it is compared.
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| format!("working_dir {}: {error}", path.display()))
    };
    let (inner, outer) = (real(&within(own, named))?, real(Path::new(own))?);
    if inner.is_dir() && is_inside(&inner, &outer) {
        return Ok(Some(inner.to_string_lossy().into_owned()));
    }
    Err(format!(
        "working_dir must be a directory inside {own}: a worker may not work where its manager may not"
    ))
}
