//! What went wrong, and what helps: statuses, bodies and errors inside a stream, sorted for the caller.
//!
//! Servers agree on little here, even those that speak the same API, so a body is searched for what they are known to say.

use std::time::Duration;

use ctx_engine::provider::{Class, Failure};
use serde_json::Value;

/// How servers say that a conversation is too long for the model.
const OVERFLOWS: [&str; 12] = [
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

/// A wait that a person wants to know of.
const LONG_WAIT: Duration = Duration::from_secs(60);

/// Whether these words say that a conversation is too long for the model.
pub(crate) fn says_overflow(words: &str) -> bool {
    let words = words.to_lowercase();
    OVERFLOWS.iter().any(|sign| words.contains(sign))
}

/// The failure that an HTTP status and its body tell.
pub(crate) fn of_status(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Failure {
    let said = Said::in_body(body);
    let (code, class) = classify(status, &said);
    let message = match (said.message.as_str(), status) {
        ("", 300..400) => format!(
            "The server answered {status}: it wants to be asked elsewhere. Is base_url right?"
        ),
        ("", 404) => {
            "The server answered 404: there is nothing at this address. Is base_url right?"
                .to_owned()
        }
        ("", _) => format!("The server answered {status}."),
        (words, _) => format!("The server answered {status}: {words}"),
    };
    let message = match retry_after {
        Some(wait) if wait >= LONG_WAIT => {
            format!("{message} It wants to be left alone for {} s.", wait.as_secs())
        }
        _ => message,
    };
    Failure { retry_after, ..Failure::new(code, class, message) }
}

/// The failure that an `error` inside an answer tells.
pub(crate) fn in_stream(error: &Value) -> Failure {
    let said = Said::in_error(error);
    let (code, class) = match said.status {
        Some(status) => classify(status, &said),
        None => classify_by_name(&said),
    };
    let words = if said.message.is_empty() { "it does not say why" } else { &said.message };
    Failure::new(code, class, format!("The server failed while it answered: {words}"))
}

/// The answer is not what this API says.
pub(crate) fn bad_stream(what: &str) -> Failure {
    Failure::new("bad_stream", Class::GiveUp, format!("The server's answer cannot be read: {what}"))
}

/// The answer is past its bound.
pub(crate) fn too_large(what: &str) -> Failure {
    Failure::new("too_large", Class::GiveUp, format!("The server's answer is too large: {what}"))
}

/// The answer stopped in the middle.
pub(crate) fn cut() -> Failure {
    Failure::new("stream_cut", Class::RetryLater, "The server's answer broke off before its end.")
}

fn classify(status: u16, said: &Said) -> (&'static str, Class) {
    match status {
        401 | 403 => ("auth_required", Class::Auth),
        400 | 413 | 422 | 500 if said.is_overflow() => ("context_overflow", Class::Overflow),
        402 => ("quota_exceeded", Class::GiveUp),
        429 if said.is_about_money() => ("quota_exceeded", Class::GiveUp),
        429 => ("rate_limited", Class::RetryLater),
        408 | 500..600 => ("provider_error", Class::RetryLater),
        400..500 if said.is_about_model(status) => ("model_not_found", Class::GiveUp),
        _ => ("bad_request", Class::GiveUp),
    }
}

/// Where there is no status, its name must do. A name that says nothing is taken for a server in trouble: the request
/// was good enough to be answered.
fn classify_by_name(said: &Said) -> (&'static str, Class) {
    let has = |words: &[&str]| words.iter().any(|word| said.names.contains(word));
    if said.is_overflow() {
        ("context_overflow", Class::Overflow)
    } else if said.is_about_money() {
        ("quota_exceeded", Class::GiveUp)
    } else if has(&["rate_limit", "quota", "too_many_requests"]) {
        ("rate_limited", Class::RetryLater)
    } else if has(&["api_key", "auth", "permission"]) {
        ("auth_required", Class::Auth)
    } else if has(&["model_not_found"]) {
        ("model_not_found", Class::GiveUp)
    } else if has(&["invalid_request", "bad_request", "badrequest"]) {
        ("bad_request", Class::GiveUp)
    } else {
        ("provider_error", Class::RetryLater)
    }
}

/// What an error says, wherever in it.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// Its type and code, in lower case.
    names: String,
    /// Its code, where that is an HTTP status.
    status: Option<u16>,
}

impl Said {
    fn in_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            // Some wrap the object in a list.
            Ok(Value::Array(list)) => list.first().map(Self::in_json).unwrap_or_default(),
            Ok(json) => Self::in_json(&json),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // A page says nothing that a person wants to read here.
                let message = if text.trim_start().starts_with('<') {
                    String::new()
                } else {
                    text.trim().to_owned()
                };
                Self { message, ..Self::default() }
            }
        }
    }

    fn in_json(json: &Value) -> Self {
        Self::in_error(json.get("error").unwrap_or(json))
    }

    fn in_error(error: &Value) -> Self {
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
        says_overflow(&self.message) || says_overflow(&self.names)
    }

    /// Waiting does not help who has spent what they had.
    fn is_about_money(&self) -> bool {
        ["insufficient_quota", "billing"].iter().any(|name| self.names.contains(name))
    }

    fn is_about_model(&self, status: u16) -> bool {
        self.names.contains("model_not_found")
            || status == 404 && self.message.to_lowercase().contains("model")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statuses_and_bodies_say_what_helps() {
        let table = [
            (401, r#"{"error":{"message":"Incorrect API key"}}"#, "auth_required", Class::Auth),
            (403, "", "auth_required", Class::Auth),
            (429, r#"{"error":{"message":"slow down"}}"#, "rate_limited", Class::RetryLater),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                "quota_exceeded",
                Class::GiveUp,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                "context_overflow",
                Class::Overflow,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"x"}}"#,
                "context_overflow",
                Class::Overflow,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "provider_error",
                Class::RetryLater,
            ),
            (408, "", "provider_error", Class::RetryLater),
            (500, "<html>oops</html>", "provider_error", Class::RetryLater),
            (503, r#"{"error":{"message":"Loading model"}}"#, "provider_error", Class::RetryLater),
            (529, "", "provider_error", Class::RetryLater),
            (
                400,
                r#"{"error":{"message":"bad","code":"context_length_exceeded"}}"#,
                "context_overflow",
                Class::Overflow,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens."}"#,
                "context_overflow",
                Class::Overflow,
            ),
            (413, r#"{"error":"Too many tokens"}"#, "context_overflow", Class::Overflow),
            (
                500,
                r#"{"error":{"message":"the request exceeds the available context size"}}"#,
                "context_overflow",
                Class::Overflow,
            ),
            (413, "too big", "bad_request", Class::GiveUp),
            (
                400,
                r#"[{"error":{"message":"bad tools","status":"INVALID_ARGUMENT"}}]"#,
                "bad_request",
                Class::GiveUp,
            ),
            (422, r#"{"detail":[{"loc":["body"]}]}"#, "bad_request", Class::GiveUp),
            (
                404,
                r#"{"error":{"message":"model \"x\" not found, try pulling it first"}}"#,
                "model_not_found",
                Class::GiveUp,
            ),
            (
                400,
                r#"{"error":{"message":"no","code":"model_not_found"}}"#,
                "model_not_found",
                Class::GiveUp,
            ),
            (404, "", "bad_request", Class::GiveUp),
            (301, "", "bad_request", Class::GiveUp),
        ];
        for (status, body, code, class) in table {
            let failure = of_status(status, None, body.as_bytes());
            assert_eq!((failure.code.as_str(), failure.class), (code, class), "{status} {body}");
            assert!(failure.message.contains(&status.to_string()), "{}", failure.message);
        }
    }

    #[test]
    fn the_servers_words_are_kept_and_pages_are_not() {
        let message = |body: &str| of_status(400, None, body.as_bytes()).message;
        assert_eq!(
            message(r#"{"error":{"message":"no such tool"}}"#),
            "The server answered 400: no such tool"
        );
        assert_eq!(message(r#"{"detail":["a"]}"#), r#"The server answered 400: ["a"]"#);
        assert_eq!(message("plain words"), "The server answered 400: plain words");
        assert_eq!(message("<html>"), "The server answered 400.");
        let limited = of_status(429, Some(Duration::from_secs(90)), b"{}");
        assert_eq!(limited.message, "The server answered 429. It wants to be left alone for 90 s.");
    }

    #[test]
    fn errors_inside_an_answer_are_sorted_too() {
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
            assert_eq!(in_stream(&error).code, code, "{error}");
        }
    }
}
