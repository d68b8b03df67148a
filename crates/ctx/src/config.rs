//! `ctx.toml` in the data directory or `--config`; the environment over the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_engine::core::decide::{OnNewTask, Settings};
use ctx_engine::core::inbox::{self, AtCap};
use ctx_engine::core::stale;
use ctx_engine::core::time::Span;
use serde::Deserialize;

use crate::problem::Problem;

/// What a user may set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    clocks: Clocks,
    defaults: Defaults,
    pub(crate) classifier: Classifier,
    pub(crate) store: Store,
    pub(crate) server: Server,
    /// Sections of `ctx serve`: one file may serve both, and the recorder's verbs pass over them.
    pub(crate) providers: BTreeMap<String, ProviderConfig>,
    pub(crate) personas: BTreeMap<String, PersonaConfig>,
    pub(crate) compaction: CompactionConfig,
    pub(crate) discovery: Discovery,
    inbox: Inbox,
    #[serde(rename = "mcp")]
    _mcp: toml::Table,
}

/// Where and for whom `ctx serve` listens.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) listen: Option<String>,
    /// Working directories given over HTTP lie under one of these; the user's home and where serve started if none.
    pub(crate) roots: Vec<PathBuf>,
    /// Names besides `localhost` under which it is reached.
    pub(crate) hosts: Vec<String>,
}

/// How long is long.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Clocks {
    process_idle: Option<String>,
    /// How long an agent's process that asked something is kept for the answer.
    permission_hold: Option<String>,
    session_archive: Option<String>,
    task_ask: Option<String>,
    task_seal: Option<String>,
    /// The message of a task sealed for its age; `{duration}` is replaced.
    task_seal_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Defaults {
    provider: Option<String>,
    on_new_task: Option<String>,
}

/// An agent or a model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    pub(crate) kind: String,
    pub(crate) base_url: Option<String>,
    /// The name of a variable; a key is never stored.
    pub(crate) api_key_env: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) context_window: Option<u64>,
    /// Of models: the most tokens of one answer, where the API wants to be told.
    pub(crate) max_tokens: Option<u64>,
    /// Of models: whether they take pictures.
    pub(crate) images: Option<bool>,
    /// Of kind `openai`: `chat` or `responses`.
    pub(crate) api: Option<String>,
    /// Of agents: how they are started.
    pub(crate) command: Vec<String>,
    /// And with which variables besides ours.
    pub(crate) env: BTreeMap<String, String>,
}

/// Who is looked for where no provider is configured.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Discovery {
    pub(crate) enabled: bool,
    /// Model servers on this machine, by name and port.
    servers: Option<BTreeMap<String, u16>>,
}

impl Default for Discovery {
    fn default() -> Self {
        Self { enabled: true, servers: None }
    }
}

/// The ports that model servers are known to take.
const SERVERS: [(&str, u16); 4] =
    [("ollama", 11434), ("llama-cpp", 8080), ("lm-studio", 1234), ("vllm", 8000)];

impl Discovery {
    pub(crate) fn servers(&self) -> BTreeMap<String, u16> {
        let known = || SERVERS.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect();
        self.servers.clone().unwrap_or_else(known)
    }
}

/// A named system prompt.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PersonaConfig {
    pub(crate) system_prompt: String,
}

/// Who writes the summaries; whoever answers in a session if nobody is named.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CompactionConfig {
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
}

/// How inboxes behave.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Inbox {
    cap: Option<usize>,
    drop: Option<AtCap>,
    debounce: Option<String>,
}

/// A program that judges messages.
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
}

impl Default for Store {
    fn default() -> Self {
        Self { compress: true }
    }
}

/// A model that takes longer than this to name a letter is not waited for.
const CLASSIFIER_TIMEOUT: Span = Span(20_000);

impl Config {
    /// Reads the configuration of a data directory; without a file everything has its default.
    pub(crate) fn load(data: &Path, named: Option<&Path>) -> Result<Self, Problem> {
        let path = named.map_or_else(|| data.join("ctx.toml"), Path::to_owned);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && named.is_none() => String::new(),
            Err(e) => {
                return Err(Problem::wrong_use(
                    "bad_config",
                    format!("{} cannot be read: {e}", path.display()),
                ));
            }
        };
        let mut config: Config = toml::from_str(&text).map_err(|e| {
            let line = e
                .span()
                .map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            Problem::wrong_use(
                "bad_config",
                format!("{}, line {line}: {}", path.display(), e.message()),
            )
        })?;
        config.environment();
        Ok(config)
    }

    fn environment(&mut self) {
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
        if let Some(said) = discovery {
            self.discovery.enabled = !matches!(said.as_str(), "false" | "0" | "no" | "off");
        }
    }

    /// What the rules need of it.
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
                    format!("defaults.on_new_task: `{other}` is neither ask nor auto"),
                ));
            }
        };
        let usual = inbox::Settings::default();
        let inbox = inbox::Settings {
            cap: self.inbox.cap.unwrap_or(usual.cap),
            at_cap: self.inbox.drop.unwrap_or(usual.at_cap),
            debounce: span("inbox.debounce", self.inbox.debounce.as_deref(), usual.debounce)?,
        };
        Ok(Settings { stale, on_new_task, inbox })
    }

    /// Who answers where nobody is named.
    pub(crate) fn default_provider(&self) -> Option<&str> {
        self.defaults.provider.as_deref()
    }

    /// How long an agent's process is kept for a session that does not speak.
    pub(crate) fn process_idle(&self) -> Result<Span, Problem> {
        span("clocks.process_idle", self.clocks.process_idle.as_deref(), Span::minutes(5))
    }

    /// How long an agent's process that asked something is kept for the answer.
    pub(crate) fn permission_hold(&self) -> Result<Duration, Problem> {
        let span = span(
            "clocks.permission_hold",
            self.clocks.permission_hold.as_deref(),
            Span::minutes(30),
        )?;
        Ok(Duration::from_millis(span.0))
    }

    /// How long a session may be idle before it is put away.
    pub(crate) fn session_archive(&self) -> Result<Span, Problem> {
        span("clocks.session_archive", self.clocks.session_archive.as_deref(), Span::days(30))
    }

    pub(crate) fn classifier_timeout(&self) -> Result<Duration, Problem> {
        let span =
            span("classifier.timeout", self.classifier.timeout.as_deref(), CLASSIFIER_TIMEOUT)?;
        Ok(Duration::from_millis(span.0))
    }
}

fn span(key: &str, text: Option<&str>, default: Span) -> Result<Span, Problem> {
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|e| Problem::wrong_use("bad_config", format!("{key}: {e}")))
    })
}
