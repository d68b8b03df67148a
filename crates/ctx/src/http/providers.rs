//! Who can answer.

use axum::extract::State;

use crate::shape::provider::Providers;

use super::Shared;
use super::error::Answer;
use super::extract::Json;

/// Who can answer, and what they can do.
#[utoipa::path(get, path = "/api/providers", tag = "providers", responses((status = 200, body = Providers)))]
pub(super) async fn list(State(state): State<Shared>) -> Answer<Json<Providers>> {
    Ok(Json(Providers::from(state.engine.providers())))
}
