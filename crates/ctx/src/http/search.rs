//! Full-text search over turns, steps and commits.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::json::object_json::search_hit;

use super::extractors::{Json, Query, page_limit};
use super::problem_details::{HttpResult, ProblemDetails};
use super::{Shared, cursor};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// Words that must all occur; `word*` matches any word with this prefix
    q: String,
    /// Only in the conversations of this entity, by id or name
    entity: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of search hits
#[derive(Serialize, ToSchema)]
pub(super) struct Hits {
    #[schema(value_type = Vec<Object>)]
    hits: Vec<Value>,
    next_cursor: Option<String>,
}

/// Search messages, steps and commits, newest first
#[utoipa::path(
    get, path = "/api/search", tag = "commits",
    params(SearchQuery),
    responses(
        (status = 200, body = Hits),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn search(
    State(state): State<Shared>,
    Query(query): Query<SearchQuery>,
) -> HttpResult<Json<Hits>> {
    let from = query.cursor.as_deref().map(cursor::to_search).transpose()?;
    let (records, limit) = (state.engine.records(), page_limit(query.limit)?);
    let page = match &query.entity {
        Some(name) => {
            let entity = state.engine.entities().find(name).await?;
            records.search_entity(entity.id, &query.q, from, limit).await?
        }
        None => records.search_from(&query.q, from, limit).await?,
    };
    Ok(Json(Hits {
        hits: page.hits.iter().map(search_hit).collect(),
        next_cursor: page.next.map(cursor::of_search),
    }))
}
