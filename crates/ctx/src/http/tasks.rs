//! The tasks of a session.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::task_json::Task;

use super::extractors::{Json, Path, Query, page_limit};
use super::problem_details::{HttpResult, ProblemDetails};
use super::turns::PageQuery;
use super::{Shared, cursor};

/// The open task; null if no task is open
#[derive(Serialize, ToSchema)]
pub(super) struct OpenTask {
    task: Option<Task>,
}

/// Read the open task
#[utoipa::path(
    get, path = "/api/sessions/{id}/task", tag = "tasks",
    params(("id" = String, Path, description = "Id, label or alias")),
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

/// List all tasks of a session, newest first
#[utoipa::path(
    get, path = "/api/sessions/{id}/tasks", tag = "tasks",
    params(("id" = String, Path, description = "Id, label or alias"), PageQuery),
    responses(
        (status = 200, body = Tasks),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> HttpResult<Json<Tasks>> {
    let limit = page_limit(query.limit)?;
    let before = query
        .cursor
        .as_deref()
        .map(|cursor| cursor.parse().map_err(|_| cursor::invalid()))
        .transpose()?;
    let mut tasks = match state.engine.tasks().list(&id, before, limit + 1).await {
        Err(error) if before.is_some() && error.code() == "not_found" => {
            return Err(cursor::not_found());
        }
        tasks => tasks?,
    };
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next_cursor = tasks.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(Json(Tasks { tasks: tasks.iter().map(Task::from).collect(), next_cursor }))
}

/// Reopen the task that was sealed last
#[utoipa::path(
    post, path = "/api/sessions/{id}/task/reopen", tag = "tasks",
    params(("id" = String, Path, description = "Id, label or alias")),
    responses(
        (status = 200, body = OpenTask),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn reopen(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<OpenTask>> {
    let task = state.engine.tasks().reopen(&id).await?;
    Ok(Json(OpenTask { task: Some(Task::from(&task)) }))
}
