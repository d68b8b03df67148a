//! Pinned turns: a compaction does not remove them from the context.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::pin::Pin as CorePin;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::extractors::{Json, Path};
use super::problem_details::{HttpResult, ProblemDetails};
use super::turns::find_turn;

/// A pinned turn
#[derive(Serialize, ToSchema)]
pub(super) struct Pin {
    turn: String,
    /// Number of turns from the root, this one included
    depth: u64,
    /// Size of the turn in tokens
    tokens: u64,
    pinned_at: String,
}

/// The pinned turns of a session
#[derive(Serialize, ToSchema)]
pub(super) struct Pins {
    pins: Vec<Pin>,
}

impl From<Vec<CorePin>> for Pins {
    fn from(pins: Vec<CorePin>) -> Self {
        let one = |pin: &CorePin| Pin {
            turn: pin.turn.to_string(),
            depth: pin.depth,
            tokens: pin.tokens,
            pinned_at: pin.at.to_string(),
        };
        Self { pins: pins.iter().map(one).collect() }
    }
}

/// List the pinned turns, oldest first
#[utoipa::path(
    get, path = "/api/sessions/{id}/pins", tag = "turns",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = Pins),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pins(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Pins>> {
    Ok(Json(state.engine.contexts().pins(&id).await?.into()))
}

/// Pin a turn
///
/// Every later request of the session includes the turn, even after a compaction. The turn must be
/// the head or an ancestor of it.
#[utoipa::path(
    post, path = "/api/sessions/{id}/pins/{turn}", tag = "turns",
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        ("turn" = String, Path, description = "The turn's id"),
    ),
    responses(
        (status = 200, body = Pins),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pin(
    State(state): State<Shared>,
    Path((id, turn)): Path<(String, String)>,
) -> HttpResult<Json<Pins>> {
    Ok(Json(state.engine.contexts().pin(&id, find_turn(&state, &turn).await?).await?.into()))
}

/// Unpin a turn
#[utoipa::path(
    delete, path = "/api/sessions/{id}/pins/{turn}", tag = "turns",
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        ("turn" = String, Path, description = "The turn's id"),
    ),
    responses(
        (status = 204),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn unpin(
    State(state): State<Shared>,
    Path((id, turn)): Path<(String, String)>,
) -> HttpResult<StatusCode> {
    state.engine.contexts().unpin(&id, find_turn(&state, &turn).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}
