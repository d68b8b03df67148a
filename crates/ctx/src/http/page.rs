//! The page at the root, and the description of the API.

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse};

use super::Shared;

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ctx</title>
<h1>ctx</h1>
<p>The API is here: <a href="/api/openapi.json">/api/openapi.json</a></p>
</html>
"#;

/// Says where the API is.
pub(super) async fn read() -> impl IntoResponse {
    ([(CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'")], Html(PAGE))
}

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "operation", responses((status = 200, body = Object)))]
pub(super) async fn openapi(State(state): State<Shared>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], state.document.clone())
}
