//! Problem documents (RFC 9457): every answer that is no success says what happened under a stable code.

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::Error as EngineError;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::problem::Problem;

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// What a handler gives.
pub(super) type Answer<T> = Result<T, Error>;

/// A problem document as it is described; fields of its own may follow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Document {
    /// `about:blank`: the code says what the type would.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    /// Stable.
    code: String,
    /// What to do.
    hint: Option<String>,
}

/// An error on its way to a client.
#[derive(Debug)]
pub(super) struct Error {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Option<String>,
    extra: Vec<(&'static str, Value)>,
}

impl Error {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: None, extra: Vec::new() }
    }

    /// Well-formed, but not what can be taken.
    pub(super) fn invalid(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub(super) fn not_found(what: &'static str, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no {what} `{}`", clipped(name)),
        )
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A problem for a status that somebody else set.
    pub(super) fn of_status(status: StatusCode, method: &str, path: &str) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => {
                ("not_found", format!("there is nothing at {}", clipped(path)))
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                ("method_not_allowed", format!("{method} is not taken at {}", clipped(path)))
            }
            _ => (
                "bad_request",
                status.canonical_reason().unwrap_or("the request failed").to_owned(),
            ),
        };
        Self::new(status, code, detail)
    }

    fn document(&self) -> Value {
        let mut document = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
        });
        if let Some(hint) = &self.hint {
            document["hint"] = json!(hint);
        }
        for (key, value) in &self.extra {
            document[key] = value.clone();
        }
        document
    }
}

/// Enough of what a client sent to know it again.
fn clipped(text: &str) -> String {
    text.chars().take(200).collect()
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let status = status_of(error.code());
        if status.is_server_error() {
            tracing::error!(code = error.code(), %error, "a request failed");
        }
        let code = error.code();
        let problem = Problem::from(error);
        let hint = hint(code).map(str::to_owned);
        Self { hint, extra: problem.extra().to_vec(), ..Self::new(status, code, problem.message) }
    }
}

/// What a client does next, by the code.
fn status_of(code: &str) -> StatusCode {
    match code {
        "no_session" | "not_found" | "no_suspension" | "no_item" | "not_pinned" => {
            StatusCode::NOT_FOUND
        }
        "unknown_provider"
        | "unknown_persona"
        | "tools_unsupported"
        | "bad_tool"
        | "idempotency_mismatch"
        | "bad_answer"
        | "bad_label"
        | "bad_text"
        | "too_many"
        | "not_observable"
        | "not_a_bundle"
        | "bundle_too_new"
        | "bundle_too_large"
        | "missing_head"
        | "other_bundle"
        | "bundle_damaged" => StatusCode::UNPROCESSABLE_ENTITY,
        "inbox_full" => StatusCode::TOO_MANY_REQUESTS,
        "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
        "read_only" | "unavailable" | "damaged" | "no_store" | "store_too_new" | "network_disk" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        "label_in_use"
        | "steer_unavailable"
        | "delivery_refused"
        | "session_error"
        | "suspension_consumed"
        | "not_waiting"
        | "session_busy"
        | "stale_writer"
        | "no_prompt"
        | "prompt_open"
        | "task_open"
        | "no_task"
        | "invalid_transition"
        | "not_an_ancestor"
        | "nothing_to_retry"
        | "nothing_to_reopen"
        | "compact_unavailable"
        | "nothing_to_compact"
        | "no_compaction"
        | "too_much_pinned"
        | "already_sealed"
        | "already_ended"
        | "diverged" => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What a client of the API can do about it; the command line has its own words.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "no_session" => {
            "GET /api/sessions lists the sessions; `{id}` is an id, a label or an alias, percent-encoded"
        }
        "label_in_use" => "choose another label, or send to the session that has it",
        "unknown_provider" => "GET /api/providers lists the providers",
        "steer_unavailable" => "send it with `queue_mode` steer-backlog, queue or interrupt",
        "delivery_refused" => "PATCH the session with `delivery` open",
        "inbox_full" => "wait until the session has answered, or withdraw a message from its inbox",
        "idempotency_mismatch" => "take a new key for a new request",
        "prompt_open" => "answer it with POST /api/sessions/{id}/answer",
        "compact_unavailable" => {
            "it shortens its context by itself; send a message, and look at `commands` in GET /api/providers"
        }
        "too_much_pinned" => "let another turn go with DELETE /api/sessions/{id}/pins/{turn}",
        "session_busy" => "wait until the session is idle, or POST /api/sessions/{id}/cancel",
        "not_a_bundle" => "GET /api/sessions/{id}/export gives one",
        "other_bundle" => "a task is taken in with `ctx stage import`",
        "disk_full" => "make room and try again; everything that was acknowledged is safe",
        "unavailable" => "try again; everything that was acknowledged is safe",
        "damaged" => "`ctx verify` names everything that is damaged",
        _ => return None,
    })
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, [(CONTENT_TYPE, PROBLEM_JSON)], self.document().to_string())
                .into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_engine::core::refusal::Refusal;

    #[test]
    fn a_refusal_says_what_the_client_does_next() {
        let table = [
            (Refusal::NoSession, 404),
            (Refusal::NoSuspension, 404),
            (Refusal::NoItem, 404),
            (Refusal::LabelInUse { label: "x".into() }, 409),
            (Refusal::SteerUnavailable, 409),
            (Refusal::SuspensionConsumed, 409),
            (Refusal::InboxFull { cap: 20 }, 429),
            (Refusal::UnknownProvider { provider: "x".into() }, 422),
            (Refusal::IdempotencyMismatch, 422),
            (Refusal::BadAnswer { why: "x".into() }, 422),
        ];
        for (refusal, status) in table {
            let code = refusal.code();
            let error = Error::from(EngineError::from(refusal));
            assert_eq!(
                (error.status.as_u16(), error.document()["code"].as_str()),
                (status, Some(code))
            );
        }
    }

    #[test]
    fn a_failed_store_is_not_the_clients_fault() {
        use ctx_engine::StoreError;
        let table = [
            (StoreError::Full, 507),
            (StoreError::ReadOnly(String::new()), 503),
            (StoreError::Unavailable(String::new()), 503),
            (StoreError::Damaged(String::new()), 503),
            (StoreError::Internal(String::new()), 500),
        ];
        for (error, status) in table {
            assert_eq!(Error::from(EngineError::from(error)).status.as_u16(), status);
        }
    }
}
