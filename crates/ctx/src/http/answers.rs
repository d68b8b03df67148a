//! Answers to pending prompts and to suspensions.

use axum::extract::State;
use axum::http::header::{ORIGIN, USER_AGENT};
use axum::http::{HeaderMap, StatusCode};
use ctx_engine::core::prompt::Choice;
use ctx_engine::core::run::Run;
use ctx_engine::core::suspension::{Answer, CallResult};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::variant_name;

use super::Shared;
use super::extractors::{Json, Path};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// The choice that answers a prompt
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// `continue` or `start_fresh`
    #[schema(value_type = String)]
    choice: Choice,
}

/// The state of the session after an answer
#[derive(Serialize, ToSchema)]
pub(super) struct Started {
    /// The run that the answer started; null if none
    run_id: Option<String>,
    state: String,
}

async fn started(
    state: &Shared,
    id: &str,
    run: Option<Run>,
) -> HttpResult<(StatusCode, Json<Started>)> {
    let info = state.engine.sessions().get(id).await?;
    let started = Started {
        run_id: run.map(|run| run.id.to_string()),
        state: variant_name(&info.session.state),
    };
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// Answer the pending prompt
#[utoipa::path(
    post, path = "/api/sessions/{id}/answer", tag = "tasks", request_body = AnswerBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 202, body = Started),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn answer(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<AnswerBody>,
) -> HttpResult<(StatusCode, Json<Started>)> {
    let run = state.engine.runs().answer_prompt(&id, body.choice).await?;
    started(&state, &id, run).await
}

/// The name of a client for the transcript. Only browsers send an origin.
fn client(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    match (headers.contains_key(ORIGIN), agent) {
        (true, _) => "the web page".to_owned(),
        (false, Some(agent)) => format!("the API client {agent}"),
        (false, None) => "an API client".to_owned(),
    }
}

/// The result of a tool that the client ran
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultBody {
    tool_call_id: String,
    content: String,
    #[serde(default)]
    is_error: bool,
}

/// The answer to a suspension: all tool results at once, or a choice
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeBody {
    suspension_id: String,
    results: Option<Vec<ResultBody>>,
    /// The id of an option, or text if the suspension has no options
    choice: Option<String>,
}

/// Answer a suspension
///
/// The open turn continues in a new run.
#[utoipa::path(
    post, path = "/api/sessions/{id}/resume", tag = "tasks", request_body = ResumeBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 202, body = Started),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
    State(state): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<ResumeBody>,
) -> HttpResult<(StatusCode, Json<Started>)> {
    // An unknown session is reported before an unknown suspension.
    state.engine.sessions().get(&id).await?;
    let unknown =
        || Error::new(StatusCode::NOT_FOUND, "no_suspension", "there is no such suspension");
    let suspension = state.engine.ids().suspension(&id, &body.suspension_id).await?;
    let suspension = suspension.ok_or_else(unknown)?;
    let result = |result: ResultBody| CallResult {
        tool_call_id: result.tool_call_id,
        content: result.content,
        is_error: result.is_error,
    };
    let results = body.results.unwrap_or_default().into_iter().map(result).collect();
    let run = state
        .engine
        .runs()
        .resume(
            &id,
            suspension,
            Answer { results, choice: body.choice, by: Some(client(&headers)) },
        )
        .await?;
    started(&state, &id, run).await
}
