//! Turns: the line to the head, the tree around it, the moves of the head, and going back.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::inbox::Overrides;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::shape::diff::Diff;
use crate::shape::talk::{Accepted, HeadMove, Session, TreeTurn, Turn};

use super::error::{Answer, Document, Error};
use super::extract::{Json, Maybe, Path, Query, page_limit};
use super::{Shared, cursor};

/// The most turns of a tree.
const TREE_MAX: usize = 10_000;

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    pub(super) cursor: Option<String>,
    pub(super) limit: Option<usize>,
}

/// A page of turns.
#[derive(Serialize, ToSchema)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    next_cursor: Option<String>,
}

/// The turns that lead to the head, newest first.
#[utoipa::path(get, path = "/api/sessions/{id}/turns", tag = "turns",
    params(("id" = String, Path, description = "Id, label or alias"), PageQuery),
    responses((status = 200, body = Turns), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Turns>> {
    let limit = page_limit(query.limit)?;
    let from = query.cursor.as_deref().map(cursor::to_object).transpose()?.map(TurnId);
    let session = state.engine.sessions().get(&id).await?.session.id.to_string();
    let mut found = match state.engine.messages().turns(&session, from, limit + 1).await {
        Err(error) if from.is_some() && error.code() == "not_found" => return Err(cursor::gone()),
        found => found?,
    };
    // One more than is shown is where the next page begins.
    let next_cursor = found.get(limit).map(|turn| cursor::of_object(turn.id.0));
    found.truncate(limit);
    let pins = state.engine.contexts().pins(&session).await?;
    let turns =
        found.iter().map(|turn| Turn::of(turn, Some(session.clone())).pinned_by(&pins)).collect();
    Ok(Json(Turns { turns, next_cursor }))
}

/// The turns of a tree.
#[derive(Serialize, ToSchema)]
pub(super) struct Tree {
    turns: Vec<TreeTurn>,
    next_cursor: Option<String>,
}

/// The tree that the session's turns are in, oldest first.
#[utoipa::path(get, path = "/api/sessions/{id}/tree", tag = "turns", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = Tree), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn tree(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Tree>> {
    let turns = state.engine.sessions().tree(&id, TREE_MAX).await?;
    Ok(Json(Tree { turns: turns.iter().map(TreeTurn::from).collect(), next_cursor: None }))
}

/// Where two branches part, and what each said and changed after it: turns oldest first, `limit` of each on a page.
#[utoipa::path(get, path = "/api/sessions/{id}/diff/{other}", tag = "turns",
    params(("id" = String, Path, description = "Id, label or alias"), ("other" = String, Path, description = "Id, label or alias"), PageQuery),
    responses((status = 200, body = Diff), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn diff(
    State(state): State<Shared>,
    Path((id, other)): Path<(String, String)>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Diff>> {
    let from = query.cursor.as_deref().map(|cursor| cursor::to_row('t', cursor)).transpose()?;
    let from = from.map(|depth| u64::try_from(depth).unwrap_or_default());
    let diff = state.engine.sessions().diff(&id, &other, from, page_limit(query.limit)?).await?;
    let next_cursor =
        diff.next.map(|depth| cursor::of_row('t', i64::try_from(depth).unwrap_or(i64::MAX)));
    Ok(Json(Diff::of(&diff, next_cursor)))
}

/// The moves of a head.
#[derive(Serialize, ToSchema)]
pub(super) struct History {
    history: Vec<HeadMove>,
    next_cursor: Option<String>,
}

/// The moves of the session's head, newest first.
#[utoipa::path(get, path = "/api/sessions/{id}/history", tag = "turns",
    params(("id" = String, Path, description = "Id, label or alias"), PageQuery),
    responses((status = 200, body = History), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn history(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<History>> {
    let limit = page_limit(query.limit)?;
    let before = query.cursor.as_deref().map(|cursor| cursor::to_row('h', cursor)).transpose()?;
    let mut moves = state.engine.sessions().head_moves(&id, before, limit + 1).await?;
    let more = moves.len() > limit;
    moves.truncate(limit);
    let next_cursor = moves.last().filter(|_| more).map(|last| cursor::of_row('h', last.row));
    Ok(Json(History { history: moves.iter().map(HeadMove::from).collect(), next_cursor }))
}

/// Where to run again.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryBody {
    provider_id: Option<String>,
    model: Option<String>,
}

/// Runs the last message again, perhaps elsewhere.
#[utoipa::path(post, path = "/api/sessions/{id}/retry", tag = "turns", request_body = RetryBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 202, body = Accepted), (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn retry(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Maybe(body): Maybe<RetryBody>,
) -> Answer<(StatusCode, Json<Accepted>)> {
    let overrides =
        Overrides { provider_id: body.provider_id, model: body.model, ..Overrides::default() };
    let sent = state.engine.runs().retry(&id, overrides).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted::from(&sent))))
}

/// Where to go back to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RewindBody {
    #[schema(value_type = String)]
    turn_id: TurnId,
}

/// Moves the head back; the later turns stay reachable in the tree.
#[utoipa::path(post, path = "/api/sessions/{id}/rewind", tag = "turns", request_body = RewindBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = Session), (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn rewind(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<RewindBody>,
) -> Answer<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().rewind(&id, body.turn_id).await?)))
}

/// One turn with its messages.
#[utoipa::path(get, path = "/api/turns/{turn}", tag = "turns", params(("turn" = String, Path, description = "The turn's id")),
    responses((status = 200, body = Turn), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(turn): Path<String>,
) -> Answer<Json<Turn>> {
    let id: TurnId = turn.parse().map_err(|_| Error::not_found("turn", &turn))?;
    Ok(Json(Turn::of(&state.engine.messages().turn(id).await?, None)))
}
