//! Deliveries to channels by signed webhook: one POST of JSON per attempt.
//!
//! The signature is made anew for each attempt, so that a receiver can reject old timestamps.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use ctx_core::outbox::Outgoing;
use ctx_core::text_limits::one_line;
use ctx_engine::{Courier, DeliveryError};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode, Url};
use ring::hmac;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http_client::{self, Timeouts, error_chain, is_loopback};

/// Most bytes of a response that are read.
const RESPONSE_MAX_BYTES: usize = 64 * 1024;
/// Longest part of a response that an error shows, in characters.
const SHOWN_MAX_CHARS: usize = 200;
/// The longest timeout of a delivery that can be configured.
pub const WEBHOOK_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// The configuration of a channel.
#[derive(Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct WebhookConfig {
    pub url: String,
    /// The key of the signature. Without it every delivery fails.
    pub secret: Option<String>,
    /// Longest time of a delivery, up to the end of the response.
    pub timeout: Duration,
    /// Accepts an address of another machine without encryption.
    pub allow_http: bool,
}

struct Webhook {
    url: Url,
    config: WebhookConfig,
    client: OnceLock<Result<Client, String>>,
}

/// Delivers to the configured channels.
pub struct Webhooks {
    channels: BTreeMap<String, Webhook>,
}

impl Webhooks {
    /// Checks the configurations of channels, by name.
    ///
    /// # Errors
    /// The key of the wrong setting, and what is wrong with it.
    pub fn new(configs: BTreeMap<String, WebhookConfig>) -> Result<Self, String> {
        let mut channels = BTreeMap::new();
        for (name, config) in configs {
            let url = check_url(&config.url, config.allow_http)
                .map_err(|why| format!("channels.{name}.url: {why}"))?;
            if config.timeout.is_zero() || config.timeout > WEBHOOK_TIMEOUT_MAX {
                let max = WEBHOOK_TIMEOUT_MAX.as_secs();
                return Err(format!(
                    "channels.{name}.timeout: it must be at most {max}s and not 0"
                ));
            }
            channels.insert(name, Webhook { url, config, client: OnceLock::new() });
        }
        Ok(Self { channels })
    }
}

/// An address that a delivery may be sent to.
fn check_url(text: &str, allow_http: bool) -> Result<Url, &'static str> {
    let url =
        Url::parse(text).ok().filter(Url::has_host).ok_or("it is not an http or https URL")?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if allow_http || is_loopback(&url) => Ok(url),
        "http" => Err("the connection is not encrypted: use https, or set `allow_http = true`"),
        _ => Err("it is not an http or https URL"),
    }
}

#[async_trait]
impl Courier for Webhooks {
    fn channels(&self) -> Vec<String> {
        self.channels.keys().cloned().collect()
    }

    fn timeout(&self) -> Duration {
        let timeouts = self.channels.values().map(|channel| channel.config.timeout);
        timeouts.max().unwrap_or_default()
    }

    async fn deliver(&self, outgoing: &Outgoing) -> Result<(), DeliveryError> {
        let channel = self.channels.get(&outgoing.to.channel).ok_or_else(|| {
            DeliveryError::Failed(format!("channel `{}` is not configured", outgoing.to.channel))
        })?;
        channel.post(outgoing).await
    }
}

impl Webhook {
    async fn post(&self, outgoing: &Outgoing) -> Result<(), DeliveryError> {
        let failed = |why: String| DeliveryError::Failed(why);
        let Some(secret) = &self.config.secret else {
            return Err(failed("the secret of the channel is not set".to_owned()));
        };
        let timeout = self.config.timeout;
        let deadline = Instant::now() + timeout;
        let late = || failed(format!("no complete answer within {} s", timeout.as_secs_f32()));
        let body = document(outgoing).to_string();
        let timestamp = unix_seconds(SystemTime::now());
        let client = self.client.get_or_init(|| {
            let timeouts = Timeouts { connect: timeout, first_byte: timeout, idle: timeout };
            http_client::client(self.url.as_str(), &timeouts)
        });
        let client = client.as_ref().map_err(|why| failed(why.clone()))?;
        let request = client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("X-Ctx-Id", outgoing.id.to_string())
            .header("X-Ctx-Timestamp", timestamp)
            .header("X-Ctx-Signature", signature(secret, timestamp, body.as_bytes()))
            .body(body);
        let sent = tokio::time::timeout_at(deadline, request.send()).await.map_err(|_| late())?;
        // The URL may contain a password.
        let mut response = sent.map_err(|error| {
            failed(format!("the server cannot be reached: {}", error_chain(&error.without_url())))
        })?;
        let status = response.status();
        let mut answer = Vec::new();
        while answer.len() < RESPONSE_MAX_BYTES {
            let chunk = tokio::time::timeout_at(deadline, response.chunk());
            match chunk.await.map_err(|_| late())? {
                Ok(Some(bytes)) => {
                    let room = RESPONSE_MAX_BYTES - answer.len();
                    answer.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
                Ok(None) => break,
                Err(error) => {
                    let why = error_chain(&error.without_url());
                    return Err(failed(format!("the answer is incomplete: {why}")));
                }
            }
        }
        outcome(status, &answer)
    }
}

fn outcome(status: StatusCode, answer: &[u8]) -> Result<(), DeliveryError> {
    if status.is_success() {
        return Ok(());
    }
    let shown = one_line(&String::from_utf8_lossy(answer), SHOWN_MAX_CHARS);
    let reason = match status.is_redirection() {
        true => "redirects are not followed".to_owned(),
        false => shown,
    };
    let error = match reason.as_str() {
        "" => format!("status {}", status.as_u16()),
        reason => format!("status {}: {reason}", status.as_u16()),
    };
    Err(match status {
        StatusCode::GONE => DeliveryError::Gone(error),
        _ => DeliveryError::Failed(error),
    })
}

/// The body of the request.
fn document(outgoing: &Outgoing) -> Value {
    let body = &outgoing.body;
    let mut document = json!({
        "id": outgoing.id,
        "kind": outgoing.kind,
        "session": outgoing.session,
        "label": outgoing.label,
        "to": outgoing.to,
        "text": body.text,
        "turn": body.turn,
        "message_ids": body.message_ids,
        "created_at": outgoing.created_at.to_string(),
    });
    if let Some(prompt_id) = body.prompt_id {
        document["prompt_id"] = json!(prompt_id);
        document["choices"] = json!(body.choices);
    }
    if let Some(suspension_id) = body.suspension_id {
        document["suspension_id"] = json!(suspension_id);
        document["options"] = json!(body.options);
        document["may_answer"] = json!(body.may_answer);
    }
    document
}

fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The signature of a body: `v1=` and the HMAC-SHA256 of `timestamp.body` in hex.
fn signature(secret: &str, timestamp: u64, body: &[u8]) -> String {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
    mac.update(format!("{timestamp}.").as_bytes());
    mac.update(body);
    let digits: String = mac.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_covers_timestamp_and_body() {
        // Computed with the hmac module of Python.
        let expected = "v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
        assert_eq!(signature("key", 1_700_000_000, br#"{"a":1}"#), expected);
        assert_ne!(signature("key", 1_700_000_001, br#"{"a":1}"#), expected);
    }

    #[test]
    fn only_encrypted_and_local_addresses_are_accepted() {
        for (url, plain, allowed) in [
            ("https://example.org/hook", true, true),
            ("http://127.0.0.1:9/hook", true, true),
            ("http://localhost/hook", true, true),
            ("http://[::1]:9/", true, true),
            ("http://example.org/hook", false, true),
            ("http://127.0.0.1.example.org/", false, true),
            ("ftp://example.org/", false, false),
            ("example.org", false, false),
            ("", false, false),
        ] {
            assert_eq!(check_url(url, false).is_ok(), plain, "{url}");
            assert_eq!(check_url(url, true).is_ok(), allowed, "{url}");
        }
        let config = |timeout| WebhookConfig {
            url: "https://example.org".to_owned(),
            secret: None,
            timeout: Duration::from_secs(timeout),
            allow_http: false,
        };
        for (timeout, valid) in [(0, false), (1, true), (60, true), (61, false)] {
            let made = Webhooks::new(BTreeMap::from([("irc".to_owned(), config(timeout))]));
            assert_eq!(made.is_ok(), valid, "{timeout}");
        }
    }

    #[test]
    fn only_a_success_delivers_and_410_is_final() {
        for (status, expected) in [
            (200, Ok(())),
            (204, Ok(())),
            (302, Err("status 302: redirects are not followed")),
            (410, Err("status 410")),
            (500, Err("status 500")),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let found = outcome(status, b"");
            let gone = matches!(found, Err(DeliveryError::Gone(_)));
            assert_eq!(gone, status == StatusCode::GONE);
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
        }
        let shown = outcome(StatusCode::BAD_REQUEST, b"no such group\nmore").expect_err("failed");
        assert_eq!(shown.to_string(), "status 400: no such group\u{2026}");
    }
}
