//! What comes in: JSON, queries, paths and headers, each refused with a problem document where it is not what it should be.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::bundle::SESSION_MAX_BYTES;
use ctx_engine::core::id::ObjectId;
use futures_util::StreamExt;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

use super::bundles::BUNDLE;
use super::error::Error;

/// The longest body.
const BODY_MAX_BYTES: usize = 8 << 20;
/// Of a longer body so much is read and thrown away, so that its sender hears why it was refused.
const DRAIN_MAX_BYTES: usize = 64 << 20;
/// A body must be there by then.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// So must a bundle, which may be much longer.
const BUNDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest idempotency key.
const KEY_MAX_CHARS: usize = 255;
/// The most rows of a page.
const LIMIT_MAX: usize = ctx_engine::PAGE_MAX;
const LIMIT_DEFAULT: usize = 50;
/// Nobody is kept waiting for longer.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// A JSON body in, or out.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        is_json(request.headers())?;
        Ok(Self(parsed(&body(request.into_body()).await?)?))
    }
}

/// A JSON body that may be left out.
pub(super) struct Maybe<T>(pub(super) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for Maybe<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let json = is_json(request.headers());
        let bytes = body(request.into_body()).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        json?;
        Ok(Self(parsed(&bytes)?))
    }
}

/// A JSON body with what makes the request known again, where the client gave it a key.
pub(super) struct Once<T> {
    pub(super) body: T,
    pub(super) key: Option<ctx_engine::Key>,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Once<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        is_json(request.headers())?;
        let key = idempotency_key(request.headers())?;
        let bytes = body(request.into_body()).await?;
        // Whose key it is, the engine says: the same session may be called by different paths.
        let key = key.map(|key| ctx_engine::Key { key, request: ObjectId::of(&[&bytes]) });
        Ok(Self { body: parsed(&bytes)?, key })
    }
}

/// The words after the question mark.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let found = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let wrong =
            |rejection: QueryRejection| Error::invalid("invalid_query", rejection.body_text());
        Ok(Self(found.map_err(wrong)?.0))
    }
}

/// The names in the path, percent-decoded.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(found) => Ok(Self(found.0)),
            Err(_) => Err(Error::not_found("resource", parts.uri.path())),
        }
    }
}

fn is_json(headers: &HeaderMap) -> Result<(), Error> {
    let essence = essence(headers);
    if essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
    {
        return Ok(());
    }
    let told = told_type(&essence);
    Err(Error::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not_json",
        format!("the body has {told}; only application/json is taken"),
    ))
}

/// The media type of a body, without its parameters.
fn essence(headers: &HeaderMap) -> String {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn told_type(essence: &str) -> String {
    if essence.is_empty() { "no content type".to_owned() } else { format!("`{essence}`") }
}

async fn body(body: Body) -> Result<Vec<u8>, Error> {
    in_time(BODY_TIMEOUT, body, BODY_MAX_BYTES).await
}

/// The bytes of a bundle.
pub(super) async fn bundle(request: Request) -> Result<Vec<u8>, Error> {
    let essence = essence(request.headers());
    if essence != BUNDLE && essence != "application/octet-stream" {
        let told = format!("the body has {}; only {BUNDLE} is taken", told_type(&essence));
        return Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_a_bundle_type", told));
    }
    in_time(BUNDLE_TIMEOUT, request.into_body(), SESSION_MAX_BYTES).await
}

async fn in_time(timeout: Duration, body: Body, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let late = |_| {
        Error::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the body did not come in time")
    };
    tokio::time::timeout(timeout, read(body, max_bytes)).await.map_err(late)?
}

async fn read(body: Body, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let mut stream = body.into_data_stream();
    let (mut bytes, mut seen) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| {
            Error::new(StatusCode::BAD_REQUEST, "body_cut_off", "the body ended too early")
        })?;
        seen += chunk.len();
        match seen {
            seen if seen <= max_bytes => bytes.extend_from_slice(&chunk),
            // Keep nothing of what is refused.
            seen if seen <= max_bytes + DRAIN_MAX_BYTES => bytes.clear(),
            _ => break,
        }
    }
    if seen > max_bytes {
        let told = format!("the body has more than {max_bytes} bytes");
        return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", told));
    }
    Ok(bytes)
}

/// What is no JSON is 400; JSON that says something else than was asked for is 422.
fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    // A list would be taken for the fields in their order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
        && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    {
        return Err(Error::invalid("invalid_body", "the body is a list and must be an object"));
    }
    serde_json::from_slice(bytes).map_err(|wrong| {
        let broken = |e: &serde_json::Error| {
            Error::new(StatusCode::BAD_REQUEST, "bad_json", format!("the body is not JSON: {e}"))
        };
        match serde_json::from_slice::<IgnoredAny>(bytes) {
            Err(e) => broken(&e),
            Ok(_) if !wrong.is_data() => broken(&wrong),
            Ok(_) => Error::invalid("invalid_body", wrong.to_string()),
        }
    })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let Some(given) = headers.get("idempotency-key") else { return Ok(None) };
    let told = || {
        Error::invalid(
            "invalid_header",
            format!("Idempotency-Key has 1 to {KEY_MAX_CHARS} printable characters"),
        )
    };
    let key = std::str::from_utf8(given.as_bytes()).map_err(|_| told())?;
    let count = key.chars().count();
    if !(1..=KEY_MAX_CHARS).contains(&count) || key.chars().any(char::is_control) {
        return Err(told());
    }
    Ok(Some(key.to_owned()))
}

/// How long a client that prefers to wait is kept waiting: `Prefer: wait=N`.
pub(super) fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let given = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = given.flat_map(|value| value.split([',', ';'])).map(str::trim);
    let seconds: u64 = preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("wait")
            .then(|| value.trim().trim_matches('"').parse().ok())?
    })?;
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}

/// The rows of a page.
pub(super) fn page_limit(given: Option<usize>) -> Result<usize, Error> {
    match given.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        limit => Err(Error::invalid(
            "invalid_query",
            format!("limit is {limit}; it must be from 1 to {LIMIT_MAX}"),
        )),
    }
}

/// For a field where `null` says something else than nothing: `Some(None)`.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_to_wait_is_read_and_bounded() {
        let wait = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", value.parse().expect("a header"));
            preferred_wait(&headers).map(|wait| wait.as_secs())
        };
        let table = [
            ("wait=5", Some(5)),
            ("respond-async, Wait = 7", Some(7)),
            ("wait=99999", Some(600)),
            ("wait=soon", None),
            ("return=minimal", None),
        ];
        for (value, seconds) in table {
            assert_eq!(wait(value), seconds, "{value}");
        }
    }
}
