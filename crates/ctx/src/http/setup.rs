//! Setup: what was found, tests of providers, and changes of `ctx.toml`. Every route needs the
//! scope `admin`: a command that is written here is started on this machine.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::provider::Provider;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};
use toml_edit::DocumentMut;
use utoipa::{IntoParams, ToSchema};

use crate::config::{Config, ProviderConfig};
use crate::config_file::{self, ConfigFile, Written};
use crate::discovery::{self, Found};
use crate::problem::Problem;
use crate::provider_setup::{self, Assembled};
use crate::provider_test::test_provider;

use super::Shared;
use super::extractors::{Json, Path, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// Prefix of the routes of this file.
pub(super) const SETUP_ROUTES: &str = "/api/setup";
/// Tests of providers at the same time.
const TESTS_MAX: usize = 2;
/// Settings that take effect at once. The others need a restart.
const LIVE_SETTINGS: [&str; 1] = ["defaults.provider"];

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigSource {
    pub(crate) data: PathBuf,
    /// The file of `--config`.
    pub(crate) named: Option<PathBuf>,
    /// The store of the command line.
    pub(crate) store: Option<String>,
}

/// The state of the setup routes.
pub(super) struct Setup {
    source: ConfigSource,
    /// The configured providers that the engine has now. Held while the file is changed.
    current: Mutex<BTreeMap<String, ProviderConfig>>,
    tests: Semaphore,
}

impl Setup {
    pub(super) fn new(source: ConfigSource) -> Self {
        let current = Config::load(&source.data, source.named.as_deref());
        let current = Mutex::new(current.map(|config| config.providers).unwrap_or_default());
        Self { source, current, tests: Semaphore::new(TESTS_MAX) }
    }

    fn file(&self) -> ConfigFile {
        ConfigFile::new(&self.source.data, self.source.named.as_deref())
    }

    fn parsed(&self, text: &str, path: &FilePath) -> Result<Config, Problem> {
        let mut config = Config::parse(text, path.to_owned())?;
        config.store.url = self.source.store.clone().or(config.store.url);
        Ok(config)
    }

    fn config(&self) -> Result<Config, Problem> {
        let file = self.file();
        self.parsed(&file.text()?, file.path())
    }

    /// Checks a text as the program does at its start, and builds the providers.
    fn checked(&self, text: &str, path: &FilePath) -> Result<(Config, Assembled), Problem> {
        let config = self.parsed(text, path)?;
        config.settings()?;
        config.spending()?;
        provider_setup::timeouts(&config)?;
        let assembled = provider_setup::assemble(&config, &self.source.data)?;
        Ok((config, assembled))
    }
}

/// A failure of the configuration as a response.
fn refused(problem: Problem) -> Error {
    let (status, code) = match problem.code.as_ref() {
        "config_unwritable" => (StatusCode::CONFLICT, "config_unwritable"),
        "config_changed" => (StatusCode::CONFLICT, "config_changed"),
        "bad_provider" => (StatusCode::UNPROCESSABLE_ENTITY, "bad_provider"),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "bad_config"),
    };
    let error = Error::new(status, code, problem.message);
    match problem.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> HttpResult<T> {
    let failed = |_| Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the task failed");
    tokio::task::spawn_blocking(work).await.map_err(failed)?.map_err(refused)
}

/// A provider as the page writes it. It holds the name of a key's variable, never a key
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderDraft {
    /// `openai`, `anthropic`, `acp` or `pi`
    kind: String,
    base_url: Option<String>,
    /// Name of the environment variable that holds the key
    api_key_env: Option<String>,
    model: Option<String>,
    context_window: Option<u64>,
    /// The program of an agent and its arguments
    #[serde(default)]
    command: Vec<String>,
    /// Whether sessions that name no provider use it; without effect in a test
    #[serde(default)]
    default: bool,
}

impl From<ProviderDraft> for ProviderConfig {
    fn from(draft: ProviderDraft) -> Self {
        let text = |text: Option<String>| {
            text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        Self {
            kind: draft.kind,
            base_url: text(draft.base_url),
            api_key_env: text(draft.api_key_env),
            model: text(draft.model),
            context_window: draft.context_window,
            command: draft.command,
            ..Self::default()
        }
    }
}

/// A URL without a user name and a password.
fn public_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

fn described(name: &str, config: &ProviderConfig) -> Value {
    let is_set = |name: &String| std::env::var(name).is_ok_and(|value| !value.is_empty());
    json!({
        "name": name,
        "kind": config.kind,
        "base_url": config.base_url.as_deref().map(public_url),
        "api_key_env": config.api_key_env,
        "key_is_set": config.api_key_env.as_ref().map(is_set),
        "model": config.model,
        "context_window": config.context_window,
        "command": config.command,
    })
}

/// The configuration as the page shows it
#[derive(Serialize, ToSchema)]
pub(super) struct SetupDocument {
    /// `{path, exists}`
    #[schema(value_type = Object)]
    file: Value,
    /// The provider of sessions that name none
    default: String,
    /// The providers of the file: `{name, kind, base_url, api_key_env, key_is_set, model,
    /// context_window, command, available, reason}`
    #[schema(value_type = Vec<Object>)]
    providers: Vec<Value>,
    /// What discovery finds on this machine, with the reason in `by`. It is used only while the
    /// file has no providers
    #[schema(value_type = Vec<Object>)]
    found: Vec<Value>,
    /// Settings by their name in the file
    settings: BTreeMap<&'static str, String>,
    roots: Vec<String>,
}

/// Read the setup
#[utoipa::path(
    get, path = "/api/setup", tag = "setup",
    responses(
        (status = 200, body = SetupDocument),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(State(state): State<Shared>) -> HttpResult<Json<SetupDocument>> {
    blocking(move || document(&state)).await.map(Json)
}

fn document(state: &Shared) -> Result<SetupDocument, Problem> {
    let (file, config) = (state.setup.file(), state.setup.config()?);
    let engine = state.engine.providers();
    let provider = |(name, config): (&String, &ProviderConfig)| {
        let mut value = described(name, config);
        let reason = match engine.all.get(name) {
            Some(provider) => provider.about().unavailable,
            None => Some("restart ctx serve to use it".to_owned()),
        };
        value["available"] = json!(reason.is_none());
        value["reason"] = json!(reason);
        value
    };
    let found = |found: &Found| {
        let mut value = described(&found.name, &found.config);
        value["by"] = json!(found.by);
        value
    };
    Ok(SetupDocument {
        file: json!({"path": file.path(), "exists": file.exists()}),
        default: engine.default.clone(),
        providers: config.providers.iter().map(provider).collect(),
        found: discovery::search(&config).iter().map(found).collect(),
        settings: config.shown_settings()?,
        roots: state.options.roots.iter().map(|root| root.display().to_string()).collect(),
    })
}

/// A change of the file
#[derive(Serialize, ToSchema)]
pub(super) struct Changed {
    path: String,
    /// The file before the change; null if there was none
    backup: Option<String>,
    /// Whether `ctx serve` must be restarted before the change takes effect
    restart: bool,
}

/// Changes the file and gives the engine its providers.
async fn change(
    state: &Shared,
    restart: bool,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), Problem> + Send + 'static,
) -> HttpResult<Json<Changed>> {
    let mut current = state.setup.current.lock().await;
    let shared = state.clone();
    let ((config, assembled), written) = blocking(move || {
        let setup = &shared.setup;
        setup.file().edit(change, |text, path| setup.checked(text, path))
    })
    .await?;
    apply(state, assembled, &current, &config.providers);
    *current = config.providers;
    let Written { path, backup } = written;
    tracing::info!(path = %path.display(), "the configuration was changed over HTTP");
    let shown = |path: PathBuf| path.display().to_string();
    Ok(Json(Changed { path: shown(path), backup: backup.map(shown), restart }))
}

/// Replaces the providers of the engine. One whose configuration did not change is kept, with the
/// processes of its agents.
fn apply(
    state: &Shared,
    assembled: Assembled,
    before: &BTreeMap<String, ProviderConfig>,
    after: &BTreeMap<String, ProviderConfig>,
) {
    let mut providers = assembled.providers;
    let old = state.engine.providers();
    for (name, provider) in &mut providers.all {
        if let Some(kept) = old.all.get(name)
            && before.get(name) == after.get(name)
        {
            *provider = kept.clone();
        }
    }
    state.engine.replace_providers(providers);
}

/// Write a provider to `ctx.toml`
///
/// Comments and other fields of the file are kept. The result is checked before it replaces the
/// file, and the provider can be used at once.
#[utoipa::path(
    put, path = "/api/setup/providers/{name}", tag = "setup", request_body = ProviderDraft,
    params(("name" = String, Path, description = "Name of the provider")),
    responses(
        (status = 200, body = Changed),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(state): State<Shared>,
    Path(name): Path<String>,
    Json(draft): Json<ProviderDraft>,
) -> HttpResult<Json<Changed>> {
    let default = draft.default;
    let config = ProviderConfig::from(draft);
    change(&state, false, move |document| {
        config_file::set_provider(document, &name, &config)?;
        if default {
            config_file::set_value(document, "defaults", "provider", Some(&name))?;
        }
        Ok(())
    })
    .await
}

/// Remove a provider from `ctx.toml`
#[utoipa::path(
    delete, path = "/api/setup/providers/{name}", tag = "setup",
    params(("name" = String, Path, description = "Name of the provider")),
    responses(
        (status = 200, body = Changed),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(state): State<Shared>,
    Path(name): Path<String>,
) -> HttpResult<Json<Changed>> {
    let shared = state.clone();
    if !blocking(move || shared.setup.config()).await?.providers.contains_key(&name) {
        return Err(Error::not_found("configured provider", &name));
    }
    change(&state, false, move |document| config_file::remove_provider(document, &name).map(|_| ()))
        .await
}

/// Change settings in `ctx.toml`
///
/// The body has settings by their name, such as `{"clocks.task_ask": "24h"}`. Null removes one.
#[utoipa::path(
    patch, path = "/api/setup/settings", tag = "setup", request_body = Object,
    responses(
        (status = 200, body = Changed),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn settings(
    State(state): State<Shared>,
    Json(body): Json<BTreeMap<String, Option<String>>>,
) -> HttpResult<Json<Changed>> {
    let shared = state.clone();
    let known = blocking(move || shared.setup.config()?.shown_settings()).await?;
    if let Some(unknown) = body.keys().find(|name| !known.contains_key(name.as_str())) {
        let names: Vec<&str> = known.keys().copied().collect();
        let detail = format!("unknown setting `{unknown}`: the settings are {}", names.join(", "));
        return Err(Error::invalid("invalid_body", detail));
    }
    let restart = body.keys().any(|name| !LIVE_SETTINGS.contains(&name.as_str()));
    change(&state, restart, move |document| {
        for (name, value) in &body {
            let (section, key) = name.split_once('.').unwrap_or(("", name));
            let value = value.as_deref().filter(|value| !value.is_empty());
            config_file::set_value(document, section, key, value)?;
        }
        Ok(())
    })
    .await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ModelsQuery {
    /// Address of a model server on this machine, such as `http://127.0.0.1:8080/v1`
    base_url: String,
}

/// The models of a server
#[derive(Serialize, ToSchema)]
pub(super) struct Models {
    /// Null if the server is not on this machine or does not respond
    models: Option<Vec<String>>,
}

/// List the models of a server on this machine
#[utoipa::path(
    get, path = "/api/setup/models", tag = "setup", params(ModelsQuery),
    responses((status = 200, body = Models))
)]
pub(super) async fn models(Query(query): Query<ModelsQuery>) -> HttpResult<Json<Models>> {
    blocking(move || Ok(Json(Models { models: discovery::models_at(&query.base_url) }))).await
}

/// What to test: a provider by name, or one that is not in the file
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TestBody {
    /// Name of the provider
    provider: String,
    /// The provider's default if none
    model: Option<String>,
    /// A provider that is not written yet
    draft: Option<ProviderDraft>,
}

/// Send one question to a provider
///
/// A failure of the provider is `{ok: false, code, message, hint}`. Nothing is stored.
#[utoipa::path(
    post, path = "/api/setup/test", tag = "setup", request_body = TestBody,
    responses(
        (status = 200, body = Object),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 429, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn test(
    State(state): State<Shared>,
    Json(body): Json<TestBody>,
) -> HttpResult<Json<Value>> {
    let _permit = state.setup.tests.try_acquire().map_err(|_| {
        let detail = format!("{TESTS_MAX} providers are being tested: wait for a result");
        Error::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail)
    })?;
    let TestBody { provider: name, model, draft } = body;
    let provider = match draft {
        Some(draft) => built(&state, name.clone(), draft).await?,
        None => {
            let known = state.engine.providers();
            let found = known.all.get(&name).cloned();
            found.ok_or_else(|| {
                Error::invalid("unknown_provider", format!("there is no provider `{name}`"))
            })?
        }
    };
    Ok(Json(match test_provider(&name, &provider, model).await {
        Ok(result) => result.document(&name),
        Err(problem) => {
            let mut document = problem.json();
            document["provider"] = json!(name);
            document["ok"] = json!(false);
            document
        }
    }))
}

async fn built(
    state: &Shared,
    name: String,
    draft: ProviderDraft,
) -> HttpResult<Arc<dyn Provider>> {
    let (shared, draft) = (state.clone(), ProviderConfig::from(draft));
    blocking(move || {
        config_file::check_provider(&name, &draft)?;
        let config = shared.setup.config()?;
        provider_setup::build_one(&name, &draft, &config, &shared.setup.source.data)
    })
    .await
}
