//! Commits: sealed tasks.

use axum::extract::State;
use ctx_engine::CommitQuery;
use ctx_engine::core::commit::{Commit, CommitType};
use ctx_engine::core::id::CommitId;
use ctx_engine::core::object::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::json::commit_json;

use super::extractors::{Json, Path, Query, page_limit};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, cursor};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CommitsQuery {
    project: Option<String>,
    /// Commit types, separated by commas
    #[serde(rename = "type")]
    types: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of commits
#[derive(Serialize, ToSchema)]
pub(super) struct Commits {
    #[schema(value_type = Vec<Object>)]
    commits: Vec<Value>,
    next_cursor: Option<String>,
}

/// List commits, newest first
#[utoipa::path(
    get, path = "/api/commits", tag = "commits",
    params(CommitsQuery),
    responses((status = 200, body = Commits))
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<CommitsQuery>,
) -> HttpResult<Json<Commits>> {
    let limit = page_limit(query.limit)?;
    let types: Vec<String> = query
        .types
        .iter()
        .flat_map(|types| types.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    if let Some(unknown) = types.iter().find(|name| !CommitType::NAMES.contains(&name.as_str())) {
        let detail = format!(
            "unknown commit type `{unknown}`: the types are {}",
            CommitType::NAMES.join(", ")
        );
        return Err(Error::invalid("invalid_query", detail));
    }
    let before = query.cursor.as_deref().map(cursor::to_object).transpose()?.map(CommitId);
    let commit_query = CommitQuery { project: query.project, types, before, limit: limit + 1 };
    let mut found = match state.engine.records().commits(&commit_query).await {
        Err(error) if before.is_some() && error.code() == "not_found" => {
            return Err(cursor::not_found());
        }
        found => found?,
    };
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|(id, _)| cursor::of_object(id.0));
    Ok(Json(Commits {
        commits: found.iter().map(|(id, commit)| commit_json::commit(*id, commit)).collect(),
        next_cursor,
    }))
}

/// Read a commit
#[utoipa::path(
    get, path = "/api/commits/{commit}", tag = "commits",
    params(("commit" = String, Path, description = "The commit's id")),
    responses(
        (status = 200, body = Object),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(commit): Path<String>,
) -> HttpResult<Json<Value>> {
    let id = state.engine.ids().commit(&commit).await?;
    let id = id.ok_or_else(|| Error::not_found("commit", &commit))?;
    Ok(Json(find(&state, id).await?))
}

/// The document of a commit.
pub(super) async fn find(state: &Shared, id: CommitId) -> HttpResult<Value> {
    let object = state
        .engine
        .records()
        .object(id.0)
        .await?
        .filter(|object| object.kind == Kind::Commit)
        .ok_or_else(|| Error::not_found("commit", &id.to_string()))?;
    let found: Commit = object.decode().map_err(|fault| super::damaged_object(id.0, &fault))?;
    Ok(commit_json::commit(id, &found))
}
