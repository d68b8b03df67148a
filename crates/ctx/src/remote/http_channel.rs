//! Messages over HTTP: the routes `/api/sync/…` of a ctx server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ctx_engine::exchange::PeerError;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response};

use crate::problem::Problem;

use super::Traffic;
use super::channel_peer::Channel;
use super::wire::{Answer, MESSAGE_MAX_BYTES, Request, decode, encode};

/// The media type of messages.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.ctx.exchange";
/// Time for one request and its answer.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum size of an error document.
const ERROR_MAX_BYTES: usize = 64 << 10;

pub(super) struct HttpChannel {
    client: Client,
    url: String,
    token: Option<String>,
    traffic: Arc<Traffic>,
}

pub(super) fn open(
    url: &str,
    token: Option<String>,
    traffic: Arc<Traffic>,
) -> Result<HttpChannel, Problem> {
    let client = ctx_providers::http_client(url, &ctx_providers::Timeouts::default());
    let client = client.map_err(|why| Problem::failed("remote_unreachable", why))?;
    Ok(HttpChannel { client, url: url.to_owned(), token, traffic })
}

/// The route of a request.
const fn route(request: &Request) -> &'static str {
    match request {
        Request::Heads {} => "heads",
        Request::Read { .. } => "objects/out",
        Request::Write { .. } => "objects/in",
        _ => "have",
    }
}

#[async_trait]
impl Channel for HttpChannel {
    async fn ask(
        &self,
        request: &Request,
        parts: &[Vec<u8>],
    ) -> Result<(Answer, Vec<u8>), PeerError> {
        let url = format!("{}/api/sync/{}", self.url, route(request));
        let call = if matches!(request, Request::Heads {}) {
            self.client.get(url)
        } else {
            let message = encode(request, parts)?;
            self.traffic.add_sent(message.len());
            self.client.post(url).header(CONTENT_TYPE, MEDIA_TYPE).body(message)
        };
        let call = match &self.token {
            Some(token) => call.bearer_auth(token),
            None => call,
        };
        let mut response = call.timeout(TIMEOUT).send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        let message = body(&mut response, MESSAGE_MAX_BYTES).await?;
        self.traffic.add_received(message.len());
        decode(&message)
    }
}

fn unreachable(error: reqwest::Error) -> PeerError {
    use std::error::Error as _;
    let error = error.without_url();
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        why = format!("{why}: {error}");
        cause = error.source();
    }
    PeerError::new("remote_cut", format!("the server cannot be reached: {why}"))
        .hint("check the address and run the command again; it continues where it was")
}

async fn body(response: &mut Response, max: usize) -> Result<Vec<u8>, PeerError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > max {
            return Err(PeerError::new(
                "remote_too_large",
                "the answer of the server is too large",
            ));
        }
    }
    Ok(bytes)
}

/// The error of a problem document, or of the status.
async fn refused(mut response: Response) -> PeerError {
    let status = response.status();
    let bytes = body(&mut response, ERROR_MAX_BYTES).await.unwrap_or_default();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |key: &str| document[key].as_str().map(str::to_owned);
    let detail = text("detail").unwrap_or_else(|| format!("status {status}"));
    let error = PeerError::new(
        &text("code").unwrap_or_else(|| "remote_refused".to_owned()),
        format!("the server refused the request: {detail}"),
    );
    match status.as_u16() {
        401 => error.hint("name the variable with a token: `ctx remote add … --token-env NAME`"),
        403 => error.hint("use a token with the scope `write`"),
        404 => error.hint("check that the address is that of a ctx server of this version"),
        _ => error,
    }
}
