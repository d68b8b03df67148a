//! Blobs: outputs of tools and versions of files, as they are stored.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::id::ObjectId;
use ctx_engine::core::object::Kind;

use super::Shared;
use super::error::{Answer, Document, Error};
use super::extract::Path;

/// A blob's bytes; its name is their hash, so they never change. Never a type that a browser would run.
#[utoipa::path(get, path = "/api/blobs/{hash}", tag = "blobs", params(("hash" = String, Path, description = "The blob's id")),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>),
              (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn read(State(state): State<Shared>, Path(hash): Path<String>) -> Answer<Response> {
    let missing = || Error::not_found("blob", &hash);
    let id: ObjectId = hash.parse().map_err(|_| missing())?;
    let object = state.engine.object(id).await?.filter(|object| object.kind == Kind::Blob).ok_or_else(missing)?;
    let is_text = std::str::from_utf8(&object.bytes).is_ok();
    let kind = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    let headers =
        [(CONTENT_TYPE, kind.to_owned()), (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()), (ETAG, format!("\"{id}\""))];
    Ok((headers, object.bytes).into_response())
}
