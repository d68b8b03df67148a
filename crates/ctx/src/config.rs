//! The configuration: `ctx.toml` in the data directory or the file of `--config`. Environment
//! variables override the file.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_engine::Spending;
use ctx_engine::core::decide::{OnNewTask, OnUnclear, Settings};
use ctx_engine::core::inbox::{self, OverflowPolicy};
use ctx_engine::core::stale;
use ctx_engine::core::time::Span;
use serde::Deserialize;

use crate::message_sources::{HookConfig, ScheduleConfig};
use crate::problem::Problem;
use crate::spending::{BudgetConfig, PriceConfig, WrongValue, budget, prices};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    clocks: Clocks,
    defaults: Defaults,
    pub(crate) classifier: Classifier,
    pub(crate) store: Store,
    pub(crate) server: Server,
    pub(crate) providers: BTreeMap<String, ProviderConfig>,
    pub(crate) personas: BTreeMap<String, PersonaConfig>,
    pub(crate) channels: BTreeMap<String, ChannelConfig>,
    pub(crate) compaction: CompactionConfig,
    pub(crate) discovery: Discovery,
    inbox: Inbox,
    pub(crate) tasks: Tasks,
    pub(crate) schedule: Vec<ScheduleConfig>,
    pub(crate) hooks: BTreeMap<String, HookConfig>,
    prices: BTreeMap<String, PriceConfig>,
    budget: BudgetConfig,
    /// The file that was read, for error messages.
    #[serde(skip)]
    pub(crate) path: PathBuf,
    /// The text of the file, for the lines in error messages.
    #[serde(skip)]
    text: String,
    pub(crate) mcp: Mcp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    /// Whether `ctx serve` serves MCP at `/mcp`. Default: only on loopback.
    pub(crate) http: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) listen: Option<String>,
    /// A working directory given over HTTP must be under one of these. Default: the user's home and
    /// the directory in which `ctx serve` was started.
    pub(crate) roots: Vec<PathBuf>,
    /// Additional host names that are accepted; `localhost` always is.
    pub(crate) hosts: Vec<String>,
    /// Runs that this process carries out at the same time.
    max_runs: Option<usize>,
    /// How long runs may continue after SIGTERM.
    drain: Option<String>,
    /// Time after which other processes take over the sessions of one that does not answer.
    lease: Option<String>,
}

/// All values are durations such as `5m`, except `task_seal_message`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Clocks {
    process_idle: Option<String>,
    /// Time for which an agent process waits for the answer to a permission request.
    permission_hold: Option<String>,
    session_archive: Option<String>,
    task_ask: Option<String>,
    task_seal: Option<String>,
    /// Commit message of a task that is sealed because it is stale; `{duration}` is replaced.
    task_seal_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Defaults {
    provider: Option<String>,
    on_new_task: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    pub(crate) kind: String,
    pub(crate) base_url: Option<String>,
    /// Name of the environment variable that holds the key. The key itself is never stored.
    pub(crate) api_key_env: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) context_window: Option<u64>,
    /// For kind `anthropic`: maximum number of output tokens of one response.
    pub(crate) max_tokens: Option<u64>,
    /// For models: whether the model accepts images.
    pub(crate) images: Option<bool>,
    /// For kind `openai`: `chat` or `responses`.
    pub(crate) api: Option<String>,
    /// For agents: the command line that starts the agent.
    pub(crate) command: Vec<String>,
    /// For agents: additional environment variables.
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Discovery {
    pub(crate) enabled: bool,
    /// Ports of model servers on this machine, by provider name.
    servers: Option<BTreeMap<String, u16>>,
}

impl Default for Discovery {
    fn default() -> Self {
        Self { enabled: true, servers: None }
    }
}

/// Default ports of common model servers.
const MODEL_SERVER_PORTS: [(&str, u16); 4] =
    [("ollama", 11434), ("llama-cpp", 8080), ("lm-studio", 1234), ("vllm", 8000)];

impl Discovery {
    pub(crate) fn servers(&self) -> BTreeMap<String, u16> {
        let known =
            || MODEL_SERVER_PORTS.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect();
        self.servers.clone().unwrap_or_else(known)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PersonaConfig {
    pub(crate) system_prompt: String,
}

/// Where the messages to a channel are sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelConfig {
    pub(crate) url: String,
    /// Name of the environment variable that holds the secret of the signature.
    pub(crate) secret_env: String,
    /// Longest time of one delivery.
    timeout: Option<String>,
    /// Accepts an http URL of another machine.
    #[serde(default)]
    pub(crate) allow_http: bool,
}

/// Provider and model that write summaries. Default: those of the session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CompactionConfig {
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Inbox {
    cap: Option<usize>,
    drop: Option<OverflowPolicy>,
    debounce: Option<String>,
}

/// How tasks follow from messages.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tasks {
    on_unclear: OnUnclear,
    pub(crate) classifier: TaskClassifier,
}

/// What classifies messages, if no command is configured.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskClassifier {
    /// The rules and the linear model of the program.
    #[default]
    BuiltIn,
    /// The model of the default provider.
    Provider,
}

/// An external program that classifies messages. An empty `command` selects the built-in one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Classifier {
    pub(crate) command: Vec<String>,
    timeout: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) compress: bool,
    /// A `postgres://` URL, or a directory. Default: the data directory.
    pub(crate) url: Option<String>,
    /// Name of the environment variable that holds the password of the database.
    password_env: Option<String>,
    /// URL of a connection to the database without a pooler, for notifications.
    pub(crate) listen_url: Option<String>,
}

impl Default for Store {
    fn default() -> Self {
        Self { compress: true, url: None, password_env: None, listen_url: None }
    }
}

/// Runs of one process at the same time.
const MAX_RUNS: usize = 1000;
/// How long runs may continue after SIGTERM.
const DRAIN: Span = Span(20_000);
/// The lease of a process, and its limits: it is renewed four times in its length.
const LEASE: Span = Span(10_000);
const LEASE_MIN: Span = Span(1_000);
const LEASE_MAX: Span = Span(600_000);
/// Longest time of a delivery to a channel.
const DELIVERY_TIMEOUT: Span = Span(10_000);

/// After this time the built-in classifier decides.
const CLASSIFIER_TIMEOUT: Span = Span(20_000);

impl Config {
    /// Reads the file and the environment. A missing file is an error only if `named` is given.
    pub(crate) fn load(data: &Path, named: Option<&Path>) -> Result<Self, Problem> {
        let path = named.map_or_else(|| data.join("ctx.toml"), Path::to_owned);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound && named.is_none() => String::new(),
            Err(e) => {
                let message = format!("failed to read {}: {e}", path.display());
                return Err(match e.kind() {
                    // The user can change the file or its name.
                    ErrorKind::NotFound
                    | ErrorKind::InvalidData
                    | ErrorKind::IsADirectory
                    | ErrorKind::PermissionDenied => Problem::wrong_use("bad_config", message),
                    // The disk failed.
                    _ => Problem::failed("unavailable", message),
                });
            }
        };
        Self::parse(&text, path)
    }

    /// Parses the text of a file, and reads the environment.
    pub(crate) fn parse(text: &str, path: PathBuf) -> Result<Self, Problem> {
        let mut config: Config = toml::from_str(text).map_err(|e| {
            wrong_line(&path, text, e.span().map_or(0, |span| span.start), e.message())
        })?;
        config.check_sources().map_err(|why| {
            Problem::wrong_use("bad_config", format!("{}: {why}", path.display()))
        })?;
        config.path = path;
        config.text = text.to_owned();
        config.apply_environment();
        Ok(config)
    }

    fn apply_environment(&mut self) {
        let set = |name: &str, slot: &mut Option<String>| {
            if let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) {
                *slot = Some(value);
            }
        };
        set("CTX_SERVER_LISTEN", &mut self.server.listen);
        set("CTX_CLOCKS_TASK_ASK", &mut self.clocks.task_ask);
        set("CTX_CLOCKS_TASK_SEAL", &mut self.clocks.task_seal);
        set("CTX_CLOCKS_SESSION_ARCHIVE", &mut self.clocks.session_archive);
        set("CTX_DEFAULTS_PROVIDER", &mut self.defaults.provider);
        set("CTX_DEFAULTS_ON_NEW_TASK", &mut self.defaults.on_new_task);
        let mut discovery = None;
        set("CTX_DISCOVERY_ENABLED", &mut discovery);
        if let Some(value) = discovery {
            self.discovery.enabled = !matches!(value.as_str(), "false" | "0" | "no" | "off");
        }
    }

    /// The settings of the rules in the core. Also checks all durations under `[clocks]`.
    pub(crate) fn settings(&self) -> Result<Settings, Problem> {
        let default = stale::Config::default();
        self.process_idle()?;
        self.permission_hold()?;
        self.session_archive()?;
        let stale = stale::Config {
            ask_after: span("clocks.task_ask", self.clocks.task_ask.as_deref(), default.ask_after)?,
            seal_after: span(
                "clocks.task_seal",
                self.clocks.task_seal.as_deref(),
                default.seal_after,
            )?,
            message_template: self
                .clocks
                .task_seal_message
                .clone()
                .unwrap_or(default.message_template),
        };
        let on_new_task = match self.defaults.on_new_task.as_deref() {
            None | Some("ask") => OnNewTask::Ask,
            Some("auto") => OnNewTask::Auto,
            Some(other) => {
                return Err(Problem::wrong_use(
                    "bad_config",
                    format!("defaults.on_new_task: invalid value `{other}`: use `ask` or `auto`"),
                ));
            }
        };
        let default = inbox::Settings::default();
        let inbox = inbox::Settings {
            cap: self.inbox.cap.unwrap_or(default.cap),
            at_cap: self.inbox.drop.unwrap_or(default.at_cap),
            debounce: span("inbox.debounce", self.inbox.debounce.as_deref(), default.debounce)?,
        };
        Ok(Settings { stale, on_new_task, on_unclear: self.tasks.on_unclear, inbox })
    }

    /// Prices of models, and limits.
    pub(crate) fn spending(&self) -> Result<Spending, Problem> {
        let wrong = |value: WrongValue| wrong_line(&self.path, &self.text, value.at, &value.why);
        Ok(Spending {
            prices: prices(&self.prices).map_err(wrong)?,
            budget: budget(&self.budget).map_err(wrong)?,
        })
    }

    /// A database with the password of the variable that is configured for it. The variable may be
    /// missing if the password is elsewhere.
    pub(crate) fn with_store_password(
        &self,
        server: ctx_engine::Server,
    ) -> Result<ctx_engine::Server, Problem> {
        let Some(name) = self.store.password_env.as_deref() else { return Ok(server) };
        match std::env::var(name).ok().filter(|value| !value.is_empty()) {
            Some(password) => Ok(server.with_password(Some(password))),
            None if server.has_password() => Ok(server),
            None => Err(Problem::wrong_use(
                "bad_config",
                format!("store.password_env: the environment variable {name} is not set"),
            )),
        }
    }

    /// The settings that the page shows, by their names in the file.
    pub(crate) fn shown_settings(&self) -> Result<BTreeMap<&'static str, String>, Problem> {
        let settings = self.settings()?;
        let on_new_task = if settings.on_new_task == OnNewTask::Auto { "auto" } else { "ask" };
        Ok(BTreeMap::from([
            ("defaults.provider", self.defaults.provider.clone().unwrap_or_default()),
            ("defaults.on_new_task", on_new_task.to_owned()),
            ("clocks.process_idle", self.process_idle()?.to_string()),
            ("clocks.task_ask", settings.stale.ask_after.to_string()),
            ("clocks.task_seal", settings.stale.seal_after.to_string()),
            ("clocks.session_archive", self.session_archive()?.to_string()),
        ]))
    }

    pub(crate) fn default_provider(&self) -> Option<&str> {
        self.defaults.provider.as_deref()
    }

    /// Runs that this process carries out at the same time.
    pub(crate) fn max_runs(&self) -> Result<usize, Problem> {
        match self.server.max_runs {
            Some(0) => Err(Problem::wrong_use("bad_config", "server.max_runs: it must be above 0")),
            given => Ok(given.unwrap_or(MAX_RUNS)),
        }
    }

    /// How long runs may continue after SIGTERM.
    pub(crate) fn drain(&self) -> Result<Duration, Problem> {
        let span = span("server.drain", self.server.drain.as_deref(), DRAIN)?;
        Ok(Duration::from_millis(span.0))
    }

    /// Time after which other processes take over the sessions of one that does not answer.
    pub(crate) fn lease(&self) -> Result<Duration, Problem> {
        let span = span("server.lease", self.server.lease.as_deref(), LEASE)?;
        if !(LEASE_MIN..=LEASE_MAX).contains(&span) {
            let range = format!("it must be between {LEASE_MIN} and {LEASE_MAX}");
            return Err(Problem::wrong_use("bad_config", format!("server.lease: {range}")));
        }
        Ok(Duration::from_millis(span.0))
    }

    /// Time without a message after which the agent process of a session ends.
    pub(crate) fn process_idle(&self) -> Result<Span, Problem> {
        span("clocks.process_idle", self.clocks.process_idle.as_deref(), Span::minutes(5))
    }

    /// Time for which an agent process waits for the answer to a permission request.
    pub(crate) fn permission_hold(&self) -> Result<Duration, Problem> {
        let span = span(
            "clocks.permission_hold",
            self.clocks.permission_hold.as_deref(),
            Span::minutes(30),
        )?;
        Ok(Duration::from_millis(span.0))
    }

    /// Idle time after which a session is archived.
    pub(crate) fn session_archive(&self) -> Result<Span, Problem> {
        span("clocks.session_archive", self.clocks.session_archive.as_deref(), Span::days(30))
    }

    /// Longest time of a delivery to this channel.
    pub(crate) fn delivery_timeout(&self, channel: &str) -> Result<Duration, Problem> {
        let text = self.channels.get(channel).and_then(|channel| channel.timeout.as_deref());
        let span = span(&format!("channels.{channel}.timeout"), text, DELIVERY_TIMEOUT)?;
        Ok(Duration::from_millis(span.0))
    }

    pub(crate) fn classifier_timeout(&self) -> Result<Duration, Problem> {
        let span =
            span("classifier.timeout", self.classifier.timeout.as_deref(), CLASSIFIER_TIMEOUT)?;
        Ok(Duration::from_millis(span.0))
    }
}

/// The error about a part of the file that begins at a byte of its text.
fn wrong_line(path: &Path, text: &str, at: usize, why: &str) -> Problem {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    Problem::wrong_use("bad_config", format!("{}, line {line}: {why}", path.display()))
}

fn span(key: &str, text: Option<&str>, default: Span) -> Result<Span, Problem> {
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|e| Problem::wrong_use("bad_config", format!("{key}: {e}")))
    })
}
