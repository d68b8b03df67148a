//! Sessions: make, list, read, change, put away, fork, delete.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use ctx_engine::core::decide::Patch;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::session::{Delivery, Status};
use ctx_engine::{Branch, NewSession, SessionQuery};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::shape::talk::{Accepted, Session};

use super::error::{Answer, Document, Error};
use super::extract::{Json, Maybe, Once, Path, Query, given, page_limit, preferred_wait};
use super::messages::{FirstMessage, waited};
use super::{Shared, cursor, roots};

/// A session that is to be made; with a message it is made and spoken to in one.
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

/// A new session, and what became of its first message.
#[derive(Serialize, ToSchema)]
pub(super) struct Created {
    #[serde(flatten)]
    session: Session,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Accepted>,
}

/// Makes a session; no provider is started unless a message comes with it. With an `Idempotency-Key` that came before: the first answer again.
#[utoipa::path(post, path = "/api/sessions", tag = "sessions", request_body = NewBody,
    responses((status = 201, body = Created), (status = 409, body = Document, content_type = "application/problem+json"),
              (status = 422, body = Document, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(state): State<Shared>,
    headers: HeaderMap,
    Once { body, key }: Once<NewBody>,
) -> Answer<(StatusCode, HeaderMap, Json<Created>)> {
    let working_dir =
        body.working_dir.map(|dir| roots::allowed(&state.options.roots, &dir)).transpose()?;
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
    let first = body.message.map(FirstMessage::outgoing).transpose()?;
    let (id, sent) = state.engine.sessions().create(new, first, key).await?;
    let mut message = sent.as_ref().map(Accepted::from);
    if let (Some(_), Some(wait)) = (&message, preferred_wait(&headers))
        && let Some(now) = waited(&state, id, wait).await
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

/// Which sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Of `active`, `suspended`, `archived`, `error`, with commas between, or `all`; `active,suspended` if none.
    status: Option<String>,
    project: Option<String>,
    /// Words in label, title or project.
    q: Option<String>,
    /// Only those that need a human.
    waiting: Option<bool>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// How many sessions there are besides.
#[derive(Serialize, ToSchema)]
pub(super) struct Hidden {
    archived: u64,
    error: u64,
}

/// A page of sessions.
#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<Session>,
    next_cursor: Option<String>,
    hidden: Hidden,
}

/// Lists sessions, those with the newest activity first.
#[utoipa::path(get, path = "/api/sessions", tag = "sessions", params(ListQuery), responses((status = 200, body = Sessions)))]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<ListQuery>,
) -> Answer<Json<Sessions>> {
    let limit = page_limit(query.limit)?;
    let statuses = statuses(query.status.as_deref())?;
    let after = query.cursor.as_deref().map(cursor::to_session).transpose()?;
    let wanted = SessionQuery {
        statuses,
        project: query.project,
        words: query.q.filter(|words| !words.is_empty()),
        waiting: query.waiting.unwrap_or(false),
        parent: None,
        after,
        // One more than is shown says whether there is another page.
        limit: limit + 1,
    };
    let mut found = state.engine.sessions().list(&wanted).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found
        .last()
        .filter(|_| more)
        .map(|info| cursor::of_session(info.session.last_activity_at, info.session.id));
    let hidden = state.engine.sessions().hidden().await?;
    Ok(Json(Sessions {
        sessions: found.iter().map(Session::from).collect(),
        next_cursor: last,
        hidden: Hidden { archived: hidden.archived, error: hidden.error },
    }))
}

fn statuses(given: Option<&str>) -> Answer<Vec<Status>> {
    let one = |name: &str| match name.trim() {
        "active" => Ok(Status::Active),
        "suspended" => Ok(Status::Suspended),
        "archived" => Ok(Status::Archived),
        "error" => Ok(Status::Error),
        other => Err(Error::invalid(
            "invalid_query",
            format!(
                "`{other}` is no status; a status is one of active, suspended, archived, error, or all"
            ),
        )),
    };
    match given {
        None => Ok(vec![Status::Active, Status::Suspended]),
        Some("all") => Ok(Vec::new()),
        Some(names) => names.split(',').map(one).collect(),
    }
}

/// Reads a session.
#[utoipa::path(get, path = "/api/sessions/{id}", tag = "sessions", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = Session), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().get(&id).await?)))
}

/// What is to change; what is absent stays, null clears.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchBody {
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    provider_id: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    model: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    persona: Option<Option<String>>,
    /// `open`, `hold` or `refuse`
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    delivery: Option<Option<Delivery>>,
    #[serde(default, deserialize_with = "given")]
    track_tasks: Option<bool>,
    /// An option that is null is removed; null removes all.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    options: Option<Option<BTreeMap<String, Option<String>>>>,
}

/// Changes what a session prefers.
#[utoipa::path(patch, path = "/api/sessions/{id}", tag = "sessions", request_body = PatchBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = Session), (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 422, body = Document, content_type = "application/problem+json")))]
pub(super) async fn update(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<PatchBody>,
) -> Answer<Json<Session>> {
    let patch = Patch {
        title: body.title,
        persona: body.persona,
        provider_id: body.provider_id,
        model: body.model,
        delivery: body.delivery.map(Option::unwrap_or_default),
        track_tasks: body.track_tasks,
        options: body.options,
    };
    Ok(Json(Session::from(&state.engine.sessions().update(&id, patch).await?)))
}

/// Deletes a session and its history for good, from any state.
#[utoipa::path(delete, path = "/api/sessions/{id}", tag = "sessions", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 204), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn delete(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    state.engine.sessions().delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Puts a session away; its history stays readable.
#[utoipa::path(post, path = "/api/sessions/{id}/archive", tag = "sessions",
    params(("id" = String, Path, description = "Id, label or alias")), responses((status = 200, body = Session)))]
pub(super) async fn archive(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().archive(&id).await?)))
}

/// Takes a session out again.
#[utoipa::path(post, path = "/api/sessions/{id}/unarchive", tag = "sessions",
    params(("id" = String, Path, description = "Id, label or alias")), responses((status = 200, body = Session)))]
pub(super) async fn unarchive(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Session>> {
    Ok(Json(Session::from(&state.engine.sessions().unarchive(&id).await?)))
}

/// What else is to end.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    /// What the session's workers do, too.
    #[serde(default)]
    workers: bool,
}

/// Cancels the run or releases what is awaited; the session is idle then.
#[utoipa::path(post, path = "/api/sessions/{id}/cancel", tag = "sessions", request_body = CancelBody,
    params(("id" = String, Path, description = "Id, label or alias")), responses((status = 200, body = Session)))]
pub(super) async fn cancel(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Maybe(body): Maybe<CancelBody>,
) -> Answer<Json<Session>> {
    let info = if body.workers {
        state.engine.runs().cancel_with_workers(&id).await?
    } else {
        state.engine.runs().cancel(&id).await?
    };
    Ok(Json(Session::from(&info)))
}

/// Where a fork goes its own way.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkBody {
    /// The head if none.
    #[schema(value_type = Option<String>)]
    turn_id: Option<TurnId>,
    label: Option<String>,
    /// Another directory than the session's own.
    working_dir: Option<String>,
    /// Before the newest compaction: the context is whole again. Not together with `turn_id`.
    #[serde(default)]
    before_compaction: bool,
}

/// A fork, and whether it works on the same files.
#[derive(Serialize, ToSchema)]
pub(super) struct Forked {
    #[serde(flatten)]
    session: Session,
    /// `shared` or `separate`
    workspace: &'static str,
}

/// Makes a session that shares everything up to a turn.
#[utoipa::path(post, path = "/api/sessions/{id}/fork", tag = "sessions", request_body = ForkBody,
    params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 201, body = Forked), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn fork(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Maybe(body): Maybe<ForkBody>,
) -> Answer<(StatusCode, HeaderMap, Json<Forked>)> {
    let working_dir =
        body.working_dir.map(|dir| roots::allowed(&state.options.roots, &dir)).transpose()?;
    let before = state.engine.sessions().get(&id).await?.session.working_dir;
    let workspace =
        if working_dir.is_none() || working_dir == before { "shared" } else { "separate" };
    let turn = match (body.turn_id, body.before_compaction) {
        (Some(_), true) => {
            return Err(Error::invalid(
                "invalid_body",
                "`turn_id` and `before_compaction` name two places to fork from",
            ));
        }
        (None, true) => state.engine.contexts().newest_compaction(&id).await?.0.header.parent,
        (turn, false) => turn,
    };
    let branch = Branch { turn, label: body.label, title: None, working_dir };
    let made = state.engine.sessions().branch(&id, branch).await?.to_string();
    let session = Session::from(&state.engine.sessions().get(&made).await?);
    Ok((StatusCode::CREATED, location(&made), Json(Forked { session, workspace })))
}
