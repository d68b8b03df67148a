//! A model server behind an HTTP API: sends requests and reads responses.
//!
//! The API modules define the content of both. Nothing here retries; the caller decides that.

use std::fmt;
use std::time::{Duration, SystemTime};

use ctx_engine::provider::{
    About, DELTAS_MAX, Delta, End, Failure, FailureClass, Link, ProviderFeatures, Request,
};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::failure;
use crate::http_client::{self, Timeouts};
use crate::key_redaction::{ByteRedactor, DeltaRedactor};
use crate::response_reader::{ResponseParser, ResponseReader};

/// Maximum size of a model list that is read.
const MODELS_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum wait for the model list that a person chooses from.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for the usage after a complete response.
const USAGE_WAIT: Duration = Duration::from_secs(5);
/// How often a provider yields to the task of a connection before a chunk counts as not arrived.
const ARRIVAL_YIELDS: usize = 3;
/// Version of the Messages API in use.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Address, key and limits of a model server.
#[derive(Clone)]
pub struct ServerConfig {
    /// Base address: with `/v1` for OpenAI-compatible servers, without it for the Messages API.
    pub base_url: String,
    /// The key itself; takes precedence over `key_variable`. It is never shown or stored.
    pub api_key: Option<String>,
    /// Environment variable with the key, read for each request.
    pub key_variable: Option<String>,
    /// Model for requests that name none. Without it, the first model in the server's list.
    pub model: Option<String>,
    /// Size of the context window in tokens.
    pub context_window: u64,
    /// Whether the models accept images.
    pub images: bool,
    #[allow(missing_docs, reason = "the type is documented")]
    pub timeouts: Timeouts,
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("key_variable", &self.key_variable)
            .field("model", &self.model)
            .field("context_window", &self.context_window)
            .field("images", &self.images)
            .field("timeouts", &self.timeouts)
            .finish()
    }
}

/// The header that contains the key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Auth {
    /// `Authorization: Bearer`.
    Bearer,
    /// `x-api-key`, with the `anthropic-version` header.
    ApiKey,
}

/// A configured server and its HTTP client.
#[derive(Debug)]
pub(crate) struct ModelServer {
    pub(crate) config: ServerConfig,
    auth: Auth,
    /// The client, or why it cannot be created.
    client: Result<Client, String>,
    /// The model list, once it was requested.
    models: OnceCell<Vec<String>>,
}

impl ModelServer {
    /// Sends no request. An unreachable server is a failure of the run that uses it.
    pub(crate) fn new(config: ServerConfig, auth: Auth) -> Self {
        let client = http_client::client(&config.base_url, &config.timeouts);
        Self { config, auth, client, models: OnceCell::new() }
    }

    /// Describes the server without sending a request.
    pub(crate) fn about(&self, kind: &'static str) -> About {
        let mut models = self.models.get().cloned().unwrap_or_default();
        if let Some(model) = self.config.model.as_ref().filter(|model| !models.contains(model)) {
            models.insert(0, model.clone());
        }
        About {
            kind,
            can: ProviderFeatures {
                tools: true,
                images: self.config.images,
                ..ProviderFeatures::default()
            },
            model: self.config.model.clone().or_else(|| models.first().cloned()),
            models,
            context_window: self.config.context_window,
            unavailable: self.client.as_ref().err().cloned().or_else(|| self.missing_key()),
            key_variable: self.config.key_variable.clone(),
            agent: None,
            repeatable: true,
        }
    }

    /// The model for a request. `list_path` is the path of the server's model list.
    pub(crate) async fn model_for(
        &self,
        request: &Request,
        list_path: &str,
    ) -> Result<String, Failure> {
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            return Ok(model.clone());
        }
        let models = self.models.get_or_try_init(|| self.list_models(list_path)).await?;
        // The cell contains only non-empty lists.
        Ok(models.first().cloned().unwrap_or_default())
    }

    /// All models of the server, the configured one first; only the known ones if it does not
    /// answer in time.
    pub(crate) async fn all_models(&self, kind: &'static str, list_path: &str) -> Vec<String> {
        let list = self.models.get_or_try_init(|| self.list_models(list_path));
        if let Ok(Err(failure)) = tokio::time::timeout(MODEL_LIST_TIMEOUT, list).await {
            tracing::debug!(code = %failure.code, "the model list is not available");
        }
        self.about(kind).models
    }

    async fn list_models(&self, path: &str) -> Result<Vec<String>, Failure> {
        let deadline = self.first_byte_deadline();
        let mut response = self.send(self.request(Method::GET, path)?, deadline).await?;
        let body = http_client::read_up_to(&mut response, MODELS_MAX_BYTES, deadline).await;
        let list: Value = serde_json::from_slice(&self.redacted(&body)).unwrap_or_default();
        let ids =
            list["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
        let models: Vec<String> = ids.map(str::to_owned).collect();
        if models.is_empty() {
            return Err(Failure::new(
                "model_not_found",
                FailureClass::Permanent,
                "The server lists no models. Set `model` in the configuration.",
            ));
        }
        Ok(models)
    }

    /// Deadline for the first byte of the response to a request that is sent now.
    pub(crate) fn first_byte_deadline(&self) -> Instant {
        Instant::now() + self.config.timeouts.first_byte
    }

    /// Sends a request and reads the response with `parser`. `deadline` applies to the first byte.
    pub(crate) async fn stream_response<F: ResponseParser>(
        &self,
        path: &str,
        body: Vec<u8>,
        parser: &mut F,
        link: &Link,
        deadline: Instant,
    ) -> Result<End, Failure> {
        let request = self.request(Method::POST, path)?;
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let response = self.send(request, deadline).await?;
        Ok(self.read(response, ResponseReader::new(parser), link, deadline).await)
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let client = self
            .client
            .as_ref()
            .map_err(|why| Failure::new("bad_request", FailureClass::Permanent, why))?;
        if let Some(missing) = self.missing_key() {
            return Err(Failure::new(
                "auth_required",
                FailureClass::Auth,
                format!("No API key: {missing}."),
            ));
        }
        let request = client
            .request(method, format!("{}/{path}", self.config.base_url.trim_end_matches('/')));
        let request = match self.auth {
            Auth::Bearer => request,
            Auth::ApiKey => request.header("anthropic-version", ANTHROPIC_VERSION),
        };
        let Some(key) = self.api_key() else { return Ok(request) };
        Ok(match self.auth {
            Auth::Bearer => request.bearer_auth(key),
            Auth::ApiKey => {
                let unsendable = |_| {
                    Failure::new(
                        "auth_required",
                        FailureClass::Auth,
                        "The API key contains characters that cannot be sent in a header.",
                    )
                };
                let mut value = HeaderValue::from_str(&key).map_err(unsendable)?;
                value.set_sensitive(true);
                request.header("x-api-key", value)
            }
        })
    }

    /// Sends a request and returns the response if its status is a success.
    async fn send(&self, request: RequestBuilder, deadline: Instant) -> Result<Response, Failure> {
        let timeouts = &self.config.timeouts;
        let sent = timeout_at(deadline, request.send())
            .await
            .map_err(|_| http_client::timeout(timeouts.first_byte))?;
        let mut response = sent.map_err(http_client::unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let retry_after = http_client::retry_after(response.headers(), SystemTime::now());
        let body = http_client::read_up_to(
            &mut response,
            http_client::ERROR_MAX_BYTES,
            Instant::now() + timeouts.idle,
        )
        .await;
        Err(failure::from_status(response.status().as_u16(), retry_after, &self.redacted(&body)))
    }

    /// Reads the response; `deadline` applies to its first byte.
    async fn read<F: ResponseParser>(
        &self,
        mut response: Response,
        mut reader: ResponseReader<'_, F>,
        link: &Link,
        deadline: Instant,
    ) -> End {
        let (mut deadline, mut waited) = (deadline, self.config.timeouts.first_byte);
        let key = self.api_key();
        let (mut redactor, mut delta_redactor) =
            (ByteRedactor::new(key.as_deref()), DeltaRedactor::new(key.as_deref()));
        let timer = sleep_until(deadline);
        tokio::pin!(timer);
        let (mut out, mut arrived_chunk) = (Vec::new(), None);
        let outcome = loop {
            let received = match arrived_chunk.take() {
                Some(received) => Some(received),
                None => tokio::select! {
                    biased;
                    received = response.chunk() => Some(received),
                    () = &mut timer => None,
                },
            };
            let parsed = match received {
                Some(Ok(Some(bytes))) => reader.feed(&redactor.pass(&bytes), &mut out),
                Some(Ok(None)) => break Ok(()),
                None if Instant::now() < deadline => {
                    timer.as_mut().reset(deadline);
                    continue;
                }
                Some(Err(_)) | None if reader.is_complete() => break Ok(()),
                Some(Err(_)) => break Err(failure::cut_off()),
                None => break Err(http_client::timeout(waited)),
            };
            let is_over = parsed.is_err() || reader.is_done();
            if !is_over && link.pace.has_pauses() && out.len() < DELTAS_MAX {
                arrived_chunk = if_arrived(response.chunk()).await;
                if arrived_chunk.is_some() {
                    continue;
                }
            }
            let deltas = delta_redactor.pass(std::mem::take(&mut out));
            let sends = !deltas.is_empty();
            if !send_all(link, deltas).await {
                return End::Cancelled;
            }
            if is_over {
                break parsed;
            }
            if sends {
                link.pace.resumed().await;
            }
            waited = if reader.is_complete() {
                self.config.timeouts.idle.min(USAGE_WAIT)
            } else {
                self.config.timeouts.idle
            };
            deadline = Instant::now() + waited;
            // A later deadline is set when the timer fires: a timer per chunk would be expensive.
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
        };
        let outcome = outcome.and_then(|()| reader.feed(&redactor.finish(), &mut out));
        let end = reader.finish(outcome, &mut out);
        let mut redacted = delta_redactor.pass(out);
        redacted.extend(delta_redactor.finish());
        if send_all(link, redacted).await { end } else { End::Cancelled }
    }

    /// A body without the API key.
    fn redacted(&self, body: &[u8]) -> Vec<u8> {
        let mut redactor = ByteRedactor::new(self.api_key().as_deref());
        let mut redacted = redactor.pass(body).into_owned();
        redacted.extend(redactor.finish());
        redacted
    }

    fn api_key(&self) -> Option<String> {
        http_client::api_key(self.config.api_key.as_deref(), self.config.key_variable.as_deref())
    }

    /// What the user must set if the key is missing.
    fn missing_key(&self) -> Option<String> {
        let variable = self.config.key_variable.as_ref()?;
        self.api_key().is_none().then(|| format!("set {variable}"))
    }

    /// Waits for a response until the run is cancelled or its reader is gone.
    pub(crate) async fn run_until_cancelled(
        &self,
        link: &Link,
        response: impl Future<Output = Result<End, Failure>>,
    ) -> End {
        // Dropping the future closes the connection, so that the server stops too.
        let response = tokio::select! {
            biased;
            () = link.cancel.cancelled() => return End::Cancelled,
            () = link.out.closed() => return End::Cancelled,
            response = response => response,
        };
        match response.unwrap_or_else(End::Failed) {
            End::Failed(failure) => {
                End::Failed(http_client::presentable(failure, self.api_key().as_deref()))
            }
            end => end,
        }
    }
}

/// The next chunk of a response, if it has arrived. The task of the connection hands over one chunk
/// at a time.
async fn if_arrived<T>(chunk: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(chunk);
    for _ in 0..ARRIVAL_YIELDS {
        tokio::select! {
            biased;
            received = &mut chunk => return Some(received),
            () = tokio::task::yield_now() => {}
        }
    }
    None
}

/// Sends deltas to the run; `false` if its reader is gone.
async fn send_all(link: &Link, deltas: Vec<Delta>) -> bool {
    for delta in deltas {
        if !link.send(delta).await {
            return false;
        }
    }
    true
}
