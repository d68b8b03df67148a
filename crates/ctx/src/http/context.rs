//! The context window: have it made shorter, and keep turns in it.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::pin::Pin as Row;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::talk::Accepted;

use super::Shared;
use super::error::{Answer, Document, Error};
use super::extract::{Json, Maybe, Path};

/// What a summary should keep.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactBody {
    /// What it is to look at above all.
    focus: Option<String>,
}

/// Has earlier turns summarised, now or when what runs is done; nothing is deleted.
#[utoipa::path(post, path = "/api/sessions/{id}/compact", tag = "sessions", request_body = CompactBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 202, body = Accepted), (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn compact(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Maybe(body): Maybe<CompactBody>,
) -> Answer<(StatusCode, Json<Accepted>)> {
    let sent = state.engine.contexts().compact(&id, body.focus.as_deref()).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted::from(&sent))))
}

/// A turn that every request has.
#[derive(Serialize, ToSchema)]
pub(super) struct Pin {
    turn: String,
    depth: u64,
    tokens: u64,
    pinned_at: String,
}

/// All of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct Pins {
    pins: Vec<Pin>,
}

impl From<Vec<Row>> for Pins {
    fn from(rows: Vec<Row>) -> Self {
        let one = |row: &Row| Pin {
            turn: row.turn.to_string(),
            depth: row.depth,
            tokens: row.tokens,
            pinned_at: row.at.to_string(),
        };
        Self { pins: rows.iter().map(one).collect() }
    }
}

fn turn_of(turn: &str) -> Answer<TurnId> {
    turn.parse().map_err(|_| Error::not_found("turn", turn))
}

/// The pinned turns, oldest first.
#[utoipa::path(get, path = "/api/sessions/{id}/pins", tag = "turns", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = Pins), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn pins(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Pins>> {
    Ok(Json(state.engine.contexts().pins(&id).await?.into()))
}

/// Pins a turn that leads to the head: every later request has its words, whatever is summarised around it.
#[utoipa::path(post, path = "/api/sessions/{id}/pins/{turn}", tag = "turns",
    params(("id" = String, Path, description = "Id, label or alias"), ("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, body = Pins), (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn pin(
    State(state): State<Shared>,
    Path((id, turn)): Path<(String, String)>,
) -> Answer<Json<Pins>> {
    Ok(Json(state.engine.contexts().pin(&id, turn_of(&turn)?).await?.into()))
}

/// Lets a pinned turn go.
#[utoipa::path(delete, path = "/api/sessions/{id}/pins/{turn}", tag = "turns",
    params(("id" = String, Path, description = "Id, label or alias"), ("turn" = String, Path, description = "The turn's id")),
    responses((status = 204), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn unpin(
    State(state): State<Shared>,
    Path((id, turn)): Path<(String, String)>,
) -> Answer<StatusCode> {
    state.engine.contexts().unpin(&id, turn_of(&turn)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
