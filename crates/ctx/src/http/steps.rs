//! A task by its id: its steps and the files that it read and wrote.

use axum::extract::State;
use ctx_engine::StoredStep;
use ctx_engine::core::id::TaskId;
use ctx_engine::core::step::Entry;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::json::task_json::{self, Task};
use crate::task_record::{FileRecord, TaskRecord};

use super::extractors::{Json, Path, Query, page_limit};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, cursor};

/// Most files of a response.
const FILES_MAX: usize = 2000;

/// Read a task
#[utoipa::path(
    get, path = "/api/tasks/{task}", tag = "tasks",
    params(("task" = String, Path, description = "The task's id")),
    responses(
        (status = 200, body = Task),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(task): Path<String>,
) -> HttpResult<Json<Task>> {
    let id = find(&state, &task).await?;
    let found = state.engine.tasks().get(id).await?;
    let found = found.ok_or_else(|| Error::not_found("task", &task))?;
    Ok(Json(Task::from(&found)))
}

async fn find(state: &Shared, task: &str) -> HttpResult<TaskId> {
    let id = state.engine.ids().task(task).await?;
    id.ok_or_else(|| Error::not_found("task", task))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StepsQuery {
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A stored checkpoint of a task
#[derive(Serialize, ToSchema)]
pub(super) struct StepDocument {
    id: String,
    /// Position in the task, from 1
    seq: u64,
    /// `session_start`, `file_read`, `file_write`, `command_run`, `note`, `plan`, `relations`,
    /// `state` or `compact`
    kind: &'static str,
    at: String,
    /// The state of the task after the step
    #[schema(value_type = Object)]
    state: Value,
    /// `{type, …}`; `type` is `task`, `file_read`, `file_write`, `command`, `note`, `plan`,
    /// `relation` or `moved`. The content of a file and the output of a command is a text,
    /// `{blob, bytes}`, or `{omitted, bytes}` if it is not stored; null is a file that was deleted
    #[schema(value_type = Vec<Object>)]
    entries: Vec<Value>,
}

impl From<&StoredStep> for StepDocument {
    fn from(stored: &StoredStep) -> Self {
        let step = &stored.step;
        Self {
            id: stored.id.to_string(),
            seq: stored.seq,
            kind: step.kind.name(),
            at: step.timestamp.to_string(),
            state: task_json::state(&step.state),
            entries: step.payload.iter().map(|entry: &Entry| json!(entry)).collect(),
        }
    }
}

/// A page of steps
#[derive(Serialize, ToSchema)]
pub(super) struct Steps {
    steps: Vec<StepDocument>,
    next_cursor: Option<String>,
}

/// List the steps of a task, oldest first
#[utoipa::path(
    get, path = "/api/tasks/{task}/steps", tag = "tasks",
    params(("task" = String, Path, description = "The task's id"), StepsQuery),
    responses(
        (status = 200, body = Steps),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(task): Path<String>,
    Query(query): Query<StepsQuery>,
) -> HttpResult<Json<Steps>> {
    let limit = page_limit(query.limit)?;
    let after = match query.cursor.as_deref() {
        None => 0,
        Some(text) => text.parse().map_err(|_| cursor::invalid())?,
    };
    let id = find(&state, &task).await?;
    let mut steps = state.engine.tasks().steps(id, after, limit + 1).await?;
    let more = steps.len() > limit;
    steps.truncate(limit);
    let next_cursor = steps.last().filter(|_| more).map(|last| last.seq.to_string());
    Ok(Json(Steps { steps: steps.iter().map(StepDocument::from).collect(), next_cursor }))
}

/// A file that a task read or wrote
#[derive(Serialize, ToSchema)]
pub(super) struct FileDocument {
    path: String,
    /// False if the task only read it
    written: bool,
    deleted: bool,
    /// The first content that was read before the first write, else the newest one of earlier
    /// tasks; null if none was recorded
    #[schema(value_type = Option<Object>)]
    before: Option<Content>,
    /// The last content that was written; null if none was, or the file was deleted
    #[schema(value_type = Option<Object>)]
    after: Option<Content>,
}

impl From<FileRecord> for FileDocument {
    fn from(file: FileRecord) -> Self {
        Self {
            path: file.path,
            written: file.written.is_some(),
            deleted: file.written == Some(None),
            before: file.before,
            after: file.written.flatten(),
        }
    }
}

/// The files of a task, in the order of the first access
#[derive(Serialize, ToSchema)]
pub(super) struct Files {
    files: Vec<FileDocument>,
    /// Number of files that are not listed
    more: usize,
}

/// List the files of a task with their first and last version
#[utoipa::path(
    get, path = "/api/tasks/{task}/files", tag = "tasks",
    params(("task" = String, Path, description = "The task's id")),
    responses(
        (status = 200, body = Files),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn files(
    State(state): State<Shared>,
    Path(task): Path<String>,
) -> HttpResult<Json<Files>> {
    let id = find(&state, &task).await?;
    let (from, to) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    let mut record = TaskRecord::read(&state.engine, id, from, to).await?;
    record.find_earlier_versions(&state.engine, id).await?;
    let mut files = record.files;
    let more = files.len().saturating_sub(FILES_MAX);
    files.truncate(FILES_MAX);
    Ok(Json(Files { files: files.into_iter().map(FileDocument::from).collect(), more }))
}
