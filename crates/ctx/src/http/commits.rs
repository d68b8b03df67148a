//! Sealed work, and everything that was said.

use axum::extract::State;
use ctx_engine::CommitQuery;
use ctx_engine::core::commit::{Commit, CommitType};
use ctx_engine::core::id::CommitId;
use ctx_engine::core::object::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::shape;

use super::error::{Answer, Document, Error};
use super::extract::{Json, Path, Query, page_limit};
use super::{Shared, cursor};

/// Which commits.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CommitsQuery {
    project: Option<String>,
    /// Types with commas between.
    #[serde(rename = "type")]
    types: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of commits.
#[derive(Serialize, ToSchema)]
pub(super) struct Commits {
    #[schema(value_type = Vec<Object>)]
    commits: Vec<Value>,
    next_cursor: Option<String>,
}

/// Sealed work, newest first.
#[utoipa::path(get, path = "/api/commits", tag = "commits", params(CommitsQuery), responses((status = 200, body = Commits)))]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<CommitsQuery>,
) -> Answer<Json<Commits>> {
    let limit = page_limit(query.limit)?;
    let types: Vec<String> = query
        .types
        .iter()
        .flat_map(|types| types.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    if let Some(unknown) = types.iter().find(|name| !CommitType::NAMES.contains(&name.as_str())) {
        let told = format!(
            "`{unknown}` is no type of commit; the types are {}",
            CommitType::NAMES.join(", ")
        );
        return Err(Error::invalid("invalid_query", told));
    }
    let before = query.cursor.as_deref().map(cursor::to_object).transpose()?.map(CommitId);
    let wanted = CommitQuery { project: query.project, types, before, limit: limit + 1 };
    let mut found = match state.engine.records().commits(&wanted).await {
        Err(error) if before.is_some() && error.code() == "not_found" => return Err(cursor::gone()),
        found => found?,
    };
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|(id, _)| cursor::of_object(id.0));
    Ok(Json(Commits {
        commits: found.iter().map(|(id, commit)| shape::commit(*id, commit)).collect(),
        next_cursor,
    }))
}

/// One commit.
#[utoipa::path(get, path = "/api/commits/{commit}", tag = "commits", params(("commit" = String, Path, description = "The commit's id")),
    responses((status = 200, body = Object), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(commit): Path<String>,
) -> Answer<Json<Value>> {
    let missing = || Error::not_found("commit", &commit);
    let id: CommitId = commit.parse().map_err(|_| missing())?;
    let object = state
        .engine
        .records()
        .object(id.0)
        .await?
        .filter(|object| object.kind == Kind::Commit)
        .ok_or_else(missing)?;
    let found: Commit = object.decode().map_err(|fault| super::damaged(id.0, &fault))?;
    Ok(Json(shape::commit(id, &found)))
}

/// What to look for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// All of these words; `word*` finds beginnings.
    q: String,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// What was found.
#[derive(Serialize, ToSchema)]
pub(super) struct Hits {
    #[schema(value_type = Vec<Object>)]
    hits: Vec<Value>,
    next_cursor: Option<String>,
}

/// Finds what was said, newest first.
#[utoipa::path(get, path = "/api/search", tag = "commits", params(SearchQuery), responses((status = 200, body = Hits)))]
pub(super) async fn search(
    State(state): State<Shared>,
    Query(query): Query<SearchQuery>,
) -> Answer<Json<Hits>> {
    let from = query.cursor.as_deref().map(cursor::to_search).transpose()?;
    let page = state.engine.records().search_from(&query.q, from, page_limit(query.limit)?).await?;
    Ok(Json(Hits {
        hits: page.hits.iter().map(shape::hit).collect(),
        next_cursor: page.next.map(cursor::of_search),
    }))
}
