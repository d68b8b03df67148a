//! The configured and discovered providers.

use axum::extract::State;

use crate::json::provider_json::Providers;

use super::Shared;
use super::extractors::Json;
use super::problem_details::HttpResult;

/// List the providers and their capabilities
#[utoipa::path(
    get, path = "/api/providers", tag = "providers",
    responses((status = 200, body = Providers))
)]
pub(super) async fn list(State(state): State<Shared>) -> HttpResult<Json<Providers>> {
    Ok(Json(Providers::from(&*state.engine.providers())))
}
