//! Blobs: outputs of tools, versions of files and pictures, as they are stored.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::id::ObjectId;
use ctx_engine::core::image::Format;
use ctx_engine::core::object::Kind;

use super::Shared;
use super::error::{Answer, Document, Error};
use super::extract::Path;

/// A blob's bytes; its name is their hash, so they never change. Never a type that a browser would run.
#[utoipa::path(get, path = "/api/blobs/{hash}", tag = "blobs", params(("hash" = String, Path, description = "The blob's id")),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>),
              (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(hash): Path<String>,
) -> Answer<Response> {
    let missing = || Error::not_found("blob", &hash);
    let id: ObjectId = hash.parse().map_err(|_| missing())?;
    let object = state
        .engine
        .records()
        .object(id)
        .await?
        .filter(|object| object.kind == Kind::Blob)
        .ok_or_else(missing)?;
    // What was said about it when it came is not asked: its bytes say what it is.
    let kind = match Format::of(&object.bytes) {
        Some(picture) => picture.media_type(),
        None if std::str::from_utf8(&object.bytes).is_ok() => "text/plain; charset=utf-8",
        None => "application/octet-stream",
    };
    let headers = [
        (CONTENT_TYPE, kind.to_owned()),
        (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (ETAG, format!("\"{id}\"")),
    ];
    Ok((headers, object.bytes).into_response())
}
