//! What adapters of HTTP APIs share: the client, its patience, its bounds, and failures before an answer began.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ctx_engine::provider::{Class, Failure};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use tokio::time::Instant;

use crate::key_redaction;

/// The most of a body that tells an error.
pub(crate) const ERROR_MAX_BYTES: usize = 64 * 1024;
/// The most that a failure says.
const MESSAGE_MAX_CHARS: usize = 500;
/// Nobody is left alone for longer, whatever a server says; it also keeps sums of times from overflowing.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a server is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of the answer; a local model reads a long prompt for minutes.
    pub first_byte: Duration,
    /// For the next byte.
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

/// A client for one server.
///
/// # Errors
/// In words for a person, if the address is none or the machine's certificates cannot be read.
pub(crate) fn client(base_url: &str, timeouts: &Timeouts) -> Result<Client, String> {
    // Without a provider of cryptography reqwest panics; somebody else may have installed one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = Url::parse(base_url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| "its base_url is not an http or https address".to_owned())?;
    let mut builder = Client::builder()
        .user_agent(concat!("ctx/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        // A redirect would carry the conversation, and perhaps the key, to where nobody configured it to go.
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // Needs no certificates, and must work on a machine that has none.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| causes(&error))
}

/// A value from the configuration, else from the variable that is named; an empty one is none.
pub(crate) fn key(given: Option<&str>, variable: Option<&str>) -> Option<String> {
    let set = |key: &str| Some(key.trim().to_owned()).filter(|key| !key.is_empty());
    given.and_then(set).or_else(|| std::env::var(variable?).ok().as_deref().and_then(set))
}

/// The first bytes of a body, or what came of them until `by`.
pub(crate) async fn read_up_to(response: &mut Response, max_bytes: usize, by: Instant) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = tokio::time::timeout_at(by, response.chunk()).await {
        let room = max_bytes - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if body.len() == max_bytes {
            break;
        }
    }
    body
}

/// How long the server wants to be left alone: seconds, or an HTTP date.
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

/// The server was not reached, or went away before it answered.
pub(crate) fn unreachable(error: reqwest::Error) -> Failure {
    // The address may hold what is nobody's business.
    let error = error.without_url();
    let (code, class) = if error.is_builder() {
        ("bad_request", Class::GiveUp)
    } else {
        ("unreachable", Class::RetryLater)
    };
    Failure::new(code, class, format!("The server was not reached: {}", causes(&error)))
}

/// The server was too slow.
pub(crate) fn timeout(waited: Duration) -> Failure {
    let message = format!("The server said nothing for {} s.", waited.as_secs_f32());
    Failure::new("timeout", Class::RetryLater, message)
}

/// A failure as it may be told: without the key, whoever repeated it, and in one short line.
///
/// The key goes first: cut in the middle it would no longer be found.
pub(crate) fn tellable(failure: Failure, key: Option<&str>) -> Failure {
    let message = key_redaction::without(&failure.message, key);
    let mut words = message.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !c.is_control());
    if let Some((at, _)) = words.char_indices().nth(MESSAGE_MAX_CHARS) {
        words.truncate(at);
        words.push('…');
    }
    Failure { message: words, ..failure }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An error with all that caused it: `error sending request` alone helps nobody.
fn causes(error: &dyn Error) -> String {
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
    fn retry_after_is_seconds_or_a_date() {
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
    fn a_failure_tells_one_short_line_and_never_the_key() {
        let told = |message: &str, key: &str| {
            tellable(Failure::new("x", Class::Auth, message), Some(key)).message
        };
        assert_eq!(
            told("  wrong key\n\tsk-12345\u{7} (sk-12345) ", "sk-12345"),
            "wrong key [key] ([key])"
        );
        assert_eq!(told("an axe", "x"), "an axe");
        let long = told(&"é".repeat(600), "sk-12345");
        assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
        let at_the_edge = told(&format!("{}sk-12345", "é".repeat(496)), "sk-12345");
        assert!(!at_the_edge.contains("sk"), "{at_the_edge}");
    }

    #[test]
    fn only_http_addresses_are_taken_and_only_this_machine_needs_no_proxy() {
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
