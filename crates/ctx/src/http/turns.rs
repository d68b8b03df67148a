//! Turns: the history of a session, the tree of turns, moves of the head, retry and rewind.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::Order;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::inbox::Overrides;
use ctx_engine::core::short_id::hash_beginning;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::json::diff_json::Diff;
use crate::json::message_json::Accepted;
use crate::json::session_json::Session;
use crate::json::turn_json::{HeadMove, TreeTurn, Turn};

use super::extractors::{Json, OptionalJson, Path, Query, page_limit};
use super::messages::{Direction, order_or};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, cursor};

const TREE_TURNS_MAX: usize = 10_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    pub(super) cursor: Option<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OrderedQuery {
    /// `desc` (default): newest first; `asc`: oldest first
    #[param(inline)]
    pub(super) order: Option<Direction>,
    pub(super) cursor: Option<String>,
    pub(super) limit: Option<usize>,
}

/// A page of turns
#[derive(Serialize, ToSchema)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    next_cursor: Option<String>,
}

/// List the turns between the root and the head
#[utoipa::path(
    get, path = "/api/sessions/{id}/turns", tag = "turns",
    params(("id" = String, Path, description = "Id, short id, label or alias"), OrderedQuery),
    responses(
        (status = 200, body = Turns),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<OrderedQuery>,
) -> HttpResult<Json<Turns>> {
    let limit = page_limit(query.limit)?;
    let order = order_or(query.order, Order::Desc);
    let from = query.cursor.as_deref().map(cursor::to_object).transpose()?.map(TurnId);
    let session = state.engine.sessions().get(&id).await?.session.id.to_string();
    let messages = state.engine.messages();
    let found = match messages.turns(&session, order, from, limit).await {
        Err(error) if from.is_some() && error.code() == "not_found" => {
            return Err(cursor::not_found());
        }
        found => found?,
    };
    let next = match found.last() {
        Some(last) => messages.next_page(&session, order, last).await?,
        None => None,
    };
    let next_cursor = next.map(|turn| cursor::of_object(turn.0));
    let pins = state.engine.contexts().pins(&session).await?;
    let turns =
        found.iter().map(|turn| Turn::of(turn, Some(session.clone())).with_pins(&pins)).collect();
    Ok(Json(Turns { turns, next_cursor }))
}

/// The turns of a tree, oldest first
#[derive(Serialize, ToSchema)]
pub(super) struct Tree {
    turns: Vec<TreeTurn>,
    next_cursor: Option<String>,
}

/// Read the tree that contains the session's turns
#[utoipa::path(
    get, path = "/api/sessions/{id}/tree", tag = "turns",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = Tree),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn tree(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Tree>> {
    let turns = state.engine.sessions().tree(&id, TREE_TURNS_MAX).await?;
    Ok(Json(Tree { turns: turns.iter().map(TreeTurn::from).collect(), next_cursor: None }))
}

/// Compare two branches
///
/// Returns the last common turn, and the later turns and written files of each branch. A page has
/// up to `limit` turns of each, oldest first.
#[utoipa::path(
    get, path = "/api/sessions/{id}/diff/{other}", tag = "turns",
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        ("other" = String, Path, description = "Id, short id, label or alias"),
        PageQuery,
    ),
    responses(
        (status = 200, body = Diff),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn diff(
    State(state): State<Shared>,
    Path((id, other)): Path<(String, String)>,
    Query(query): Query<PageQuery>,
) -> HttpResult<Json<Diff>> {
    let from = query.cursor.as_deref().map(|cursor| cursor::to_row('t', cursor)).transpose()?;
    let from = from.map(|depth| u64::try_from(depth).unwrap_or_default());
    let diff = state.engine.sessions().diff(&id, &other, from, page_limit(query.limit)?).await?;
    let next_cursor =
        diff.next.map(|depth| cursor::of_row('t', i64::try_from(depth).unwrap_or(i64::MAX)));
    Ok(Json(Diff::of(&diff, next_cursor)))
}

/// A page of moves of a session's head
#[derive(Serialize, ToSchema)]
pub(super) struct History {
    history: Vec<HeadMove>,
    next_cursor: Option<String>,
}

/// List the moves of the session's head, newest first
#[utoipa::path(
    get, path = "/api/sessions/{id}/history", tag = "turns",
    params(("id" = String, Path, description = "Id, short id, label or alias"), PageQuery),
    responses(
        (status = 200, body = History),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn history(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> HttpResult<Json<History>> {
    let limit = page_limit(query.limit)?;
    let before = query.cursor.as_deref().map(|cursor| cursor::to_row('h', cursor)).transpose()?;
    let mut moves = state.engine.sessions().head_moves(&id, before, limit + 1).await?;
    let more = moves.len() > limit;
    moves.truncate(limit);
    let next_cursor = moves.last().filter(|_| more).map(|last| cursor::of_row('h', last.row));
    Ok(Json(History { history: moves.iter().map(HeadMove::from).collect(), next_cursor }))
}

/// Provider and model of a retry; the session's own by default
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryBody {
    provider_id: Option<String>,
    model: Option<String>,
}

/// Run the last message again
#[utoipa::path(
    post, path = "/api/sessions/{id}/retry", tag = "turns", request_body = RetryBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 202, body = Accepted),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn retry(
    State(state): State<Shared>,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<RetryBody>,
) -> HttpResult<(StatusCode, Json<Accepted>)> {
    let overrides =
        Overrides { provider_id: body.provider_id, model: body.model, ..Overrides::default() };
    let sent = state.engine.runs().retry(&id, overrides).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted::from(&sent))))
}

/// The turn that becomes the head
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RewindBody {
    turn_id: String,
    /// Move forward to a turn that descends from the head: this undoes a rewind
    #[serde(default)]
    forward: bool,
}

/// Move the head back to an earlier turn, or with `forward` to a later one
///
/// The later turns stay in the tree.
#[utoipa::path(
    post, path = "/api/sessions/{id}/rewind", tag = "turns", request_body = RewindBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = Session),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn rewind(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<RewindBody>,
) -> HttpResult<Json<Session>> {
    let turn = given_turn(&state, &body.turn_id).await?;
    let sessions = state.engine.sessions();
    let moved = if body.forward {
        sessions.undo_rewind(&id, turn).await?
    } else {
        sessions.rewind(&id, turn).await?
    };
    Ok(Json(Session::from(&moved)))
}

/// The turn of a path.
pub(super) async fn find_turn(state: &Shared, text: &str) -> HttpResult<TurnId> {
    let found = state.engine.ids().turn(text).await?;
    found.ok_or_else(|| Error::not_found("turn", text))
}

/// The turn of a body: a text that cannot be an id is an invalid body.
pub(super) async fn given_turn(state: &Shared, text: &str) -> HttpResult<TurnId> {
    if hash_beginning(text).is_none() {
        let detail = "invalid `turn_id`: expected 64 hex digits, or the first of them (4 or more)";
        return Err(Error::invalid("invalid_body", detail));
    }
    find_turn(state, text).await
}

/// Read a turn with its messages
#[utoipa::path(
    get, path = "/api/turns/{turn}", tag = "turns",
    params(("turn" = String, Path, description = "The turn's id")),
    responses(
        (status = 200, body = Turn),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(turn): Path<String>,
) -> HttpResult<Json<Turn>> {
    let id = find_turn(&state, &turn).await?;
    Ok(Json(Turn::of(&state.engine.messages().turn(id).await?, None)))
}
