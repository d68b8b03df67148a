//! The schedules of the configuration.

use axum::extract::State;

use crate::json::schedule_json::Schedules;

use super::Shared;
use super::extractors::Json;
use super::problem_details::HttpResult;

/// List the schedules with their last and next ticks
#[utoipa::path(
    get, path = "/api/schedules", tag = "sources",
    responses((status = 200, body = Schedules))
)]
pub(super) async fn list(State(state): State<Shared>) -> HttpResult<Json<Schedules>> {
    Ok(Json(Schedules::from(state.engine.schedules().list().await?)))
}
