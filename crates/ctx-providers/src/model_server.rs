//! A model behind an HTTP API: where it is, how it is asked, and how its answer is read. What is said is each API's own.
//!
//! One call of `run` is one answer. Nothing here retries: the caller knows better whether and when.

use std::fmt;
use std::time::{Duration, SystemTime};

use ctx_engine::provider::{About, Can, Class, Delta, End, Failure, Link, Request};
use reqwest::header::HeaderValue;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use crate::response_reader::{Answer, Fold};
use crate::failure;
use crate::http_client::{self, Timeouts};
use crate::key_redaction::{Hush, Redactor};

/// The most of a list of models that is read.
const MODELS_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How long the usage is waited for once the answer is whole.
const USAGE_WAIT: Duration = Duration::from_secs(5);
/// The version of the Messages API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Where the models are, and how to ask them.
#[derive(Clone)]
pub struct Config {
    /// Of kind `openai` up to and with `/v1`, of kind `anthropic` without it.
    pub base_url: String,
    /// The key itself, where it is known; it is never shown or stored.
    pub api_key: Option<String>,
    /// The variable that holds the key, looked at when it is needed.
    pub key_variable: Option<String>,
    /// The model that answers where a request names none; the first that the server lists if there is none.
    pub model: Option<String>,
    /// How many tokens fit.
    pub context_window: u64,
    /// Whether its models take pictures.
    pub images: bool,
    /// How long the server is waited for.
    pub timeouts: Timeouts,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
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

/// How a key is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Auth {
    /// `Authorization: Bearer`.
    Bearer,
    /// `x-api-key`, with the version that is spoken.
    ApiKey,
}

/// A server of models.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) config: Config,
    auth: Auth,
    /// Or why there is none.
    client: Result<Client, String>,
    /// The server's models, once they were asked for.
    models: OnceCell<Vec<String>>,
}

impl Remote {
    /// Asks nobody yet: a server that is not there is a failure of the run that wants it.
    pub(crate) fn new(config: Config, auth: Auth) -> Self {
        let client = http_client::client(&config.base_url, &config.timeouts);
        Self { config, auth, client, models: OnceCell::new() }
    }

    /// What is known of it without asking it.
    pub(crate) fn about(&self, kind: &'static str) -> About {
        let mut models = self.models.get().cloned().unwrap_or_default();
        if let Some(model) = self.config.model.as_ref().filter(|model| !models.contains(model)) {
            models.insert(0, model.clone());
        }
        About {
            kind,
            can: Can { tools: true, images: self.config.images, ..Can::default() },
            model: self.config.model.clone().or_else(|| models.first().cloned()),
            models,
            context_window: self.config.context_window,
            unavailable: self.client.as_ref().err().cloned().or_else(|| self.missing_key()),
            key_variable: self.config.key_variable.clone(),
            agent: None,
        }
    }

    /// The model of a request; `list` is where the server lists its models.
    pub(crate) async fn model_for(&self, request: &Request, list: &str) -> Result<String, Failure> {
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            return Ok(model.clone());
        }
        let models = self.models.get_or_try_init(|| self.list_models(list)).await?;
        // A list is kept only if it has a first.
        Ok(models.first().cloned().unwrap_or_default())
    }

    async fn list_models(&self, path: &str) -> Result<Vec<String>, Failure> {
        let by = self.first_byte_by();
        let mut response = self.send(self.ask(Method::GET, path)?, by).await?;
        let body = http_client::read_up_to(&mut response, MODELS_MAX_BYTES, by).await;
        let list: Value = serde_json::from_slice(&self.told(&body)).unwrap_or_default();
        let ids =
            list["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
        let models: Vec<String> = ids.map(str::to_owned).collect();
        if models.is_empty() {
            return Err(Failure::new(
                "model_not_found",
                Class::GiveUp,
                "The server lists no model: set `model` in the configuration.",
            ));
        }
        Ok(models)
    }

    /// When the first byte of an answer that is asked for now must be there.
    pub(crate) fn first_byte_by(&self) -> Instant {
        Instant::now() + self.config.timeouts.first_byte
    }

    /// Asks, and reads the answer into `fold`; the first byte is there by `by`.
    pub(crate) async fn answer<F: Fold>(
        &self,
        path: &str,
        body: &Value,
        fold: &mut F,
        link: &Link,
        by: Instant,
    ) -> Result<End, Failure> {
        let asked = self.ask(Method::POST, path)?.json(body);
        let response = self.send(asked, by).await?;
        Ok(self.read(response, Answer::new(fold), link, by).await)
    }

    fn ask(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let client =
            self.client.as_ref().map_err(|why| Failure::new("bad_request", Class::GiveUp, why))?;
        if let Some(missing) = self.missing_key() {
            return Err(Failure::new(
                "auth_required",
                Class::Auth,
                format!("There is no key: {missing}."),
            ));
        }
        let asked = client
            .request(method, format!("{}/{path}", self.config.base_url.trim_end_matches('/')));
        let asked = match self.auth {
            Auth::Bearer => asked,
            Auth::ApiKey => asked.header("anthropic-version", ANTHROPIC_VERSION),
        };
        let Some(key) = self.key() else { return Ok(asked) };
        Ok(match self.auth {
            Auth::Bearer => asked.bearer_auth(key),
            Auth::ApiKey => {
                let unsendable = |_| {
                    Failure::new(
                        "auth_required",
                        Class::Auth,
                        "The key holds characters that cannot be sent.",
                    )
                };
                let mut value = HeaderValue::from_str(&key).map_err(unsendable)?;
                value.set_sensitive(true);
                asked.header("x-api-key", value)
            }
        })
    }

    /// The answer's beginning, if it is a good one.
    async fn send(&self, asked: RequestBuilder, by: Instant) -> Result<Response, Failure> {
        let timeouts = &self.config.timeouts;
        let sent =
            timeout_at(by, asked.send()).await.map_err(|_| http_client::timeout(timeouts.first_byte))?;
        let mut response = sent.map_err(http_client::unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let retry_after = http_client::retry_after(response.headers(), SystemTime::now());
        let body =
            http_client::read_up_to(&mut response, http_client::ERROR_MAX_BYTES, Instant::now() + timeouts.idle)
                .await;
        Err(failure::of_status(response.status().as_u16(), retry_after, &self.told(&body)))
    }

    /// Reads the answer, the first byte of it until `by`.
    async fn read<F: Fold>(
        &self,
        mut response: Response,
        mut answer: Answer<'_, F>,
        link: &Link,
        by: Instant,
    ) -> End {
        let (mut by, mut waited) = (by, self.config.timeouts.first_byte);
        let key = self.key();
        let (mut redactor, mut hush) = (Redactor::new(key.as_deref()), Hush::new(key.as_deref()));
        let outcome = loop {
            let mut out = Vec::new();
            let fed = match timeout_at(by, response.chunk()).await {
                Ok(Ok(Some(bytes))) => answer.feed(&redactor.pass(&bytes), &mut out),
                Ok(Ok(None)) => break Ok(()),
                Ok(Err(_)) | Err(_) if answer.is_whole() => break Ok(()),
                Ok(Err(_)) => break Err(failure::cut()),
                Err(_) => break Err(http_client::timeout(waited)),
            };
            if !say(link, hush.pass(out)).await {
                return End::Cancelled;
            }
            if fed.is_err() || answer.is_done() {
                break fed;
            }
            waited = if answer.is_whole() {
                self.config.timeouts.idle.min(USAGE_WAIT)
            } else {
                self.config.timeouts.idle
            };
            by = Instant::now() + waited;
        };
        let mut out = Vec::new();
        let outcome = outcome.and_then(|()| answer.feed(&redactor.rest(), &mut out));
        let end = answer.end(outcome, &mut out);
        let mut told = hush.pass(out);
        told.extend(hush.rest());
        if say(link, told).await { end } else { End::Cancelled }
    }

    /// What may be told of a body.
    fn told(&self, body: &[u8]) -> Vec<u8> {
        let mut redactor = Redactor::new(self.key().as_deref());
        let mut told = redactor.pass(body);
        told.extend(redactor.rest());
        told
    }

    fn key(&self) -> Option<String> {
        http_client::key(self.config.api_key.as_deref(), self.config.key_variable.as_deref())
    }

    /// What to do about the key, where one is wanted and there is none.
    fn missing_key(&self) -> Option<String> {
        let variable = self.config.key_variable.as_ref()?;
        self.key().is_none().then(|| format!("set {variable}"))
    }

    /// Waits for an answer as long as somebody wants it.
    pub(crate) async fn while_wanted(
        &self,
        link: &Link,
        answered: impl Future<Output = Result<End, Failure>>,
    ) -> End {
        // What is dropped here closes its connection, so the server stops too.
        let answered = tokio::select! {
            biased;
            () = link.cancel.cancelled() => return End::Cancelled,
            () = link.out.closed() => return End::Cancelled,
            answered = answered => answered,
        };
        match answered.unwrap_or_else(End::Failed) {
            End::Failed(failure) => End::Failed(http_client::tellable(failure, self.key().as_deref())),
            end => end,
        }
    }
}

/// Passes on what was said; `false` when nobody listens any more.
async fn say(link: &Link, deltas: Vec<Delta>) -> bool {
    for delta in deltas {
        if !link.say(delta).await {
            return false;
        }
    }
    true
}
