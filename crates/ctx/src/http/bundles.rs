//! Export and import of sessions as bundles.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ctx_engine::ImportEffect;
use tokio::sync::AcquireError;

use crate::json::import_json::Imported;
use crate::json::session_json::Session;

use super::extractors::{Json, Path, bundle};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, working_dir};

pub(super) const BUNDLE_MEDIA_TYPE: &str = "application/vnd.ctx.bundle";

/// Export a session
///
/// The bundle contains the session and every object it references. Import accepts the same bytes.
#[utoipa::path(
    get, path = "/api/sessions/{id}/export", tag = "sessions",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, content_type = "application/vnd.ctx.bundle", body = Vec<u8>),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn export(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Response> {
    let permit = state.exports.clone().acquire_owned().await.map_err(closed)?;
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
