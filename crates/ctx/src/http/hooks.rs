//! Hooks: an outside event becomes a message. A request has the secret of its hook instead of an
//! API token. Bodies and secrets are never logged.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use ctx_engine::core::hook::{body_max_bytes, message_text};
use ctx_engine::core::id::ObjectId;
use ctx_engine::core::message::Source;
use ctx_engine::{Key, NewMessage};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::message_json::Accepted;
use crate::message_sources::Hook;

use super::Shared;
use super::authorization::bearer_token;
use super::extractors::{self, Json, Path, key_of};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// The only route under `/api` that needs no API token.
pub(super) const HOOK_ROUTE: &str = "/api/hooks/{name}";

const SIGNATURE: &str = "x-hub-signature-256";
/// Headers that identify a delivery; the first one that is present counts.
const KEY_HEADERS: [&str; 2] = ["idempotency-key", "x-github-delivery"];

/// The response to an event that was accepted
#[derive(Serialize, ToSchema)]
pub(super) struct AcceptedEvent {
    /// Label of the session
    session: String,
    session_id: String,
    #[serde(flatten)]
    message: Accepted,
}

/// Send an outside event as a message
///
/// The request has the secret of the hook, or a signature of its body. The message is the text of
/// the hook, a blank line, and the body; JSON is indented. A request with an `Idempotency-Key` or
/// `X-GitHub-Delivery` that was used before gets the first response again and has no other effect.
#[utoipa::path(
    post, path = "/api/hooks/{name}", tag = "sources",
    request_body(
        description = "Any JSON or text, at most 1 MB together with the text of the hook",
        content((serde_json::Value = "application/json"), (String = "text/plain")),
    ),
    params(
        ("name" = String, Path, description = "Name of the hook in ctx.toml"),
        (
            "X-Hub-Signature-256" = Option<String>, Header,
            description = "`sha256=HEX`: HMAC-SHA256 of the body under the secret"
        ),
        ("X-GitHub-Delivery" = Option<String>, Header, description = "Id of the delivery"),
    ),
    responses(
        (status = 202, body = AcceptedEvent),
        (status = 401, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 413, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 429, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn receive(
    State(state): State<Shared>,
    Path(name): Path<String>,
    request: Request,
) -> HttpResult<(StatusCode, Json<AcceptedEvent>)> {
    let hook = state.options.hooks.get(&name).ok_or_else(no_hook)?;
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let has_secret = has_secret(hook, headers);
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok());
    if !has_secret && signature.is_none() {
        return Err(bad_secret("the request has neither the secret of the hook nor a signature"));
    }
    let max_bytes = body_max_bytes(hook.text.as_deref());
    let bytes = extractors::bytes(body, max_bytes).await?;
    if !has_secret && !signature.is_some_and(|sent| hook.accepts_signature(sent, &bytes)) {
        return Err(bad_secret("the signature does not match the body"));
    }
    let key = delivery_key(&name, headers, &bytes)?;
    let text = message_text(hook.text.as_deref(), body_text(&bytes, headers)?);
    let message =
        NewMessage { mode: Some(hook.mode), source: Source::Webhook, ..NewMessage::text(text) };
    let messages = state.engine.messages();
    let sent = messages.submit_to_label(hook.session.clone(), message, key).await?;
    let id = sent.session.to_string();
    let session = match state.engine.sessions().get(&id).await {
        Ok(info) => info.session.label,
        // It was deleted since.
        Err(error) if error.code() == "no_session" => {
            hook.session.label.clone().unwrap_or_default()
        }
        Err(error) => return Err(error.into()),
    };
    let accepted = AcceptedEvent { session, session_id: id, message: Accepted::from(&sent) };
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

fn has_secret(hook: &Hook, headers: &HeaderMap) -> bool {
    matches!(bearer_token(headers), Ok(Some(sent)) if hook.accepts_secret(sent))
}

/// The body as text. A body that claims to be JSON must be.
fn body_text<'a>(bytes: &'a [u8], headers: &HeaderMap) -> HttpResult<&'a str> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::invalid("bad_text", "the body is not valid UTF-8"))?;
    if extractors::is_json(headers).is_ok() && !bytes.is_empty() {
        extractors::check_json(bytes)?;
    }
    Ok(text)
}

/// Keys of different hooks are independent, even if they send to one session.
fn delivery_key(name: &str, headers: &HeaderMap, body: &[u8]) -> HttpResult<Option<Key>> {
    for header in KEY_HEADERS {
        if let Some(key) = key_of(headers, header)? {
            let key = format!("hook {name} {key}");
            return Ok(Some(Key { key, request: ObjectId::of(&[body]) }));
        }
    }
    Ok(None)
}

fn no_hook() -> Error {
    Error::new(StatusCode::NOT_FOUND, "no_hook", "there is no hook with this name")
        .hint("add it to ctx.toml under [hooks.NAME] and restart the server")
}

fn bad_secret(detail: &str) -> Error {
    Error::new(StatusCode::UNAUTHORIZED, "bad_secret", detail).hint(
        "send `Authorization: Bearer SECRET`, or `X-Hub-Signature-256: sha256=HEX` with the \
         HMAC-SHA256 of the body",
    )
}
