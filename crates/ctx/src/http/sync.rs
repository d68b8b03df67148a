//! Exchange of sessions with the store of another machine: `ctx push`, `ctx pull` and `ctx sync`
//! with a server as the remote. The messages are described in docs/remotes.md.

use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ctx_engine::exchange::{LocalPeer, PeerError};

use crate::remote::{EXCHANGE_MEDIA_TYPE, Request, answer, decode, encode};

use super::extractors::exchange_message;
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, bundles, working_dir};

/// Prefix of the routes.
const PREFIX: &str = "/api/sync/";
/// The only route that changes the store.
const OBJECTS_IN: &str = "/api/sync/objects/in";

/// Whether a route only reads, whatever its method is.
pub(super) fn only_reads(route: &str) -> bool {
    route.starts_with(PREFIX) && route != OBJECTS_IN
}

/// List the sessions for an exchange
///
/// The message lists each session with its head. It is compressed; see docs/remotes.md.
#[utoipa::path(
    get, path = "/api/sync/heads", tag = "sync",
    responses((status = 200, content_type = "application/vnd.ctx.exchange", body = Vec<u8>))
)]
pub(super) async fn heads(State(state): State<Shared>) -> HttpResult<Response> {
    respond(&state, Request::Heads {}, &[]).await
}

/// Ask which turns and tasks the server has
#[utoipa::path(
    post, path = "/api/sync/have", tag = "sync",
    request_body(content = Vec<u8>, content_type = "application/vnd.ctx.exchange"),
    responses(
        (status = 200, content_type = "application/vnd.ctx.exchange", body = Vec<u8>),
        (status = 413, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 415, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn have(
    State(state): State<Shared>,
    request: HttpRequest,
) -> HttpResult<Response> {
    let (request, bytes) = message(request).await?;
    match request {
        Request::Paths { .. }
        | Request::Have { .. }
        | Request::Tasks { .. }
        | Request::TaskMarks { .. } => respond(&state, request, &bytes).await,
        _ => Err(other_route()),
    }
}

/// Read parts of sessions
///
/// A part holds turns and tasks with every object that they reference.
#[utoipa::path(
    post, path = "/api/sync/objects/out", tag = "sync",
    request_body(content = Vec<u8>, content_type = "application/vnd.ctx.exchange"),
    responses(
        (status = 200, content_type = "application/vnd.ctx.exchange", body = Vec<u8>),
        (status = 413, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 415, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn objects_out(
    State(state): State<Shared>,
    request: HttpRequest,
) -> HttpResult<Response> {
    let _permit = state.exports.acquire().await.map_err(bundles::closed)?;
    let (request, bytes) = message(request).await?;
    match request {
        Request::Read { .. } => respond(&state, request, &bytes).await,
        _ => Err(other_route()),
    }
}

/// Store parts of sessions
///
/// Each part is verified by its hashes and stored in one transaction.
#[utoipa::path(
    post, path = "/api/sync/objects/in", tag = "sync",
    request_body(content = Vec<u8>, content_type = "application/vnd.ctx.exchange"),
    responses(
        (status = 200, content_type = "application/vnd.ctx.exchange", body = Vec<u8>),
        (status = 413, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 415, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn objects_in(
    State(state): State<Shared>,
    request: HttpRequest,
) -> HttpResult<Response> {
    let _permit = state.imports.acquire().await.map_err(bundles::closed)?;
    let (request, bytes) = message(request).await?;
    match request {
        Request::Write { .. } => respond(&state, request, &bytes).await,
        _ => Err(other_route()),
    }
}

async fn message(request: HttpRequest) -> HttpResult<(Request, Vec<u8>)> {
    let body = exchange_message(request).await?;
    decode(&body).map_err(|error| Error::invalid("invalid_body", error.message))
}

fn other_route() -> Error {
    Error::invalid("invalid_body", "the message belongs to another route")
}

/// Answers a request. What the store refuses is part of the answer.
async fn respond(state: &Shared, request: Request, bytes: &[u8]) -> HttpResult<Response> {
    let roots = state.options.roots.clone();
    let keep_dir = move |dir: &str| working_dir::resolve(&roots, dir).ok();
    let peer = LocalPeer::new(state.engine.clone(), keep_dir);
    let (document, parts) = answer(&peer, request, bytes).await;
    let message = encode(&document, &parts).map_err(|error: PeerError| {
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.message)
    })?;
    let headers = [(CONTENT_TYPE, EXCHANGE_MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
    Ok((headers, message).into_response())
}
