//! The web page and its files, embedded from `web/dist` at build time.
//!
//! The content security policy allows only the page's own script and style and requests to this
//! server. Text from a model or a user that ends up in the page cannot load or send anything else.

use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use super::middleware::RESOURCE_POLICY;

/// `blob:` is allowed for images because the page fetches them itself. The only frame is
/// [`DIAGRAM_FRAME`].
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; frame-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";
/// Draws diagrams from untrusted text. Its library writes style elements, which the policy of the
/// page does not allow, so it runs in a sandbox without an origin and without requests.
const DIAGRAM_FRAME: &str = "diagram-frame.html";
/// The script of that frame, which a document without an origin has to load.
const DIAGRAM_SCRIPT: &str = "diagram-frame.js";
pub(super) const DIAGRAM_SCRIPT_PATH: &str = "/assets/diagram-frame.js";
const DIAGRAM_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts";

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Files;

pub(super) async fn index(headers: HeaderMap) -> Response {
    file_response("index.html", &headers)
}

pub(super) async fn asset(Path(file): Path<String>, headers: HeaderMap) -> Response {
    file_response(&file, &headers)
}

/// Returns the file, or 304 if the browser has the current version. The browser revalidates on
/// every load (`no-cache`), so a new program version takes effect at once.
fn file_response(file: &str, headers: &HeaderMap) -> Response {
    let (Some(media_type), Some(found)) = (media_type(file), Files::get(file)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag: String =
        found.metadata.sha256_hash().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let is_current =
        headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let response_headers = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, if file == DIAGRAM_FRAME { DIAGRAM_POLICY } else { POLICY }),
        (CACHE_CONTROL, "no-cache"),
        (REFERRER_POLICY, "no-referrer"),
        (ETAG, tag.as_str()),
        (RESOURCE_POLICY, if file == DIAGRAM_SCRIPT { "cross-origin" } else { "same-origin" }),
    ];
    if is_current {
        (StatusCode::NOT_MODIFIED, response_headers).into_response()
    } else {
        (response_headers, found.data.into_owned()).into_response()
    }
}

/// Files of any other type are not served.
fn media_type(file: &str) -> Option<&'static str> {
    Some(match file.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
