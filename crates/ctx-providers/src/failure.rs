//! Maps HTTP statuses, error bodies and errors inside a stream to a [`Failure`].
//!
//! Servers of the same API report errors differently, so bodies are searched for known phrases.

use std::time::Duration;

use ctx_engine::provider::{Failure, FailureClass};
use serde_json::Value;

/// Phrases that report a context overflow, in lower case.
const OVERFLOW_PHRASES: [&str; 12] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context length",
    "context window",
    "context size",
    "maximum context",
    "too many tokens",
    "maximum number of tokens",
    "prompt is too long",
    "input is too long",
    "too many input tokens",
    "request_too_large",
];

/// From this duration on, the error message names the requested pause.
const REPORTED_PAUSE_MIN: Duration = Duration::from_secs(60);

/// Whether an error text reports that the conversation is too long for the model.
pub(crate) fn reports_overflow(text: &str) -> bool {
    let text = text.to_lowercase();
    OVERFLOW_PHRASES.iter().any(|phrase| text.contains(phrase))
}

/// Classifies an HTTP response that is not a success.
pub(crate) fn from_status(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Failure {
    let fields = ErrorFields::from_body(body);
    let (code, class) = classify(status, &fields);
    let message = match (fields.message.as_str(), status) {
        ("", 300..400) => format!(
            "The server answered {status}: it redirects to another address. Check `base_url`."
        ),
        ("", 404) => {
            "The server answered 404: nothing exists at this address. Check `base_url`.".to_owned()
        }
        ("", _) => format!("The server answered {status}."),
        (text, _) => format!("The server answered {status}: {text}"),
    };
    let message = match retry_after {
        Some(pause) if pause >= REPORTED_PAUSE_MIN => {
            format!("{message} It asks for a pause of {} s.", pause.as_secs())
        }
        _ => message,
    };
    Failure { retry_after, ..Failure::new(code, class, message) }
}

/// Classifies an `error` object inside a response.
pub(crate) fn from_stream_error(error: &Value) -> Failure {
    let fields = ErrorFields::from_error(error);
    let (code, class) = match fields.status {
        Some(status) => classify(status, &fields),
        None => classify_by_name(&fields),
    };
    let reason = if fields.message.is_empty() { "no reason given" } else { &fields.message };
    Failure::new(code, class, format!("The server failed during its response: {reason}"))
}

/// The response does not follow the format of the API.
pub(crate) fn malformed(what: &str) -> Failure {
    Failure::new(
        "bad_stream",
        FailureClass::Permanent,
        format!("The server's response cannot be parsed: {what}"),
    )
}

/// The response exceeds a size limit.
pub(crate) fn too_large(what: &str) -> Failure {
    Failure::new(
        "too_large",
        FailureClass::Permanent,
        format!("The server's response is too large: {what}"),
    )
}

/// The connection ended before the response was complete.
pub(crate) fn cut_off() -> Failure {
    Failure::new(
        "stream_cut",
        FailureClass::RetryLater,
        "The server's response ended before it was complete.",
    )
}

fn classify(status: u16, fields: &ErrorFields) -> (&'static str, FailureClass) {
    match status {
        401 | 403 => ("auth_required", FailureClass::Auth),
        400 | 413 | 422 | 500 if fields.is_overflow() => {
            ("context_overflow", FailureClass::Overflow)
        }
        402 => ("quota_exceeded", FailureClass::Permanent),
        429 if fields.is_quota_exhausted() => ("quota_exceeded", FailureClass::Permanent),
        429 => ("rate_limited", FailureClass::RetryLater),
        408 | 500..600 => ("provider_error", FailureClass::RetryLater),
        400..500 if fields.is_unknown_model(status) => ("model_not_found", FailureClass::Permanent),
        _ => ("bad_request", FailureClass::Permanent),
    }
}

/// Classifies an error without a status by its type and code. An unknown name counts as a server
/// error that a retry may resolve, because the server accepted the request.
fn classify_by_name(fields: &ErrorFields) -> (&'static str, FailureClass) {
    let has = |words: &[&str]| words.iter().any(|word| fields.names.contains(word));
    if fields.is_overflow() {
        ("context_overflow", FailureClass::Overflow)
    } else if fields.is_quota_exhausted() {
        ("quota_exceeded", FailureClass::Permanent)
    } else if has(&["rate_limit", "quota", "too_many_requests"]) {
        ("rate_limited", FailureClass::RetryLater)
    } else if has(&["api_key", "auth", "permission"]) {
        ("auth_required", FailureClass::Auth)
    } else if has(&["model_not_found"]) {
        ("model_not_found", FailureClass::Permanent)
    } else if has(&["invalid_request", "bad_request", "badrequest"]) {
        ("bad_request", FailureClass::Permanent)
    } else {
        ("provider_error", FailureClass::RetryLater)
    }
}

/// The useful fields of an error object.
#[derive(Debug, Default)]
struct ErrorFields {
    message: String,
    /// The values of `type`, `code` and `status`, in lower case.
    names: String,
    /// The error code, if it is an HTTP error status.
    status: Option<u16>,
}

impl ErrorFields {
    fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            // Some servers wrap the object in a list.
            Ok(Value::Array(list)) => list.first().map(Self::from_json).unwrap_or_default(),
            Ok(json) => Self::from_json(&json),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // An HTML page is not a useful error message.
                let message = if text.trim_start().starts_with('<') {
                    String::new()
                } else {
                    text.trim().to_owned()
                };
                Self { message, ..Self::default() }
            }
        }
    }

    fn from_json(json: &Value) -> Self {
        Self::from_error(json.get("error").unwrap_or(json))
    }

    fn from_error(error: &Value) -> Self {
        if let Some(text) = error.as_str() {
            return Self { message: text.to_owned(), ..Self::default() };
        }
        let message =
            ["message", "detail", "error"].iter().find_map(|key| match error.get(*key)? {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            });
        let code = &error["code"];
        let status = code
            .as_u64()
            .or_else(|| code.as_str()?.parse().ok())
            .or_else(|| error["status"].as_u64());
        let names =
            ["type", "code", "status"].map(|key| error[key].as_str().unwrap_or_default()).join(" ");
        Self {
            message: message.unwrap_or_default(),
            names: names.to_lowercase(),
            status: status
                .and_then(|status| u16::try_from(status).ok())
                .filter(|status| (400..600).contains(status)),
        }
    }

    fn is_overflow(&self) -> bool {
        reports_overflow(&self.message) || reports_overflow(&self.names)
    }

    /// Whether a quota is exhausted; a retry cannot succeed then.
    fn is_quota_exhausted(&self) -> bool {
        ["insufficient_quota", "billing"].iter().any(|name| self.names.contains(name))
    }

    fn is_unknown_model(&self, status: u16) -> bool {
        self.names.contains("model_not_found")
            || status == 404 && self.message.to_lowercase().contains("model")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statuses_and_bodies_are_classified() {
        let table = [
            (
                401,
                r#"{"error":{"message":"Incorrect API key"}}"#,
                "auth_required",
                FailureClass::Auth,
            ),
            (403, "", "auth_required", FailureClass::Auth),
            (429, r#"{"error":{"message":"slow down"}}"#, "rate_limited", FailureClass::RetryLater),
            (
                429,
                r#"{"error":{"message":"Quota exceeded","type":"x","code":"insufficient_quota"}}"#,
                "quota_exceeded",
                FailureClass::Permanent,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"x","message":"prompt is too long: 21 > 20"}}"#,
                "context_overflow",
                FailureClass::Overflow,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"x"}}"#,
                "context_overflow",
                FailureClass::Overflow,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "provider_error",
                FailureClass::RetryLater,
            ),
            (408, "", "provider_error", FailureClass::RetryLater),
            (500, "<html>oops</html>", "provider_error", FailureClass::RetryLater),
            (
                503,
                r#"{"error":{"message":"Loading model"}}"#,
                "provider_error",
                FailureClass::RetryLater,
            ),
            (529, "", "provider_error", FailureClass::RetryLater),
            (
                400,
                r#"{"error":{"message":"bad","code":"context_length_exceeded"}}"#,
                "context_overflow",
                FailureClass::Overflow,
            ),
            (
                400,
                r#"{"object":"error","message":"The maximum context length is 4096 tokens."}"#,
                "context_overflow",
                FailureClass::Overflow,
            ),
            (413, r#"{"error":"Too many tokens"}"#, "context_overflow", FailureClass::Overflow),
            (
                500,
                r#"{"error":{"message":"the request exceeds the available context size"}}"#,
                "context_overflow",
                FailureClass::Overflow,
            ),
            (413, "too big", "bad_request", FailureClass::Permanent),
            (
                400,
                r#"[{"error":{"message":"bad tools","status":"INVALID_ARGUMENT"}}]"#,
                "bad_request",
                FailureClass::Permanent,
            ),
            (422, r#"{"detail":[{"loc":["body"]}]}"#, "bad_request", FailureClass::Permanent),
            (
                404,
                r#"{"error":{"message":"model \"x\" not found, try pulling it first"}}"#,
                "model_not_found",
                FailureClass::Permanent,
            ),
            (
                400,
                r#"{"error":{"message":"no","code":"model_not_found"}}"#,
                "model_not_found",
                FailureClass::Permanent,
            ),
            (404, "", "bad_request", FailureClass::Permanent),
            (301, "", "bad_request", FailureClass::Permanent),
        ];
        for (status, body, code, class) in table {
            let failure = from_status(status, None, body.as_bytes());
            assert_eq!((failure.code.as_str(), failure.class), (code, class), "{status} {body}");
            assert!(failure.message.contains(&status.to_string()), "{}", failure.message);
        }
    }

    #[test]
    fn server_message_is_quoted_but_html_pages_are_not() {
        let message = |body: &str| from_status(400, None, body.as_bytes()).message;
        assert_eq!(
            message(r#"{"error":{"message":"no such tool"}}"#),
            "The server answered 400: no such tool"
        );
        assert_eq!(message(r#"{"detail":["a"]}"#), r#"The server answered 400: ["a"]"#);
        assert_eq!(message("plain text"), "The server answered 400: plain text");
        assert_eq!(message("<html>"), "The server answered 400.");
        let limited = from_status(429, Some(Duration::from_secs(90)), b"{}");
        assert_eq!(limited.message, "The server answered 429. It asks for a pause of 90 s.");
    }

    #[test]
    fn errors_inside_a_response_are_classified() {
        let table = [
            (json!({"code": 429, "message": "x"}), "rate_limited"),
            (json!({"code": "502", "message": "x"}), "provider_error"),
            (json!({"type": "rate_limit_error"}), "rate_limited"),
            (json!({"type": "authentication_error"}), "auth_required"),
            (json!({"type": "invalid_request_error", "message": "bad"}), "bad_request"),
            (
                json!({"type": "invalid_request_error", "message": "prompt is too long"}),
                "context_overflow",
            ),
            (json!({"type": "server_error"}), "provider_error"),
            (json!({"type": "overloaded_error", "message": "Overloaded"}), "provider_error"),
            (json!({"code": "rate_limit_exceeded", "message": "x"}), "rate_limited"),
            (json!({"code": "insufficient_quota", "message": "x"}), "quota_exceeded"),
            (json!("something broke"), "provider_error"),
        ];
        for (error, code) in table {
            assert_eq!(from_stream_error(&error).code, code, "{error}");
        }
    }
}
