//! Liveness and readiness probes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::extractors::Json;
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// Status and version of the server
#[derive(Serialize, ToSchema)]
pub(super) struct Alive {
    status: &'static str,
    version: &'static str,
}

const ALIVE: Alive = Alive { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// How long the store may take to answer.
const READY_MAX: Duration = Duration::from_secs(2);

/// Check that the process is running
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = Alive)))]
pub(super) async fn alive() -> Json<Alive> {
    Json(ALIVE)
}

/// Check that the server is ready
///
/// The server is ready when crash recovery is complete, the store answers and may be written by
/// this version, and no shutdown has started.
#[utoipa::path(
    get, path = "/readyz", tag = "operation",
    responses(
        (status = 200, body = Alive),
        (status = 503, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn ready(State(state): State<Shared>) -> HttpResult<Json<Alive>> {
    let not_ready = |code, why: String| Error::new(StatusCode::SERVICE_UNAVAILABLE, code, why);
    if state.options.draining.is_cancelled() || state.shutdown.is_cancelled() {
        return Err(not_ready("shutting_down", "the server is shutting down".to_owned()));
    }
    if !state.ready.load(Ordering::Acquire) {
        return Err(not_ready("starting", "the server is recovering interrupted runs".to_owned()));
    }
    match tokio::time::timeout(READY_MAX, state.engine.maintenance().check_writer()).await {
        Ok(Ok(_)) => Ok(Json(ALIVE)),
        Ok(Err(error)) => Err(not_ready(error.code(), error.to_string())),
        Err(_) => Err(not_ready("unavailable", "the store does not answer".to_owned())),
    }
}
