//! A task, its state, the prompt about it, and the manifest of its bundle.

use ctx_engine::core::bundle::TaskBundle;
use ctx_engine::core::prompt::{Choice, Prompt};
use ctx_engine::core::task::{State, Task as CoreTask};
use ctx_engine::core::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{optional_string, time};

/// A unit of work inside a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Task {
    id: String,
    session: String,
    description: String,
    /// `{name, …}`; `name` is `running`, `awaiting_user`, `interrupted`, `pending_complete`,
    /// `complete` or `aborted`
    #[schema(value_type = Object)]
    state: Value,
    /// Number of steps
    steps: u64,
    /// Id of the newest step
    head: String,
    /// Summary of the progress so far
    progress: String,
    started_at: String,
    last_activity_at: String,
    ended_at: Option<String>,
    /// Id of the commit, if the task is sealed
    commit: Option<String>,
}

impl From<&CoreTask> for Task {
    fn from(task: &CoreTask) -> Self {
        Self {
            id: task.id.to_string(),
            session: task.session.to_string(),
            description: task.description.clone(),
            state: state(&task.state),
            steps: task.steps,
            head: task.head.to_string(),
            progress: task.progress.summary(),
            started_at: task.started_at.to_string(),
            last_activity_at: task.last_activity_at.to_string(),
            ended_at: optional_string(&task.ended_at),
            commit: optional_string(&task.commit),
        }
    }
}

/// The task as the `ctx stage` verbs print it.
pub(crate) fn task(task: &CoreTask) -> Value {
    json!({
        "id": task.id,
        "session": task.session,
        "description": task.description,
        "state": state(&task.state),
        "steps": task.steps,
        "head": task.head,
        "started_at": time(task.started_at),
        "last_activity_at": time(task.last_activity_at),
        "progress": task.progress.summary(),
        "commit": task.commit,
    })
}

/// The stored state has `asked_at` in Unix seconds; the document has it as RFC 3339.
pub(crate) fn state(state: &State) -> Value {
    let mut value = json!(state);
    if let State::AwaitingUser { asked_at, .. } = state {
        value["asked_at"] = time(Timestamp(asked_at.saturating_mul(1000)));
    }
    value
}

pub(crate) fn prompt(prompt: &Prompt) -> Value {
    json!({
        "id": prompt.id,
        "kind": prompt.kind(),
        "text": prompt.text,
        "choices": prompt.choices().map(Choice::name),
        "opened_at": time(prompt.opened_at),
    })
}

pub(crate) fn task_bundle(bundle: &TaskBundle) -> Value {
    json!({
        "task": bundle.task,
        "task_description": bundle.task_description,
        "state": state(&bundle.state),
        "staging_head": bundle.staging_head,
        "steps": bundle.steps,
        "progress_summary": bundle.progress_summary,
        "last_activity": time(bundle.last_activity),
    })
}
