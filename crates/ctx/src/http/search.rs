//! Full-text search over the messages of sessions and the records of tasks.

use axum::extract::State;
use ctx_engine::SearchRequest;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::json::object_json::search_page;

use super::extractors::{Json, Query, page_limit};
use super::problem_details::{HttpResult, ProblemDetails};
use super::{Shared, cursor};

/// Hexadecimal digits of a cursor.
const CURSOR_DIGITS: usize = 80;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// Words that must all occur, "phrases", prefix*, -not, /regular expressions/ and filters:
    /// project, session, role, tool, file, outcome, kind, after, before
    q: String,
    /// Only in the conversations of this entity, by id or name
    entity: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of search hits
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes the document")]
pub(super) struct Hits {
    /// Best first
    #[schema(value_type = Vec<Object>)]
    hits: Vec<Value>,
    next_cursor: Option<String>,
    /// Queries with corrected words, if nothing was found
    suggestions: Vec<String>,
    /// Rows that are stored and not indexed yet
    lag: u64,
}

/// Search messages and tasks, best hits first
#[utoipa::path(
    get, path = "/api/search", tag = "commits",
    params(SearchQuery),
    responses(
        (status = 200, body = Hits),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn search(
    State(state): State<Shared>,
    Query(query): Query<SearchQuery>,
) -> HttpResult<Json<Value>> {
    let entity = match &query.entity {
        Some(name) => Some(state.engine.entities().find(name).await?.id),
        None => None,
    };
    let limit = page_limit(query.limit)?;
    let request = SearchRequest { query: query.q, entity, cursor: query.cursor, limit };
    let page = match state.engine.records().search(&request).await {
        // The cursor is one of another query.
        Err(error) if error.code() == "invalid_cursor" && is_cursor(request.cursor.as_deref()) => {
            return Err(cursor::not_found());
        }
        page => page?,
    };
    Ok(Json(search_page(&page)))
}

/// Whether a text has the form of a search cursor.
fn is_cursor(text: Option<&str>) -> bool {
    let digits = text.and_then(|text| text.strip_prefix('f')).unwrap_or_default();
    digits.len() == CURSOR_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}
