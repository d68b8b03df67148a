//! Usage: tokens, cost, messages, tool calls and time.

use axum::extract::State;
use ctx_engine::core::usage::{By, parse_since};
use ctx_engine::core::usage_query::{Sort, UsageQuery};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::json::usage_json::UsageDocument;

use super::Shared;
use super::extractors::{Json, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportQuery {
    /// What to sum by: day, model, project, session, provider or tool, or two of them such as
    /// `day,model`; default: day
    by: Option<String>,
    /// A day in UTC such as `2026-11-17`, or a duration before now such as `7d`; whole days count
    since: Option<String>,
    /// The last day, in the same form; whole days count
    until: Option<String>,
    /// Only turns of this provider
    provider: Option<String>,
    /// Only turns of this model
    model: Option<String>,
    /// Only sessions of this project
    project: Option<String>,
    /// Only turns that called this tool; calls of the tool are counted instead of tokens and cost
    tool: Option<String>,
    /// The order of rows that are not days: cost, tokens, duration, turns or tool_calls, largest
    /// first; default: cost
    sort: Option<String>,
}

/// Read what turns used
///
/// A turn counts once, also if several sessions share it. A cost that an agent or a provider
/// reported comes before the price of a model. A value that is unknown is null. By tool, a turn
/// counts once for each tool that it called.
#[utoipa::path(
    get, path = "/api/usage", tag = "usage",
    params(ReportQuery),
    responses(
        (status = 200, body = UsageDocument),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Query(query): Query<ReportQuery>,
) -> HttpResult<Json<UsageDocument>> {
    let query = parsed(query, &state)?;
    let report = state.engine.usage().report(&query).await?;
    Ok(Json(UsageDocument::new(&query, &report)))
}

fn parsed(given: ReportQuery, state: &Shared) -> HttpResult<UsageQuery> {
    let invalid = |why: String| Error::invalid("invalid_query", why);
    let time = |name: &str, text: Option<&str>| {
        let parse = |text: &str| {
            parse_since(text, state.engine.now()).ok_or_else(|| {
                let form = "must be a day such as 2026-11-17, or a duration such as 7d";
                invalid(format!("`{name}` {form}"))
            })
        };
        text.map(parse).transpose()
    };
    let sort = match given.sort.as_deref() {
        None => Sort::default(),
        Some(name) => Sort::named(name).ok_or_else(|| {
            invalid(format!("`sort` must be one of {}", Sort::ALL.map(Sort::name).join(", ")))
        })?,
    };
    let mut query = UsageQuery::default().with_keys(given.by.as_deref().unwrap_or(By::Day.name()));
    for (name, text) in [("since", given.since.as_deref()), ("until", given.until.as_deref())] {
        let Some(at) = time(name, text)? else { continue };
        query = query.map(|query| if name == "since" { query.since(at) } else { query.until(at) });
    }
    let query = query.map_err(invalid)?;
    let query = UsageQuery {
        provider: given.provider,
        model: given.model,
        project: given.project,
        tool: given.tool,
        sort,
        ..query
    };
    query.check().map_err(invalid)?;
    Ok(query)
}
