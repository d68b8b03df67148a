//! Usage: tokens, cost, messages, tool calls and time.

use axum::extract::State;
use ctx_engine::core::usage::{By, parse_since};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::json::usage_json::UsageDocument;

use super::Shared;
use super::extractors::{Json, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageQuery {
    /// What to sum by; default: day
    by: Option<String>,
    /// A day in UTC such as `2026-11-17`, or a duration before now such as `7d`; whole days count
    since: Option<String>,
}

/// Read what turns used
///
/// A turn counts once, also if several sessions share it. A cost that an agent or a provider
/// reported comes before the price of a model. A value that is unknown is null.
#[utoipa::path(
    get, path = "/api/usage", tag = "usage",
    params(UsageQuery),
    responses(
        (status = 200, body = UsageDocument),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Query(query): Query<UsageQuery>,
) -> HttpResult<Json<UsageDocument>> {
    let by = match query.by.as_deref() {
        None => By::default(),
        Some(name) => By::named(name).ok_or_else(|| {
            let names = By::ALL.map(By::name).join(", ");
            Error::invalid("invalid_query", format!("`by` must be one of {names}"))
        })?,
    };
    let since = match query.since.as_deref() {
        None => None,
        Some(text) => Some(parse_since(text, state.engine.now()).ok_or_else(|| {
            let why = "`since` must be a day such as 2026-11-17, or a duration such as 7d";
            Error::invalid("invalid_query", why)
        })?),
    };
    let report = state.engine.usage().report(by, since).await?;
    Ok(Json(UsageDocument::new(by, &report)))
}
