//! The page at the root, the files it is made of, and the description of the API.
//!
//! The files are those of `web/dist` when the program was built. The page runs its own script and style and talks to this
//! server: whatever a model or a user managed to put into it could load nothing and send nothing elsewhere.

use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use super::Shared;

/// What the page may do. Pictures are blobs that it fetched itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Files;

/// The page.
pub(super) async fn read(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

/// A file of the page.
pub(super) async fn asset(Path(file): Path<String>, headers: HeaderMap) -> Response {
    answer(&file, &headers)
}

/// A file, unless the browser has it already: its hash says so, and each time it is asked.
fn answer(file: &str, headers: &HeaderMap) -> Response {
    let (Some(kind), Some(found)) = (kind_of(file), Files::get(file)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag: String =
        found.metadata.sha256_hash().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let told = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
        (REFERRER_POLICY, "no-referrer"),
        (ETAG, tag.as_str()),
    ];
    if known {
        (StatusCode::NOT_MODIFIED, told).into_response()
    } else {
        (told, found.data.into_owned()).into_response()
    }
}

/// The types that the page is made of; nothing else is given out.
fn kind_of(file: &str) -> Option<&'static str> {
    Some(match file.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "operation", responses((status = 200, body = Object)))]
pub(super) async fn openapi(State(state): State<Shared>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], state.document.clone())
}
