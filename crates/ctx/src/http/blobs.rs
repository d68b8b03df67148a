//! Blobs: tool outputs, file versions and images, as stored.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::image::Format;
use ctx_engine::core::object::Kind;

use super::Shared;
use super::extractors::Path;
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// Read the bytes of a blob
///
/// The id is the hash of the bytes, so the response can be cached forever. The content type is an
/// image type, `text/plain` or `application/octet-stream`, so that no browser executes it.
#[utoipa::path(
    get, path = "/api/blobs/{hash}", tag = "blobs",
    params(("hash" = String, Path, description = "The blob's id")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(hash): Path<String>,
) -> HttpResult<Response> {
    let missing = || Error::not_found("blob", &hash);
    let id = state.engine.ids().blob(&hash).await?.ok_or_else(missing)?.0;
    let object = state
        .engine
        .records()
        .object(id)
        .await?
        .filter(|object| object.kind == Kind::Blob)
        .ok_or_else(missing)?;
    // The declared type of the upload is not trusted; the type is detected from the bytes.
    let media_type = match Format::of(&object.bytes) {
        Some(image) => image.media_type(),
        None if std::str::from_utf8(&object.bytes).is_ok() => "text/plain; charset=utf-8",
        None => "application/octet-stream",
    };
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (ETAG, format!("\"{id}\"")),
    ];
    Ok((headers, object.bytes).into_response())
}
