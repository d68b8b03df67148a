//! Errors in OpenAI's form: `{"error": {message, type, param, code}}`.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::extractors::Json;
use super::super::problem_details::Error;

/// Read by OpenAI's clients, which otherwise repeat requests by their status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Marks a response whose error is in the form of this API already.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Complete;

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct ApiError {
    status: StatusCode,
    code: String,
    message: String,
    param: Option<&'static str>,
    /// Whether the client should send the request again; by its status if `None`.
    retry: Option<bool>,
}

pub(super) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        Self { status, code, message, param: None, retry: None }
    }

    /// 400: a field of the request is invalid.
    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, "invalid_value", message);
        Self { param: Some(param), ..error }
    }

    pub(super) fn not_found(code: &str, param: &'static str, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::NOT_FOUND, code, message);
        Self { param: Some(param), ..error }
    }

    pub(super) fn model_not_found(model: &str) -> Self {
        let model: String = model.chars().take(100).collect();
        let message = format!(
            "The model `{model}` does not exist. Models are named ctx/<provider>/<model>; \
             GET /v1/models lists them."
        );
        Self::not_found("model_not_found", "model", message)
    }

    /// A failure of the provider, which is stored in the turn under `code`. ctx has repeated the
    /// request already where that may help.
    pub(super) fn of_provider(code: &str, message: &str) -> Self {
        let (status, name) = match code {
            "rate_limited" => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            "quota_exceeded" => (StatusCode::TOO_MANY_REQUESTS, "insufficient_quota"),
            "context_overflow" => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
            "model_not_found" => (StatusCode::NOT_FOUND, "model_not_found"),
            "bad_request" => (StatusCode::BAD_REQUEST, "bad_request"),
            "timeout" => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            "interrupted" | "cancelled" => (StatusCode::INTERNAL_SERVER_ERROR, code),
            code => (StatusCode::BAD_GATEWAY, code),
        };
        Self { retry: Some(false), ..Self::new(status, name, message) }
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn document(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        }})
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            429 if self.code == "insufficient_quota" => "insufficient_quota",
            429 => "requests",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let (status, code, message) = error.into_parts();
        let (status, code, param) = match (status.as_u16(), code) {
            (401, _) => (status, "invalid_api_key", None),
            (_, "forbidden_scope") => (status, "insufficient_permissions", None),
            (_, "unknown_provider") => (StatusCode::NOT_FOUND, "model_not_found", Some("model")),
            (_, "inbox_full") => (status, "rate_limit_exceeded", None),
            (_, "tools_unsupported" | "bad_tool") => (StatusCode::BAD_REQUEST, code, Some("tools")),
            (415 | 422, _) | (_, "no_suspension") => (StatusCode::BAD_REQUEST, code, None),
            _ => (status, code, None),
        };
        // A conflict does not end by itself.
        let retry = (status == StatusCode::CONFLICT).then_some(false);
        Self { param, retry, ..Self::new(status, code, message) }
    }
}

impl From<ctx_engine::Error> for ApiError {
    fn from(error: ctx_engine::Error) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.document())).into_response();
        response.extensions_mut().insert(Complete);
        if let Some(retry) = self.retry {
            let value = HeaderValue::from_static(if retry { "true" } else { "false" });
            response.headers_mut().insert(SHOULD_RETRY, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_a_provider_has_its_status_and_code() {
        let table = [
            ("rate_limited", 429, "rate_limit_exceeded", "requests"),
            ("quota_exceeded", 429, "insufficient_quota", "insufficient_quota"),
            ("context_overflow", 400, "context_length_exceeded", "invalid_request_error"),
            ("auth_required", 502, "auth_required", "server_error"),
            ("provider_error", 502, "provider_error", "server_error"),
            ("timeout", 504, "timeout", "server_error"),
            ("interrupted", 500, "interrupted", "server_error"),
        ];
        for (code, status, name, kind) in table {
            let error = ApiError::of_provider(code, "why");
            let document = error.document();
            assert_eq!(error.status.as_u16(), status, "{code}");
            assert_eq!(document["error"]["code"], name);
            assert_eq!(document["error"]["type"], kind);
            assert_eq!(document["error"]["message"], "why");
            assert_eq!(error.into_response().headers()[SHOULD_RETRY], "false");
        }
    }

    #[test]
    fn problems_of_ctx_have_the_codes_of_openai() {
        let of = |status: StatusCode, code| {
            let error = ApiError::from(Error::new(status, code, "why"));
            (error.status.as_u16(), error.code)
        };
        let table = [
            (StatusCode::UNAUTHORIZED, "unauthorized", 401, "invalid_api_key"),
            (StatusCode::FORBIDDEN, "forbidden_scope", 403, "insufficient_permissions"),
            (StatusCode::UNPROCESSABLE_ENTITY, "unknown_provider", 404, "model_not_found"),
            (StatusCode::UNPROCESSABLE_ENTITY, "bad_answer", 400, "bad_answer"),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", 400, "not_json"),
            (StatusCode::TOO_MANY_REQUESTS, "inbox_full", 429, "rate_limit_exceeded"),
            (StatusCode::NOT_FOUND, "no_suspension", 400, "no_suspension"),
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable", 503, "unavailable"),
        ];
        for (status, code, expected, name) in table {
            assert_eq!(of(status, code), (expected, name.to_owned()), "{code}");
        }
    }
}
