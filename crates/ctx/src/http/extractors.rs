//! Extractors for JSON bodies, queries, paths and headers. Invalid input gets problem details.

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

use crate::remote::{EXCHANGE_MEDIA_TYPE, MESSAGE_MAX_BYTES};

use super::bundles::BUNDLE_MEDIA_TYPE;
use super::problem_details::Error;

pub(super) const BODY_MAX_BYTES: usize = 8 << 20;
/// How much of a too large body is read and discarded. A client that is still sending would not
/// read the error response.
const DRAIN_MAX_BYTES: usize = 64 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const BUNDLE_TIMEOUT: Duration = Duration::from_secs(600);
const IDEMPOTENCY_KEY_MAX_CHARS: usize = 255;
/// Rows per page.
const LIMIT_MAX: usize = ctx_engine::PAGE_MAX;
const LIMIT_DEFAULT: usize = 50;
/// Upper bound of `Prefer: wait=N`.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// A JSON body of a request or a response.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        // A vector grows and is filled faster than the buffer of `axum::Json`.
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => ([(CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        is_json(request.headers())?;
        Ok(Self(parse(&body(request.into_body()).await?)?))
    }
}

/// A JSON body that may be empty.
pub(super) struct OptionalJson<T>(pub(super) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let json = is_json(request.headers());
        let bytes = body(request.into_body()).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        json?;
        Ok(Self(parse(&bytes)?))
    }
}

/// A JSON body together with the client's `Idempotency-Key`, if it sent one.
pub(super) struct IdempotentJson<T> {
    pub(super) body: T,
    pub(super) key: Option<ctx_engine::Key>,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for IdempotentJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        is_json(request.headers())?;
        let key = key_of(request.headers(), "idempotency-key")?;
        let bytes = body(request.into_body()).await?;
        // The engine adds the scope of the key, because one session has several paths.
        let key = key.map(|key| ctx_engine::Key { key, request: ObjectId::of(&[&bytes]) });
        Ok(Self { body: parse(&bytes)?, key })
    }
}

/// The query string.
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

/// The percent-decoded path parameters.
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

pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Error> {
    let media_type = media_type(headers);
    if media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
    {
        return Ok(());
    }
    let detail = format!("{}: use application/json", unsupported_type(&media_type));
    Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail))
}

/// The media type of a body in lower case, without parameters.
fn media_type(headers: &HeaderMap) -> String {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn unsupported_type(media_type: &str) -> String {
    if media_type.is_empty() {
        "the request has no Content-Type".to_owned()
    } else {
        format!("unsupported Content-Type `{media_type}`")
    }
}

/// The bytes of a body of any type.
pub(super) async fn bytes(body: Body, max_bytes: usize) -> Result<Vec<u8>, Error> {
    read_with_timeout(BODY_TIMEOUT, body, max_bytes).await
}

pub(super) async fn body(body: Body) -> Result<Vec<u8>, Error> {
    read_with_timeout(BODY_TIMEOUT, body, BODY_MAX_BYTES).await
}

pub(super) async fn bundle(request: Request) -> Result<Vec<u8>, Error> {
    let media_type = media_type(request.headers());
    if media_type != BUNDLE_MEDIA_TYPE && media_type != "application/octet-stream" {
        let detail = format!("{}: use {BUNDLE_MEDIA_TYPE}", unsupported_type(&media_type));
        return Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_a_bundle_type", detail));
    }
    read_with_timeout(BUNDLE_TIMEOUT, request.into_body(), SESSION_MAX_BYTES).await
}

pub(super) async fn exchange_message(request: Request) -> Result<Vec<u8>, Error> {
    let media_type = media_type(request.headers());
    if media_type != EXCHANGE_MEDIA_TYPE && media_type != "application/octet-stream" {
        let detail = format!("{}: use {EXCHANGE_MEDIA_TYPE}", unsupported_type(&media_type));
        return Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_an_exchange", detail));
    }
    read_with_timeout(BUNDLE_TIMEOUT, request.into_body(), MESSAGE_MAX_BYTES).await
}

async fn read_with_timeout(
    timeout: Duration,
    body: Body,
    max_bytes: usize,
) -> Result<Vec<u8>, Error> {
    let late = |_| {
        Error::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            "the body did not arrive in time",
        )
    };
    tokio::time::timeout(timeout, read(body, max_bytes)).await.map_err(late)?
}

async fn read(body: Body, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let mut stream = body.into_data_stream();
    let (mut bytes, mut seen) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| {
            Error::new(
                StatusCode::BAD_REQUEST,
                "body_cut_off",
                "the connection ended before the body was complete",
            )
        })?;
        seen += chunk.len();
        match seen {
            seen if seen <= max_bytes => bytes.extend_from_slice(&chunk),
            // The body is rejected; free what was read.
            seen if seen <= max_bytes + DRAIN_MAX_BYTES => bytes.clear(),
            _ => break,
        }
    }
    if seen > max_bytes {
        let detail = format!("the body has more than {max_bytes} bytes");
        return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail));
    }
    Ok(bytes)
}

/// Invalid JSON is 400; valid JSON with wrong fields or values is 422.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    // serde would read an array as the struct's fields in order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
        && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    {
        return Err(Error::invalid("invalid_body", "the body is an array: it must be an object"));
    }
    serde_json::from_slice(bytes).map_err(|wrong| match check_json(bytes) {
        Err(error) => error,
        Ok(()) if !wrong.is_data() => bad_json(&wrong),
        Ok(()) => Error::invalid("invalid_body", wrong.to_string()),
    })
}

/// Checks that the bytes are one JSON document of any kind.
pub(super) fn check_json(bytes: &[u8]) -> Result<(), Error> {
    serde_json::from_slice::<IgnoredAny>(bytes).map(drop).map_err(|e| bad_json(&e))
}

fn bad_json(why: &serde_json::Error) -> Error {
    let detail = format!("the body is not valid JSON: {why}");
    Error::new(StatusCode::BAD_REQUEST, "bad_json", detail)
}

/// The idempotency key in a header, if it is present.
pub(super) fn key_of(headers: &HeaderMap, header: &'static str) -> Result<Option<String>, Error> {
    let Some(given) = headers.get(header) else { return Ok(None) };
    let invalid = || {
        Error::invalid(
            "invalid_header",
            format!(
                "invalid header {header}: it must have 1 to {IDEMPOTENCY_KEY_MAX_CHARS} \
                 printable characters"
            ),
        )
    };
    let key = std::str::from_utf8(given.as_bytes()).map_err(|_| invalid())?;
    let count = key.chars().count();
    if !(1..=IDEMPOTENCY_KEY_MAX_CHARS).contains(&count) || key.chars().any(char::is_control) {
        return Err(invalid());
    }
    Ok(Some(key.to_owned()))
}

/// The value of `Prefer: wait=N`, at most [`WAIT_MAX`].
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

pub(super) fn page_limit(given: Option<usize>) -> Result<usize, Error> {
    match given.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        limit => Err(Error::invalid(
            "invalid_query",
            format!("invalid limit {limit}: it must be from 1 to {LIMIT_MAX}"),
        )),
    }
}

/// Deserializes a field for which `null` and absence differ: `null` becomes `Some(None)`.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_wait_is_parsed_and_limited() {
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
