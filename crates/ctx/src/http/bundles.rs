//! Sessions out and in, as bundles that verify themselves.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ctx_engine::Arrival;

use crate::shape::talk::{Imported, Session};

use super::error::{Answer, Document, Error};
use super::extract::{Json, Path, bundle};
use super::{Shared, roots};

/// The media type of a bundle.
pub(super) const BUNDLE: &str = "application/vnd.ctx.bundle";

/// The session with everything it reaches, in one file. Its bytes go back into import as they are.
#[utoipa::path(get, path = "/api/sessions/{id}/export", tag = "sessions", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, content_type = "application/vnd.ctx.bundle", body = Vec<u8>),
              (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 422, body = Document, content_type = "application/problem+json")))]
pub(super) async fn export(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let _room = room(&state).await?;
    let (manifest, bytes) = state.engine.bundles().export(&id).await?;
    let headers = [
        (CONTENT_TYPE, BUNDLE.to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"session-{}.ctx-bundle\"", manifest.session),
        ),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// Takes a session in that was exported, here or elsewhere. The same bundle twice is the same session; a label that another session
/// has is not taken over. (A session labelled `import` is read by its id.)
#[utoipa::path(post, path = "/api/sessions/import", tag = "sessions",
    request_body(content = Vec<u8>, content_type = "application/vnd.ctx.bundle"),
    responses((status = 201, body = Imported), (status = 200, body = Imported),
              (status = 409, body = Document, content_type = "application/problem+json"),
              (status = 413, body = Document, content_type = "application/problem+json"),
              (status = 415, body = Document, content_type = "application/problem+json"),
              (status = 422, body = Document, content_type = "application/problem+json")))]
pub(super) async fn import(
    State(state): State<Shared>,
    request: Request,
) -> Answer<(StatusCode, Json<Imported>)> {
    let _room = room(&state).await?;
    let bytes = bundle(request).await?;
    let here = |dir: &str| roots::allowed(&state.options.roots, dir).ok();
    let imported = state.engine.bundles().import(&bytes, here).await?;
    let session = Session::from(&state.engine.sessions().get(&imported.session.to_string()).await?);
    let status =
        if imported.arrival == Arrival::Created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Imported::of(&imported, session))))
}

/// A bundle is held in memory: few at a time.
async fn room(state: &Shared) -> Answer<tokio::sync::SemaphorePermit<'_>> {
    let gone = |_| {
        Error::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the server is going away")
    };
    state.bundles.acquire().await.map_err(gone)
}
