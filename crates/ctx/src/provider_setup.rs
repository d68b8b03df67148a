//! Builds the providers: those of the configuration, else those that discovery finds, and always
//! the built-in demo agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ctx_engine::provider::Provider;
use ctx_engine::{EngineTimeouts, Persona, Providers, Summariser};
use ctx_providers::acp::{AttachedClient, Config as AcpConfig};
use ctx_providers::anthropic::MAX_TOKENS;
use ctx_providers::openai::Api;
use ctx_providers::pi::Config as PiConfig;
use ctx_providers::{Acp, Anthropic, Demo, OpenAi, Pi, Program, ServerConfig, Timeouts};

use crate::config::{Config, ProviderConfig};
use crate::discovery::{self, Found};
use crate::problem::Problem;

/// Name of the built-in demo agent.
const DEMO: &str = "demo";
const OPENAI_URL: &str = "https://api.openai.com/v1";
/// Default model at OpenAI. The API lists its models in no useful order, so one is chosen here.
const OPENAI_MODEL: &str = "gpt-5";
const ANTHROPIC_URL: &str = "https://api.anthropic.com";
const OPENAI_KEY_VARIABLE: &str = "OPENAI_API_KEY";
const ANTHROPIC_KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
/// Context window in tokens if the configuration has no `context_window`.
const CONTEXT_WINDOW: u64 = 128_000;
/// The same for models of Anthropic.
const ANTHROPIC_WINDOW: u64 = 200_000;

/// The providers, and why each is included.
pub(crate) struct Assembled {
    pub(crate) providers: Providers,
    /// Reason why each provider is included, by name.
    pub(crate) origins: BTreeMap<String, String>,
    /// Reason why the default provider is the default.
    pub(crate) default_reason: String,
}

/// Builds all providers and personas. Discovery runs only if the configuration has no providers.
pub(crate) fn assemble(config: &Config, data: &Path) -> Result<Assembled, Problem> {
    assemble_for(config, data, None)
}

/// As [`assemble`], with a client that is attached to sessions of this process.
pub(crate) fn assemble_for(
    config: &Config,
    data: &Path,
    client: Option<Arc<dyn AttachedClient>>,
) -> Result<Assembled, Problem> {
    let environment = AgentEnvironment {
        data,
        client,
        store: config.store.url.as_deref(),
        permission_hold: config.permission_hold()?,
    };
    let mut all: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    let mut origins = BTreeMap::new();
    all.insert(DEMO.to_owned(), Arc::new(Demo::default()));
    origins.insert(DEMO.to_owned(), "built in".to_owned());
    for (name, provider) in &config.providers {
        all.insert(name.clone(), build(name, provider, &environment)?);
        origins.insert(name.clone(), "configured".to_owned());
    }
    let found = discovery::discover(config);
    for Found { name, config, by } in &found {
        let provider = build(name, config, &environment).map_err(|problem| {
            Problem::wrong_use("bad_config", format!("{} ({by})", problem.message))
        })?;
        all.insert(name.clone(), provider);
        origins.insert(name.clone(), by.clone());
    }
    let (default, default_reason) = choose_default(config, &all, &found)?;
    let persona = |(name, persona): (&String, &crate::config::PersonaConfig)| {
        (name.clone(), Persona { system_prompt: persona.system_prompt.clone() })
    };
    let summariser = summariser(config, &all, &default)?;
    let providers = Providers {
        default,
        all,
        personas: config.personas.iter().map(persona).collect(),
        host: host(),
        summariser,
    };
    Ok(Assembled { providers, origins, default_reason })
}

/// Builds one provider that the configuration does not have, to test it.
pub(crate) fn build_one(
    name: &str,
    provider: &ProviderConfig,
    config: &Config,
    data: &Path,
) -> Result<Arc<dyn Provider>, Problem> {
    let environment = AgentEnvironment {
        data,
        client: None,
        store: config.store.url.as_deref(),
        permission_hold: config.permission_hold()?,
    };
    build(name, provider, &environment)
}

/// Chooses the default provider: `defaults.provider`, else the first configured one that is
/// available, else the first discovered one that is available, else the demo agent.
fn choose_default(
    config: &Config,
    all: &BTreeMap<String, Arc<dyn Provider>>,
    found: &[Found],
) -> Result<(String, String), Problem> {
    if let Some(name) = config.default_provider() {
        if all.contains_key(name) {
            return Ok((name.to_owned(), "set as `defaults.provider`".to_owned()));
        }
        let known: Vec<&str> = all.keys().map(String::as_str).collect();
        return Err(Problem::wrong_use(
            "bad_config",
            format!(
                "defaults.provider: unknown provider `{name}`: the providers are {}",
                known.join(", ")
            ),
        ));
    }
    let is_available = |name: &String| {
        all.get(name).is_some_and(|provider| provider.about().unavailable.is_none())
    };
    if let Some(name) = config.providers.keys().find(|name| is_available(name)) {
        return Ok((name.clone(), "first configured provider that is available".to_owned()));
    }
    if let Some(first) = found.iter().find(|found| is_available(&found.name)) {
        return Ok((first.name.clone(), first.by.clone()));
    }
    Ok((DEMO.to_owned(), "no other provider is available".to_owned()))
}

fn summariser(
    config: &Config,
    all: &BTreeMap<String, Arc<dyn Provider>>,
    default: &str,
) -> Result<Option<Summariser>, Problem> {
    let compaction = &config.compaction;
    let provider = match (&compaction.provider, &compaction.model) {
        (None, None) => return Ok(None),
        (Some(name), _) if !all.contains_key(name) => {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let why = format!(
                "compaction.provider: unknown provider `{name}`: the providers are {}",
                known.join(", ")
            );
            return Err(Problem::wrong_use("bad_config", why));
        }
        (Some(name), _) => name.clone(),
        (None, Some(_)) => default.to_owned(),
    };
    Ok(Some(Summariser { provider, model: compaction.model.clone() }))
}

/// Identifies this machine. Agents keep their own sessions per machine.
fn host() -> String {
    let id = std::fs::read_to_string("/etc/machine-id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default();
    if id.is_empty() {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    } else {
        id
    }
}

/// The engine's timeouts, from `[clocks]`.
pub(crate) fn timeouts(config: &Config) -> Result<EngineTimeouts, Problem> {
    Ok(EngineTimeouts {
        process_idle: config.process_idle()?,
        archive_after: config.session_archive()?,
        lease: config.lease()?,
        runs_max: config.max_runs()?,
        ..EngineTimeouts::default()
    })
}

/// What all agent processes have in common.
struct AgentEnvironment<'a> {
    data: &'a Path,
    client: Option<Arc<dyn AttachedClient>>,
    store: Option<&'a str>,
    permission_hold: Duration,
}

impl AgentEnvironment<'_> {
    /// The command line of an agent. ctx starts itself as the guard process above the agent.
    fn program(&self, config: &ProviderConfig) -> Program {
        let mut env = config.env.clone();
        // The agent has another working directory.
        let data = std::path::absolute(self.data).unwrap_or_else(|_| self.data.to_owned());
        env.insert("CTX_DATA".to_owned(), data.to_string_lossy().into_owned());
        env.extend(self.store.map(|url| ("CTX_STORE".to_owned(), url.to_owned())));
        Program {
            command: config.command.clone(),
            env,
            guard_program: std::env::current_exe().ok(),
            log_dir: Some(self.data.join("logs").join("agents")),
            scratch_dir: self.data.join("scratch"),
            wire_log_dir: std::env::var_os("CTX_WIRE_LOGS").map(PathBuf::from),
        }
    }
}

fn build(
    name: &str,
    config: &ProviderConfig,
    environment: &AgentEnvironment<'_>,
) -> Result<Arc<dyn Provider>, Problem> {
    let bad = |why: String| Problem::wrong_use("bad_config", format!("providers.{name}: {why}"));
    match config.kind.as_str() {
        "demo" => Ok(Arc::new(Demo::default())),
        "openai" => {
            // Every compatible server supports chat completions. OpenAI's own models work better
            // with Responses.
            let api = match (config.api.as_deref(), &config.base_url) {
                (Some("chat"), _) | (None, Some(_)) => Api::Chat,
                (Some("responses"), _) | (None, None) => Api::Responses,
                (Some(other), _) => {
                    return Err(bad(format!("invalid api `{other}`: use `chat` or `responses`")));
                }
            };
            let mut remote = remote(config, OPENAI_URL, CONTEXT_WINDOW).map_err(bad)?;
            if config.base_url.is_none() {
                remote.model.get_or_insert_with(|| OPENAI_MODEL.to_owned());
                set_default_key(&mut remote, config, OPENAI_KEY_VARIABLE);
            }
            Ok(Arc::new(OpenAi::new(remote, api)))
        }
        "acp" => {
            if config.command.is_empty() {
                return Err(bad(
                    "`command` is missing: set it, for example to [\"opencode\", \"acp\"]"
                        .to_owned(),
                ));
            }
            Ok(Arc::new(Acp::new(AcpConfig {
                program: environment.program(config),
                model: config.model.clone(),
                context_window: config.context_window.unwrap_or(CONTEXT_WINDOW),
                bridge: crate::mcp::bridge(),
                suspension_hold: environment.permission_hold,
                start_timeout: ctx_providers::acp::START_TIMEOUT,
                client: environment.client.clone(),
            })))
        }
        "pi" => {
            let mut program = environment.program(config);
            if program.command.is_empty() {
                program.command.push("pi".to_owned());
            }
            let (model, context_window) =
                (config.model.clone(), config.context_window.unwrap_or(CONTEXT_WINDOW));
            Ok(Arc::new(Pi::new(PiConfig { program, model, context_window })))
        }
        "anthropic" => {
            let mut remote = remote(config, ANTHROPIC_URL, ANTHROPIC_WINDOW).map_err(bad)?;
            set_default_key(&mut remote, config, ANTHROPIC_KEY_VARIABLE);
            Ok(Arc::new(Anthropic::new(remote, config.max_tokens.unwrap_or(MAX_TOKENS).max(1))))
        }
        other => {
            Err(bad(format!("unknown kind `{other}`: use openai, anthropic, acp, pi or demo")))
        }
    }
}

fn remote(
    config: &ProviderConfig,
    default_url: &str,
    default_window: u64,
) -> Result<ServerConfig, String> {
    let base_url = config.base_url.clone().unwrap_or_else(|| default_url.to_owned());
    if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
        return Err(format!(
            "invalid base_url `{base_url}`: it must start with http:// or https://"
        ));
    }
    Ok(ServerConfig {
        base_url,
        api_key: None,
        key_variable: config.api_key_env.clone().filter(|name| !name.is_empty()),
        model: config.model.clone(),
        context_window: config.context_window.unwrap_or(default_window),
        images: config.images.unwrap_or(true),
        timeouts: Timeouts::default(),
    })
}

/// Sets the default key variable, unless the configuration has `api_key_env`. If `api_key_env` is
/// empty, no key is sent.
fn set_default_key(remote: &mut ServerConfig, config: &ProviderConfig, variable: &str) {
    if config.api_key_env.is_none() {
        remote.key_variable = Some(variable.to_owned());
    }
}
