//! The HTTP client for model servers: timeouts, size limits, and failures before a response.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ctx_engine::provider::{Failure, FailureClass};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use tokio::time::Instant;

use crate::key_redaction;

/// Maximum size of an error body that is read.
pub(crate) const ERROR_MAX_BYTES: usize = 64 * 1024;
/// Maximum length of a failure message.
const MESSAGE_MAX_CHARS: usize = 500;
/// Maximum pause before a retry. Also prevents an overflow when it is added to a timestamp.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Timeouts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time to establish a connection.
    pub connect: Duration,
    /// Maximum time until the first byte of the response. A local model may process a long prompt
    /// for minutes.
    pub first_byte: Duration,
    /// Maximum time between two chunks of the response.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        }
    }
}

/// Creates a client for one server.
///
/// # Errors
/// A message for the user if the address is not an HTTP URL or the system's certificates cannot be
/// read.
pub fn client(base_url: &str, timeouts: &Timeouts) -> Result<Client, String> {
    // reqwest panics without a crypto provider. An error means that one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = Url::parse(base_url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| "base_url is not an http or https address".to_owned())?;
    let mut builder = Client::builder()
        .user_agent(concat!("ctx/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        // A redirect could send the conversation and the key to a server that is not configured.
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // Plain HTTP needs no certificates and must work on a system without any.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| error_chain(&error))
}

/// The key from the configuration, or from the environment variable. Empty values are ignored.
pub(crate) fn api_key(given: Option<&str>, variable: Option<&str>) -> Option<String> {
    let set = |key: &str| Some(key.trim().to_owned()).filter(|key| !key.is_empty());
    given.and_then(set).or_else(|| std::env::var(variable?).ok().as_deref().and_then(set))
}

/// Reads at most `max_bytes` of a body until the deadline.
pub(crate) async fn read_up_to(
    response: &mut Response,
    max_bytes: usize,
    deadline: Instant,
) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = tokio::time::timeout_at(deadline, response.chunk()).await {
        let room = max_bytes - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if body.len() == max_bytes {
            break;
        }
    }
    body
}

/// Parses the `Retry-After` header: seconds or an HTTP date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let span = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
            let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at).ok()?);
            at.duration_since(now).unwrap_or(Duration::ZERO)
        }
    };
    Some(span.min(RETRY_AFTER_MAX))
}

/// The connection failed or was closed before a response.
pub(crate) fn unreachable(error: reqwest::Error) -> Failure {
    // The URL may contain a password.
    let error = error.without_url();
    let (code, class) = if error.is_builder() {
        ("bad_request", FailureClass::Permanent)
    } else {
        ("unreachable", FailureClass::RetryLater)
    };
    Failure::new(code, class, format!("The server cannot be reached: {}", error_chain(&error)))
}

/// The server sent nothing for this duration.
pub(crate) fn timeout(waited: Duration) -> Failure {
    let message = format!("The server sent nothing for {} s.", waited.as_secs_f32());
    Failure::new("timeout", FailureClass::RetryLater, message)
}

/// Makes a failure presentable: no API key, one line, limited length.
///
/// The key is removed before the text is shortened: part of a key would not be recognised.
pub(crate) fn presentable(failure: Failure, key: Option<&str>) -> Failure {
    let message = key_redaction::redact(&failure.message, key);
    let mut line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|c| !c.is_control());
    if let Some((at, _)) = line.char_indices().nth(MESSAGE_MAX_CHARS) {
        line.truncate(at);
        line.push('…');
    }
    Failure { message: line, ..failure }
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An error with all of its causes: `error sending request` alone is not helpful.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_parsed_as_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let table = [
            ("7", Some(7)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999999999", Some(24 * 3600)),
            ("soon", None),
            ("-1", None),
        ];
        for (text, seconds) in table {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().expect("a header"))]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn failure_message_is_one_short_line_without_the_key() {
        let message_of = |message: &str, key: &str| {
            presentable(Failure::new("x", FailureClass::Auth, message), Some(key)).message
        };
        assert_eq!(
            message_of("  wrong key\n\tsk-12345\u{7} (sk-12345) ", "sk-12345"),
            "wrong key [key] ([key])"
        );
        assert_eq!(message_of("an axe", "x"), "an axe");
        let long = message_of(&"é".repeat(600), "sk-12345");
        assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
        let at_the_edge = message_of(&format!("{}sk-12345", "é".repeat(496)), "sk-12345");
        assert!(!at_the_edge.contains("sk"), "{at_the_edge}");
    }

    #[test]
    fn only_http_urls_are_accepted_and_loopback_uses_no_proxy() {
        for bad in ["", "localhost:8080", "file:///etc/passwd", "http://"] {
            assert!(client(bad, &Timeouts::default()).is_err(), "{bad}");
        }
        assert!(client("http://127.0.0.1:1/v1", &Timeouts::default()).is_ok());
        let local = |url: &str| is_loopback(&Url::parse(url).expect("a URL"));
        assert!(
            local("http://127.0.0.1:8080/v1")
                && local("http://localhost/v1")
                && local("http://[::1]:1")
        );
        assert!(!local("https://api.example.com/v1") && !local("http://192.168.0.1"));
    }
}
