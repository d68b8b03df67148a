//! Manual compaction of a session's context window.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::json::message_json::Accepted;

use super::Shared;
use super::extractors::{Json, OptionalJson, Path};
use super::problem_details::{HttpResult, ProblemDetails};

/// Options of a compaction
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactBody {
    /// The subject that the summary should cover in most detail
    focus: Option<String>,
}

/// Compact the context of a session
///
/// Summarizes earlier turns in a new turn. Nothing is deleted. If a run is open, the compaction
/// starts after it.
#[utoipa::path(
    post, path = "/api/sessions/{id}/compact", tag = "sessions", request_body = CompactBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 202, body = Accepted),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn compact(
    State(state): State<Shared>,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<CompactBody>,
) -> HttpResult<(StatusCode, Json<Accepted>)> {
    let sent = state.engine.contexts().compact(&id, body.focus.as_deref()).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted::from(&sent))))
}
