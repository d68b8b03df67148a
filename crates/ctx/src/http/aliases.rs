//! Aliases: further labels of sessions.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::json::entity_json::Alias;

use super::Shared;
use super::extractors::{Json, Path, Query, page_limit};
use super::problem_details::{HttpResult, ProblemDetails};

/// An alias to add
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AliasBody {
    alias: String,
    /// The id, label or alias of the session
    session: String,
}

/// A page of aliases
#[derive(Serialize, ToSchema)]
pub(super) struct Aliases {
    aliases: Vec<Alias>,
    next_cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AliasQuery {
    /// Only the aliases of this session
    session: Option<String>,
    /// From `next_cursor` of the previous page
    cursor: Option<String>,
    limit: Option<usize>,
}

/// Add an alias of a session
#[utoipa::path(
    post, path = "/api/aliases", tag = "channels", request_body = AliasBody,
    responses(
        (status = 201, body = Alias),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn add(
    State(state): State<Shared>,
    Json(body): Json<AliasBody>,
) -> HttpResult<(StatusCode, Json<Alias>)> {
    let alias = state.engine.aliases().add(&body.alias, &body.session).await?;
    Ok((StatusCode::CREATED, Json(Alias::from(&alias))))
}

/// List aliases in the order of their names
#[utoipa::path(
    get, path = "/api/aliases", tag = "channels", params(AliasQuery),
    responses(
        (status = 200, body = Aliases),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<AliasQuery>,
) -> HttpResult<Json<Aliases>> {
    let limit = page_limit(query.limit)?;
    let (session, after) = (query.session.as_deref(), query.cursor.as_deref());
    let mut aliases = state.engine.aliases().list(session, after, limit + 1).await?;
    let more = aliases.len() > limit;
    aliases.truncate(limit);
    let next_cursor = aliases.last().filter(|_| more).map(|last| last.alias.clone());
    Ok(Json(Aliases { aliases: aliases.iter().map(Alias::from).collect(), next_cursor }))
}

/// Remove an alias. The session stays
#[utoipa::path(
    delete, path = "/api/aliases/{alias}", tag = "channels",
    params(("alias" = String, Path, description = "The alias")),
    responses(
        (status = 204),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(state): State<Shared>,
    Path(alias): Path<String>,
) -> HttpResult<StatusCode> {
    state.engine.aliases().remove(&alias).await?;
    Ok(StatusCode::NO_CONTENT)
}
