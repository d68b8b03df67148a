//! The tasks of a session.

use axum::extract::State;
use ctx_engine::Order;
use ctx_engine::core::decide::ClosedTask;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json::commit_json;
use crate::json::task_json::Task;

use super::extractors::{Json, OptionalJson, Path, Query, page_limit};
use super::messages::order_or;
use super::problem_details::{HttpResult, ProblemDetails};
use super::turns::OrderedQuery;
use super::{Shared, commits, cursor};

/// The open task; null if no task is open
#[derive(Serialize, ToSchema)]
pub(super) struct OpenTask {
    task: Option<Task>,
}

/// Read the open task
#[utoipa::path(
    get, path = "/api/sessions/{id}/task", tag = "tasks",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = OpenTask),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn open(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<OpenTask>> {
    let info = state.engine.sessions().get(&id).await?;
    Ok(Json(OpenTask { task: info.task.as_ref().map(Task::from) }))
}

/// A page of tasks
#[derive(Serialize, ToSchema)]
pub(super) struct Tasks {
    tasks: Vec<Task>,
    next_cursor: Option<String>,
}

/// List all tasks of a session
#[utoipa::path(
    get, path = "/api/sessions/{id}/tasks", tag = "tasks",
    params(("id" = String, Path, description = "Id, short id, label or alias"), OrderedQuery),
    responses(
        (status = 200, body = Tasks),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<OrderedQuery>,
) -> HttpResult<Json<Tasks>> {
    let limit = page_limit(query.limit)?;
    let order = order_or(query.order, Order::Desc);
    let after = query
        .cursor
        .as_deref()
        .map(|cursor| cursor.parse().map_err(|_| cursor::invalid()))
        .transpose()?;
    let mut tasks = match state.engine.tasks().list(&id, order, after, limit + 1).await {
        Err(error) if after.is_some() && error.code() == "not_found" => {
            return Err(cursor::not_found());
        }
        tasks => tasks?,
    };
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next_cursor = tasks.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(Json(Tasks { tasks: tasks.iter().map(Task::from).collect(), next_cursor }))
}

/// A task and its commit
#[derive(Serialize, ToSchema)]
pub(super) struct TaskAndCommit {
    task: Task,
    #[schema(value_type = Object)]
    commit: Value,
}

impl From<ClosedTask> for TaskAndCommit {
    fn from(closed: ClosedTask) -> Self {
        Self { task: Task::from(&closed.task), commit: commit_json::commit_record(&closed.commit) }
    }
}

/// The message of the commit
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfirmBody {
    /// The task's summary if none
    message: Option<String>,
}

/// Confirm the open task
///
/// The task is sealed as `normal` at once, without a run.
#[utoipa::path(
    post, path = "/api/sessions/{id}/task/confirm", tag = "tasks", request_body = ConfirmBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = TaskAndCommit),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn confirm(
    State(state): State<Shared>,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<ConfirmBody>,
) -> HttpResult<Json<TaskAndCommit>> {
    Ok(Json(state.engine.tasks().confirm(&id, body.message).await?.into()))
}

/// Why the task is given up
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct AbandonBody {
    reason: Option<String>,
}

/// Abandon the open task
///
/// The task is sealed as `abandoned` at once. An open run is cancelled.
#[utoipa::path(
    post, path = "/api/sessions/{id}/task/abandon", tag = "tasks", request_body = AbandonBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = TaskAndCommit),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn abandon(
    State(state): State<Shared>,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<AbandonBody>,
) -> HttpResult<Json<TaskAndCommit>> {
    Ok(Json(state.engine.tasks().abandon(&id, body.reason).await?.into()))
}

/// Reopen the task that was sealed last
///
/// The commit is kept; a new task with the same description is open.
#[utoipa::path(
    post, path = "/api/sessions/{id}/task/reopen", tag = "tasks",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = TaskAndCommit),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn reopen(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<TaskAndCommit>> {
    let (task, commit) = state.engine.tasks().reopen(&id).await?;
    let commit = commits::find(&state, commit).await?;
    Ok(Json(TaskAndCommit { task: Task::from(&task), commit }))
}
