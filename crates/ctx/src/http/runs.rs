//! Runs.

use axum::extract::State;

use crate::json::run_json::Run;

use super::Shared;
use super::extractors::{Json, Path};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// Read a run
#[utoipa::path(
    get, path = "/api/runs/{run}", tag = "runs",
    params(("run" = String, Path, description = "The run's id")),
    responses(
        (status = 200, body = Run),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(run): Path<String>,
) -> HttpResult<Json<Run>> {
    let id = state.engine.ids().run(&run).await?;
    let id = id.ok_or_else(|| Error::not_found("run", &run))?;
    let (found, session) = state.engine.runs().get(id).await?;
    Ok(Json(Run::of(&found, session.to_string())))
}
