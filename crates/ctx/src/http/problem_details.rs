//! Error responses: RFC 9457 problem details with a stable `code`.

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::Error as EngineError;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::problem::Problem;

pub(super) const PROBLEM_JSON: &str = "application/problem+json";

pub(super) type HttpResult<T> = Result<T, Error>;

/// Problem details (RFC 9457); some codes add fields of their own
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemDetails {
    /// Always `about:blank`; `code` identifies the problem
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    /// Stable identifier of the problem, for programs
    code: String,
    /// A request or setting that helps
    hint: Option<String>,
}

/// An error response.
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

    /// 422: the request is well-formed but has an invalid value.
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

    /// Problem details for an error status that the router set.
    pub(super) fn of_status(status: StatusCode, method: &str, path: &str) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => {
                ("not_found", format!("there is no resource at {}", clipped(path)))
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                ("method_not_allowed", format!("{} does not support {method}", clipped(path)))
            }
            _ => (
                "bad_request",
                status.canonical_reason().unwrap_or("the request failed").to_owned(),
            ),
        };
        Self::new(status, code, detail)
    }

    /// The status, the code and the text, for an API with another form of errors.
    pub(super) fn into_parts(self) -> (StatusCode, &'static str, String) {
        (self.status, self.code, self.detail)
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

/// Limits how much client input an error message repeats.
fn clipped(text: &str) -> String {
    text.chars().take(200).collect()
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let status = status_of(error.code());
        if status.is_server_error() {
            tracing::error!(code = error.code(), %error, "request failed");
        }
        let code = error.code();
        let problem = Problem::from(error);
        let hint = hint(code).map(str::to_owned);
        Self { hint, extra: problem.extra().to_vec(), ..Self::new(status, code, problem.message) }
    }
}

fn status_of(code: &str) -> StatusCode {
    match code {
        "no_session" | "not_found" | "no_suspension" | "no_item" | "not_pinned" | "no_entity"
        | "no_identity" | "no_alias" => StatusCode::NOT_FOUND,
        "access_denied" | "no_policy" | "no_session_key" | "approval_denied" => {
            StatusCode::FORBIDDEN
        }
        "unknown_provider"
        | "unknown_persona"
        | "tools_unsupported"
        | "bad_tool"
        | "idempotency_mismatch"
        | "bad_answer"
        | "bad_label"
        | "bad_text"
        | "invalid_cursor"
        | "invalid_regex"
        | "unknown_filter"
        | "query_too_long"
        | "invalid_filter"
        | "too_many"
        | "not_observable"
        | "not_a_bundle"
        | "bundle_too_new"
        | "bundle_too_large"
        | "missing_head"
        | "other_bundle"
        | "missing_variable"
        | "same_entity"
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
        | "not_dead"
        | "compact_unavailable"
        | "nothing_to_compact"
        | "no_compaction"
        | "too_much_pinned"
        | "already_sealed"
        | "already_ended"
        | "entity_merged"
        | "identity_linked"
        | "ambiguous_name"
        | "ambiguous_id"
        | "diverged" => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Hints for API clients. The command line has its own in `problem.rs`.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "no_session" => {
            "list the sessions with GET /api/sessions; percent-encode labels in the path"
        }
        "ambiguous_id" => "use more characters of the id; `candidates` has the complete ids",
        "label_in_use" => "choose another label",
        "invalid_cursor" => "read the first page again, without `cursor`",
        "invalid_regex" => "put the text into quotes to search for it literally",
        "unknown_filter" | "invalid_filter" => {
            "see docs/search.md for the filters; put the text into quotes to search for it"
        }
        "unknown_provider" => "list the providers with GET /api/providers",
        "steer_unavailable" => "set `queue_mode` to `steer-backlog`, `queue` or `interrupt`",
        "delivery_refused" => "set `delivery` to `open` with PATCH /api/sessions/{id}",
        "inbox_full" => "wait, or remove a message with DELETE /api/sessions/{id}/inbox/{item}",
        "idempotency_mismatch" => "use a new Idempotency-Key for a new request",
        "prompt_open" => "answer it with POST /api/sessions/{id}/answer",
        "compact_unavailable" => {
            "use the agent's own command; `commands` in GET /api/providers lists them"
        }
        "too_much_pinned" => "unpin another turn with DELETE /api/sessions/{id}/pins/{turn}",
        "not_dead" => "list the dead deliveries with GET /api/outbox?status=dead",
        "session_busy" => {
            "wait until the session is idle, or cancel with POST /api/sessions/{id}/cancel"
        }
        "not_a_bundle" => "export a session with GET /api/sessions/{id}/export",
        "other_bundle" => "import a task with `ctx stage import FILE`",
        "no_entity" | "ambiguous_name" => "list the entities and their ids with GET /api/entities",
        "no_identity" => "list the addresses with GET /api/entities/{id}/identities",
        "no_alias" => "list the aliases with GET /api/aliases",
        "identity_linked" => {
            "remove that link with DELETE /api/entities/{id}/identities, or merge the two entities"
        }
        "no_policy" => "create policies.yaml beside ctx.toml",
        "access_denied" | "no_session_key" | "missing_variable" | "approval_denied" => {
            "show the part of each policy with `ctx policy explain`"
        }
        "disk_full" => "free disk space and retry; acknowledged data is safe",
        "unavailable" => "retry; acknowledged data is safe",
        "damaged" => "list the damage with `ctx verify`",
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
    fn each_refusal_has_its_status_and_code() {
        let table = [
            (Refusal::NoSession, 404),
            (Refusal::NoSuspension, 404),
            (Refusal::NoInboxItem, 404),
            (Refusal::LabelInUse { label: "x".into() }, 409),
            (Refusal::SteerUnavailable, 409),
            (Refusal::SuspensionConsumed, 409),
            (Refusal::NotDead { status: "pending" }, 409),
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
    fn store_failures_are_server_errors() {
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
