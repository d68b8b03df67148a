//! Tasks, the questions about them, and the answers to what a session waits for.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::id::SuspensionId;
use ctx_engine::core::prompt::Choice;
use ctx_engine::core::run::Run;
use ctx_engine::core::suspension::{Answer as CoreAnswer, CallResult};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::talk::{Task, name};

use super::error::{Answer, Document, Error};
use super::extract::{Json, Path, Query, page_limit};
use super::turns::PageQuery;
use super::{Shared, cursor};

/// The task that is open now.
#[derive(Serialize, ToSchema)]
pub(super) struct OpenTask {
    task: Option<Task>,
}

/// The open task, if there is one.
#[utoipa::path(get, path = "/api/sessions/{id}/task", tag = "tasks", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = OpenTask), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn open(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<OpenTask>> {
    let info = state.engine.sessions().get(&id).await?;
    Ok(Json(OpenTask { task: info.task.as_ref().map(Task::from) }))
}

/// The tasks of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct Tasks {
    tasks: Vec<Task>,
    next_cursor: Option<String>,
}

/// All tasks of a session, newest first.
#[utoipa::path(get, path = "/api/sessions/{id}/tasks", tag = "tasks",
    params(("id" = String, Path, description = "Id, label or alias"), PageQuery),
    responses((status = 200, body = Tasks), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Tasks>> {
    let limit = page_limit(query.limit)?;
    let before = query
        .cursor
        .as_deref()
        .map(|cursor| cursor.parse().map_err(|_| cursor::bad()))
        .transpose()?;
    let mut tasks = match state.engine.tasks().list(&id, before, limit + 1).await {
        Err(error) if before.is_some() && error.code() == "not_found" => return Err(cursor::gone()),
        tasks => tasks?,
    };
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next_cursor = tasks.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(Json(Tasks { tasks: tasks.iter().map(Task::from).collect(), next_cursor }))
}

/// Opens the last sealed task again.
#[utoipa::path(post, path = "/api/sessions/{id}/task/reopen", tag = "tasks",
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = OpenTask), (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn reopen(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<OpenTask>> {
    let task = state.engine.tasks().reopen(&id).await?;
    Ok(Json(OpenTask { task: Some(Task::from(&task)) }))
}

/// One of the two choices.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// `continue` or `start_fresh`
    #[schema(value_type = String)]
    choice: Choice,
}

/// What an answer set going.
#[derive(Serialize, ToSchema)]
pub(super) struct Started {
    run_id: Option<String>,
    state: String,
}

async fn started(
    state: &Shared,
    id: &str,
    run: Option<Run>,
) -> Answer<(StatusCode, Json<Started>)> {
    let info = state.engine.sessions().get(id).await?;
    let started =
        Started { run_id: run.map(|run| run.id.to_string()), state: name(&info.session.state) };
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// Answers the pending prompt.
#[utoipa::path(post, path = "/api/sessions/{id}/answer", tag = "tasks", request_body = AnswerBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 202, body = Started), (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn answer(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<AnswerBody>,
) -> Answer<(StatusCode, Json<Started>)> {
    let run = state.engine.runs().answer_prompt(&id, body.choice).await?;
    started(&state, &id, run).await
}

/// The result of a tool that the client ran.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultBody {
    tool_call_id: String,
    content: String,
    #[serde(default)]
    is_error: bool,
}

/// An answer to what a session waits for: all results at once, or a choice.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeBody {
    suspension_id: String,
    results: Option<Vec<ResultBody>>,
    choice: Option<String>,
}

/// Answers what the session waits for; the turn goes on.
#[utoipa::path(post, path = "/api/sessions/{id}/resume", tag = "tasks", request_body = ResumeBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 202, body = Started), (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 409, body = Document, content_type = "application/problem+json"),
              (status = 422, body = Document, content_type = "application/problem+json")))]
pub(super) async fn resume(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<ResumeBody>,
) -> Answer<(StatusCode, Json<Started>)> {
    // An unknown session is said to be unknown before its suspension is.
    state.engine.sessions().get(&id).await?;
    let unknown =
        |_| Error::new(StatusCode::NOT_FOUND, "no_suspension", "there is no such suspension");
    let suspension: SuspensionId = body.suspension_id.parse().map_err(unknown)?;
    let result = |result: ResultBody| CallResult {
        tool_call_id: result.tool_call_id,
        content: result.content,
        is_error: result.is_error,
    };
    let results = body.results.unwrap_or_default().into_iter().map(result).collect();
    let run = state
        .engine
        .runs()
        .resume(&id, suspension, CoreAnswer { results, choice: body.choice })
        .await?;
    started(&state, &id, run).await
}
