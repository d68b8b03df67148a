//! Who can answer: what the configuration names, else what is found here, and always the demo agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ctx_engine::provider::Provider;
use ctx_engine::{EngineTimeouts, Persona, Providers, Summariser};
use ctx_providers::acp::Config as AcpConfig;
use ctx_providers::anthropic::MAX_TOKENS;
use ctx_providers::openai::Api;
use ctx_providers::pi::Config as PiConfig;
use ctx_providers::{Acp, Anthropic, Config as Remote, Demo, OpenAi, Pi, Program, Timeouts};

use crate::config::{Config, ProviderConfig};
use crate::discovery::{self, Found};
use crate::problem::Problem;

/// The name of the agent that is always there.
const DEMO: &str = "demo";
/// Where OpenAI's own models are.
const OPENAI_URL: &str = "https://api.openai.com/v1";
/// The model that answers there where none is named: its list has no order.
const OPENAI_MODEL: &str = "gpt-5";
/// Where Anthropic's own models are.
const ANTHROPIC_URL: &str = "https://api.anthropic.com";
/// The variable that holds the key for them.
const OPENAI_KEY: &str = "OPENAI_API_KEY";
/// The variable that holds the key for Anthropic's.
const ANTHROPIC_KEY: &str = "ANTHROPIC_API_KEY";
/// How many tokens fit where nobody says.
const CONTEXT_WINDOW: u64 = 128_000;
/// And at Anthropic.
const ANTHROPIC_WINDOW: u64 = 200_000;

/// Who can answer, and how that came about.
pub(crate) struct Assembled {
    pub(crate) providers: Providers,
    /// Why each is there.
    pub(crate) origins: BTreeMap<String, String>,
    /// Why a session uses the default where it names nobody.
    pub(crate) reason: String,
}

/// All providers and personas of a configuration; where it has no providers, those that are found here.
pub(crate) fn assemble(config: &Config, data: &Path) -> Result<Assembled, Problem> {
    let house = House { data, hold: config.permission_hold()? };
    let mut all: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    let mut origins = BTreeMap::new();
    all.insert(DEMO.to_owned(), Arc::new(Demo::default()));
    origins.insert(DEMO.to_owned(), "it is built in".to_owned());
    for (name, provider) in &config.providers {
        all.insert(name.clone(), built(name, provider, &house)?);
        origins.insert(name.clone(), "it is configured".to_owned());
    }
    let found = discovery::look(config);
    for Found { name, config, by } in &found {
        let provider = built(name, config, &house)
            .map_err(|p| Problem::wrong_use("bad_config", format!("{by}, but {}", p.message)))?;
        all.insert(name.clone(), provider);
        origins.insert(name.clone(), by.clone());
    }
    let (default, reason) = chosen(config, &all, &found)?;
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
    Ok(Assembled { providers, origins, reason })
}

/// Who answers where nobody is named: whom the configuration names, else the first of it, else the first that was found.
fn chosen(
    config: &Config,
    all: &BTreeMap<String, Arc<dyn Provider>>,
    found: &[Found],
) -> Result<(String, String), Problem> {
    if let Some(name) = config.default_provider() {
        if all.contains_key(name) {
            return Ok((name.to_owned(), "the configuration names it as the default".to_owned()));
        }
        let known: Vec<&str> = all.keys().map(String::as_str).collect();
        return Err(Problem::wrong_use(
            "bad_config",
            format!(
                "defaults.provider: there is no provider `{name}`; there are {}",
                known.join(", ")
            ),
        ));
    }
    let usable = |name: &String| {
        all.get(name).is_some_and(|provider| provider.about().unavailable.is_none())
    };
    if let Some(name) = config.providers.keys().find(|name| usable(name)) {
        return Ok((name.clone(), "it is the first that is configured and can be used".to_owned()));
    }
    if let Some(first) = found.iter().find(|found| usable(&found.name)) {
        return Ok((first.name.clone(), first.by.clone()));
    }
    Ok((DEMO.to_owned(), "nobody else was found that can be used".to_owned()))
}

/// Who writes the summaries, where the configuration says so.
fn summariser(
    config: &Config,
    all: &BTreeMap<String, Arc<dyn Provider>>,
    default: &str,
) -> Result<Option<Summariser>, Problem> {
    let wanted = &config.compaction;
    let provider = match (&wanted.provider, &wanted.model) {
        (None, None) => return Ok(None),
        (Some(name), _) if !all.contains_key(name) => {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let why = format!(
                "compaction.provider: there is no provider `{name}`; there are {}",
                known.join(", ")
            );
            return Err(Problem::wrong_use("bad_config", why));
        }
        (Some(name), _) => name.clone(),
        (None, Some(_)) => default.to_owned(),
    };
    Ok(Some(Summariser { provider, model: wanted.model.clone() }))
}

/// This machine's name for itself: agents keep their own conversations on it.
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

/// How patient the engine is, by the configuration's clocks.
pub(crate) fn patience(config: &Config) -> Result<EngineTimeouts, Problem> {
    Ok(EngineTimeouts {
        process_idle: config.process_idle()?,
        archive_after: config.session_archive()?,
        ..EngineTimeouts::default()
    })
}

/// Where agents live.
struct House<'a> {
    data: &'a Path,
    hold: Duration,
}

impl House<'_> {
    /// How an agent is started here. The program itself guards it, and brings it ctx's tools.
    fn program(&self, config: &ProviderConfig) -> Program {
        let mut env = config.env.clone();
        env.insert("CTX_DATA".to_owned(), self.data.to_string_lossy().into_owned());
        Program {
            command: config.command.clone(),
            env,
            guard: std::env::current_exe().ok(),
            logs: Some(self.data.join("logs").join("agents")),
            scratch: self.data.join("scratch"),
            wire_logs: std::env::var_os("CTX_WIRE_LOGS").map(PathBuf::from),
        }
    }
}

fn built(
    name: &str,
    config: &ProviderConfig,
    house: &House<'_>,
) -> Result<Arc<dyn Provider>, Problem> {
    let bad = |why: String| Problem::wrong_use("bad_config", format!("providers.{name}: {why}"));
    match config.kind.as_str() {
        "demo" => Ok(Arc::new(Demo::default())),
        "openai" => {
            // Every compatible server speaks chat completions; OpenAI's own models do better with the other.
            let api = match (config.api.as_deref(), &config.base_url) {
                (Some("chat"), _) | (None, Some(_)) => Api::Chat,
                (Some("responses"), _) | (None, None) => Api::Responses,
                (Some(other), _) => {
                    return Err(bad(format!("api `{other}` is neither chat nor responses")));
                }
            };
            let mut remote = remote(config, OPENAI_URL, CONTEXT_WINDOW).map_err(bad)?;
            if config.base_url.is_none() {
                remote.model.get_or_insert_with(|| OPENAI_MODEL.to_owned());
                usual_key(&mut remote, config, OPENAI_KEY);
            }
            Ok(Arc::new(OpenAi::new(remote, api)))
        }
        "acp" => {
            if config.command.is_empty() {
                return Err(bad(
                    "command is missing, for example command = [\"opencode\", \"acp\"]".to_owned(),
                ));
            }
            Ok(Arc::new(Acp::new(AcpConfig {
                program: house.program(config),
                model: config.model.clone(),
                context_window: config.context_window.unwrap_or(CONTEXT_WINDOW),
                bridge: std::env::current_exe().ok(),
                hold: house.hold,
                start: ctx_providers::acp::START,
            })))
        }
        "pi" => {
            let mut program = house.program(config);
            if program.command.is_empty() {
                program.command.push("pi".to_owned());
            }
            let (model, context_window) =
                (config.model.clone(), config.context_window.unwrap_or(CONTEXT_WINDOW));
            Ok(Arc::new(Pi::new(PiConfig { program, model, context_window })))
        }
        "anthropic" => {
            let mut remote = remote(config, ANTHROPIC_URL, ANTHROPIC_WINDOW).map_err(bad)?;
            usual_key(&mut remote, config, ANTHROPIC_KEY);
            Ok(Arc::new(Anthropic::new(remote, config.max_tokens.unwrap_or(MAX_TOKENS).max(1))))
        }
        other => Err(bad(format!("kind `{other}` is not one of openai, anthropic, acp, pi, demo"))),
    }
}

fn remote(config: &ProviderConfig, usual_url: &str, usual_window: u64) -> Result<Remote, String> {
    let base_url = config.base_url.clone().unwrap_or_else(|| usual_url.to_owned());
    if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
        return Err(format!("base_url `{base_url}` is no http address"));
    }
    Ok(Remote {
        base_url,
        api_key: None,
        key_variable: config.api_key_env.clone().filter(|name| !name.is_empty()),
        model: config.model.clone(),
        context_window: config.context_window.unwrap_or(usual_window),
        images: config.images.unwrap_or(true),
        timeouts: Timeouts::default(),
    })
}

/// The key that everybody has, where the configuration names none; an empty name wants none.
fn usual_key(remote: &mut Remote, config: &ProviderConfig, variable: &str) {
    if config.api_key_env.is_none() {
        remote.key_variable = Some(variable.to_owned());
    }
}
