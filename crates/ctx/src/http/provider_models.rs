//! The models of one provider, as its server lists them.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::extractors::{Json, Path};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// The models of a provider
#[derive(Serialize, ToSchema)]
pub(super) struct ProviderModels {
    /// Names of models, the configured one first
    models: Vec<String>,
    /// The default model
    model: Option<String>,
}

/// List the models that a provider offers
///
/// A model server is asked once and within five seconds. If it does not answer, the models that are
/// known without it are returned.
#[utoipa::path(
    get, path = "/api/providers/{id}/models", tag = "providers",
    params(("id" = String, Path, description = "The provider's id")),
    responses(
        (status = 200, body = ProviderModels),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<ProviderModels>> {
    let found = state.engine.providers().all.get(&id).cloned();
    let provider = found.ok_or_else(|| Error::not_found("provider", &id))?;
    let models = provider.models().await;
    Ok(Json(ProviderModels { models, model: provider.about().model }))
}
