//! Sessions: create, list, read, update, archive, cancel, fork, delete.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use ctx_engine::core::decide::Patch;
use ctx_engine::core::session::{Delivery, Status};
use ctx_engine::{Branch, NewSession, SessionQuery};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::json::message_json::Accepted;
use crate::json::session_json::Session;

use super::extractors::{
    IdempotentJson, Json, OptionalJson, Path, Query, page_limit, preferred_wait, present,
};
use super::messages::{FirstMessage, wait_until_settled};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::turns::given_turn;
use super::{Shared, cursor, working_dir};

/// A new session, optionally with its first message
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBody {
    label: Option<String>,
    title: Option<String>,
    project: Option<String>,
    working_dir: Option<String>,
    persona: Option<String>,
    provider_id: Option<String>,
    model: Option<String>,
    track_tasks: Option<bool>,
    message: Option<FirstMessage>,
}

/// The created session, and the response to its first message if one was sent
#[derive(Serialize, ToSchema)]
pub(super) struct Created {
    #[serde(flatten)]
    session: Session,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Accepted>,
}

/// Create a session
///
/// No provider starts unless a message is sent along. A request with an `Idempotency-Key` that was
/// used before gets the first response again.
#[utoipa::path(
    post, path = "/api/sessions", tag = "sessions", request_body = NewBody,
    responses(
        (status = 201, body = Created),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(state): State<Shared>,
    headers: HeaderMap,
    IdempotentJson { body, key }: IdempotentJson<NewBody>,
) -> HttpResult<(StatusCode, HeaderMap, Json<Created>)> {
    let working_dir =
        body.working_dir.map(|dir| working_dir::resolve(&state.options.roots, &dir)).transpose()?;
    let new = NewSession {
        label: body.label,
        title: body.title,
        project: body.project,
        working_dir,
        persona: body.persona,
        provider_id: body.provider_id,
        model: body.model,
        track_tasks: body.track_tasks,
        ..NewSession::default()
    };
    let Some(first) = body.message.map(FirstMessage::outgoing).transpose()? else {
        let info = state.engine.sessions().create_empty(new, key).await?;
        let headers = location(&info.session.id.to_string());
        let created = Created { session: Session::from(&info), message: None };
        return Ok((StatusCode::CREATED, headers, Json(created)));
    };
    let (id, sent) = state.engine.sessions().create(new, Some(first), key).await?;
    let mut message = sent.as_ref().map(Accepted::from);
    if let (Some(_), Some(wait)) = (&message, preferred_wait(&headers))
        && let Some(now) = wait_until_settled(&state, id, wait).await
    {
        message = message.map(|accepted| accepted.with_state(now));
    }
    let session = Session::from(&state.engine.sessions().get(&id.to_string()).await?);
    Ok((StatusCode::CREATED, location(&id.to_string()), Json(Created { session, message })))
}

fn location(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&format!("/api/sessions/{id}")) {
        headers.insert(LOCATION, value);
    }
    headers
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Comma-separated: `active`, `suspended` (interrupted by a restart), `archived`, `error`; or
    /// `all`. Default: `active,suspended`
    status: Option<String>,
    project: Option<String>,
    /// Text that label, title or project must contain
    q: Option<String>,
    /// Only sessions that wait for a person
    waiting: Option<bool>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// Number of sessions that the default list hides
#[derive(Serialize, ToSchema)]
pub(super) struct Hidden {
    archived: u64,
    error: u64,
}

/// A page of sessions
#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<Session>,
    next_cursor: Option<String>,
    hidden: Hidden,
}

/// List sessions by last activity, newest first
#[utoipa::path(
    get, path = "/api/sessions", tag = "sessions",
    params(ListQuery),
    responses((status = 200, body = Sessions))
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<ListQuery>,
) -> HttpResult<Json<Sessions>> {
    let limit = page_limit(query.limit)?;
    let statuses = statuses(query.status.as_deref())?;
    let after = query.cursor.as_deref().map(cursor::to_session).transpose()?;
    let session_query = SessionQuery {
        statuses,
        project: query.project,
        words: query.q.filter(|words| !words.is_empty()),
        waiting: query.waiting.unwrap_or(false),
        parent: None,
        working_dir: None,
        after,
        // The extra session shows whether there is another page.
        limit: limit + 1,
    };
    let (mut found, hidden) = state.engine.sessions().list(&session_query).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found
        .last()
        .filter(|_| more)
        .map(|info| cursor::of_session(info.session.last_activity_at, info.session.id));
    Ok(Json(Sessions {
        sessions: found.iter().map(Session::from).collect(),
        next_cursor: last,
        hidden: Hidden { archived: hidden.archived, error: hidden.error },
    }))
}

fn statuses(given: Option<&str>) -> HttpResult<Vec<Status>> {
    let one = |name: &str| match name.trim() {
        "active" => Ok(Status::Active),
        "suspended" => Ok(Status::Suspended),
        "archived" => Ok(Status::Archived),
        "error" => Ok(Status::Error),
        other => Err(Error::invalid(
            "invalid_query",
            format!("unknown status `{other}`: use active, suspended, archived, error or all"),
        )),
    };
    match given {
        None => Ok(vec![Status::Active, Status::Suspended]),
        Some("all") => Ok(Vec::new()),
        Some(names) => names.split(',').map(one).collect(),
    }
}

/// Read a session
#[utoipa::path(
    get, path = "/api/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = Session),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().get(&id).await?)))
}

/// Changes of a session: an absent field stays as it is, null resets it
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchBody {
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    provider_id: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    model: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    persona: Option<Option<String>>,
    /// `open`: deliver messages; `hold`: let them wait; `refuse`: reject them
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    delivery: Option<Option<Delivery>>,
    #[serde(default, deserialize_with = "present")]
    track_tasks: Option<bool>,
    /// Options of the agent; a null value removes one option, null removes all
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    options: Option<Option<BTreeMap<String, Option<String>>>>,
}

/// Update a session
#[utoipa::path(
    patch, path = "/api/sessions/{id}", tag = "sessions", request_body = PatchBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = Session),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn update(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<PatchBody>,
) -> HttpResult<Json<Session>> {
    let patch = Patch {
        title: body.title,
        persona: body.persona,
        provider_id: body.provider_id,
        model: body.model,
        delivery: body.delivery.map(Option::unwrap_or_default),
        track_tasks: body.track_tasks,
        options: body.options,
        working_dir: None,
    };
    Ok(Json(Session::from(&state.engine.sessions().update(&id, patch).await?)))
}

/// Delete a session permanently
///
/// Removes the session and its history in any state. This cannot be undone.
#[utoipa::path(
    delete, path = "/api/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 204),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<StatusCode> {
    state.engine.sessions().delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Archive a session
///
/// An open run is cancelled first. The history stays readable, and a new message restores the
/// session.
#[utoipa::path(
    post, path = "/api/sessions/{id}/archive", tag = "sessions",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses((status = 200, body = Session))
)]
pub(super) async fn archive(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().archive(&id).await?)))
}

/// Restore an archived session
#[utoipa::path(
    post, path = "/api/sessions/{id}/unarchive", tag = "sessions",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses((status = 200, body = Session))
)]
pub(super) async fn unarchive(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().unarchive(&id).await?)))
}

/// Options of a cancellation
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    /// Also cancel the runs of the session's workers
    #[serde(default)]
    workers: bool,
}

/// Cancel the run or release the suspension
///
/// The session is idle afterwards.
#[utoipa::path(
    post, path = "/api/sessions/{id}/cancel", tag = "sessions", request_body = CancelBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses((status = 200, body = Session))
)]
pub(super) async fn cancel(
    State(state): State<Shared>,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<CancelBody>,
) -> HttpResult<Json<Session>> {
    let info = if body.workers {
        state.engine.runs().cancel_with_workers(&id).await?
    } else {
        state.engine.runs().cancel(&id).await?
    };
    Ok(Json(Session::from(&info)))
}

/// Options of a fork
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkBody {
    /// The last shared turn; the head by default
    turn_id: Option<String>,
    label: Option<String>,
    /// The working directory of the fork; that of the session by default
    working_dir: Option<String>,
    /// Fork before the newest compaction, so that the context is not summarized. Excludes `turn_id`
    #[serde(default)]
    before_compaction: bool,
}

/// The created fork
#[derive(Serialize, ToSchema)]
pub(super) struct Forked {
    #[serde(flatten)]
    session: Session,
    /// `shared` if the fork has the same working directory, else `separate`
    workspace: &'static str,
}

/// Fork a session
///
/// Creates a session that shares all turns up to `turn_id` with this one.
#[utoipa::path(
    post, path = "/api/sessions/{id}/fork", tag = "sessions", request_body = ForkBody,
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 201, body = Forked),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn fork(
    State(state): State<Shared>,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<ForkBody>,
) -> HttpResult<(StatusCode, HeaderMap, Json<Forked>)> {
    let working_dir =
        body.working_dir.map(|dir| working_dir::resolve(&state.options.roots, &dir)).transpose()?;
    let before = state.engine.sessions().get(&id).await?.session.working_dir;
    let workspace =
        if working_dir.is_none() || working_dir == before { "shared" } else { "separate" };
    let turn = match (body.turn_id, body.before_compaction) {
        (Some(_), true) => {
            return Err(Error::invalid(
                "invalid_body",
                "the body has both `turn_id` and `before_compaction`: send only one",
            ));
        }
        (None, true) => state.engine.contexts().newest_compaction(&id).await?.0.header.parent,
        (Some(turn), false) => Some(given_turn(&state, &turn).await?),
        (None, false) => None,
    };
    let branch = Branch { turn, label: body.label, title: None, working_dir };
    let made = state.engine.sessions().branch(&id, branch).await?.to_string();
    let session = Session::from(&state.engine.sessions().get(&made).await?);
    Ok((StatusCode::CREATED, location(&made), Json(Forked { session, workspace })))
}
