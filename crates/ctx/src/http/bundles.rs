//! Export and import of sessions as bundles.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::bundle as bundle_format;
use ctx_engine::core::redaction::Redactor;
use ctx_engine::{Engine, ImportEffect};
use serde::Deserialize;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use utoipa::IntoParams;

use crate::export::{Document, Secrets, SessionReader, report};
use crate::json::import_json::Imported;
use crate::json::session_json::Session;

use super::extractors::{Json, Path, Query, bundle};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, working_dir};

pub(super) const BUNDLE_MEDIA_TYPE: &str = "application/vnd.ctx.bundle";
/// Number of replaced secrets by kind.
const REDACTED: HeaderName = HeaderName::from_static("ctx-redacted");

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportQuery {
    /// `markdown`, `html` or `jsonl`; default: a bundle
    to: Option<String>,
    /// Replace secrets by `[redacted:KIND]`. The response header `Ctx-Redacted` counts them by kind
    #[serde(default)]
    redact: bool,
}

/// Export a session
///
/// The bundle contains the session and every object it references. Import accepts the same bytes.
/// With `to` the response is a document: Markdown, one self-contained HTML page, or JSON Lines that
/// `ctx import --from jsonl` reads. A redacted bundle is another history: its turns have other ids.
#[utoipa::path(
    get, path = "/api/sessions/{id}/export", tag = "sessions",
    params(("id" = String, Path, description = "Id, short id, label or alias"), ExportQuery),
    responses(
        (status = 200, content(
            (Vec<u8> = "application/vnd.ctx.bundle"),
            (String = "text/markdown"),
            (String = "text/html"),
            (String = "application/jsonl"),
        )),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn export(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> HttpResult<Response> {
    let permit = state.exports.clone().acquire_owned().await.map_err(closed)?;
    if let Some(name) = &query.to {
        let form = Document::ALL.into_iter().find(|form| form.name() == name);
        let form = form.ok_or_else(|| {
            let names = Document::ALL.map(Document::name).join(", ");
            Error::invalid("invalid_query", format!("`to` must be one of {names}"))
        })?;
        let secrets = if query.redact { Secrets::Redact } else { Secrets::Keep };
        return document(state.engine.clone(), id, form, secrets, permit).await;
    }
    if query.redact {
        return redacted(&state, &id).await;
    }
    let export = state.engine.bundles().export(&id).await?;
    let name = format!("session-{}.ctx-bundle", export.manifest().session);
    let headers = [
        (CONTENT_TYPE, BUNDLE_MEDIA_TYPE.to_owned()),
        (CONTENT_LENGTH, export.bytes().to_string()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    // An error closes the connection before the length that was announced is reached.
    let parts = futures_util::stream::try_unfold((export, permit), async |(mut export, permit)| {
        let part = export.next_part().await?;
        Ok::<_, ctx_engine::Error>(part.map(|part| (part, (export, permit))))
    });
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// A bundle without secrets. Its ids depend on all of its objects, so it is built in memory.
async fn redacted(state: &Shared, id: &str) -> HttpResult<Response> {
    let mut export = state.engine.bundles().export(id).await?;
    let mut bytes = Vec::with_capacity(export.bytes());
    while let Some(part) = export.next_part().await? {
        bytes.extend(part);
    }
    let name = format!("session-{}.ctx-bundle", export.manifest().session);
    let redact = move || {
        let mut redactor = Redactor::default();
        bundle_format::redact(bytes, &mut redactor).map(|bytes| (bytes, redactor))
    };
    let done = tokio::task::spawn_blocking(redact).await;
    let failed = |error: tokio::task::JoinError| {
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    };
    let (bytes, redactor) = done.map_err(failed)?.map_err(ctx_engine::Error::from)?;
    let headers = [
        (CONTENT_TYPE, BUNDLE_MEDIA_TYPE.to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
        (REDACTED, report::header(&redactor)),
    ];
    Ok((headers, bytes).into_response())
}

/// A document, sent turn by turn. To count its secrets before the first byte, it is read twice.
async fn document(
    engine: Engine,
    id: String,
    form: Document,
    secrets: Secrets,
    permit: OwnedSemaphorePermit,
) -> HttpResult<Response> {
    let mut headers = vec![
        (CONTENT_TYPE, form.media_type().to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ];
    if secrets == Secrets::Redact {
        let mut first = SessionReader::open(&engine, &id, form.order(), secrets).await?;
        while first.next().await?.is_some() {}
        headers.push((REDACTED, report::header(first.redactor())));
    }
    let reader = SessionReader::open(&engine, &id, form.order(), secrets).await?;
    let name = format!("session-{}.{}", reader.session().id, form.extension());
    headers.push((CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")));
    let mut format = form.format(reader.session());
    let mut start = Vec::new();
    format.start(&mut start);
    let state = Some((reader, format, start, permit));
    let parts = futures_util::stream::try_unfold(state, async |state| {
        let Some((mut reader, mut format, mut out, permit)) = state else { return Ok(None) };
        let next = match reader.next().await? {
            Some(turns) => {
                turns.iter().for_each(|turn| format.turn(turn, &mut out));
                Some((reader, format, Vec::new(), permit))
            }
            None => {
                format.end(&mut out);
                None
            }
        };
        Ok::<_, ctx_engine::Error>(Some((out, next)))
    });
    let mut response = Body::from_stream(parts).into_response();
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value).map_err(|_| {
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "a header is not valid")
        })?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// Import a session
///
/// Importing the same bundle twice changes nothing. If another session has the label, the imported
/// session gets a new label. (A session with the label `import` can be read by its id only.)
#[utoipa::path(
    post, path = "/api/sessions/import", tag = "sessions",
    request_body(content = Vec<u8>, content_type = "application/vnd.ctx.bundle"),
    responses(
        (status = 201, body = Imported),
        (status = 200, body = Imported),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 413, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 415, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn import(
    State(state): State<Shared>,
    request: Request,
) -> HttpResult<(StatusCode, Json<Imported>)> {
    let _permit = state.imports.acquire().await.map_err(closed)?;
    let bytes = bundle(request).await?;
    let local_dir = |dir: &str| working_dir::resolve(&state.options.roots, dir).ok();
    let imported = state.engine.bundles().import(&bytes, local_dir).await?;
    let session = Session::from(&state.engine.sessions().get(&imported.session.to_string()).await?);
    let status = if imported.arrival == ImportEffect::Created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(Imported::of(&imported, session))))
}

pub(super) fn closed(_: AcquireError) -> Error {
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the server is shutting down")
}
