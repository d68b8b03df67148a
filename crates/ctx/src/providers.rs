//! Who can answer: what the configuration names, else what is found here, and always the demo agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ctx_engine::provider::{About, Can, Class, End, Failure, Link, Provider, Request};
use ctx_engine::{Patience, Persona, Providers, Summariser};
use ctx_providers::openai::{Config as OpenAiConfig, Timeouts};
use ctx_providers::{Demo, OpenAi};

use crate::config::{Config, ProviderConfig};
use crate::problem::Problem;

/// The name of the agent that is always there.
const DEMO: &str = "demo";
/// Where OpenAI's own models are.
const OPENAI_URL: &str = "https://api.openai.com/v1";
/// The variable that holds the key for them.
const OPENAI_KEY: &str = "OPENAI_API_KEY";
/// How many tokens fit where nobody says.
const CONTEXT_WINDOW: u64 = 128_000;

/// All providers and personas of a configuration.
pub(crate) fn assemble(config: &Config) -> Result<Providers, Problem> {
    let mut all: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    all.insert(DEMO.to_owned(), Arc::new(Demo::default()));
    for (name, provider) in &config.providers {
        all.insert(name.clone(), built(name, provider)?);
    }
    if config.providers.is_empty() && variable(OPENAI_KEY).is_some() {
        let found = ProviderConfig::found("openai", OPENAI_KEY);
        all.insert("openai".to_owned(), built("openai", &found)?);
    }
    let default = match config.default_provider() {
        Some(name) if all.contains_key(name) => name.to_owned(),
        Some(name) => {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            return Err(Problem::wrong_use(
                "bad_config",
                format!("defaults.provider: there is no provider `{name}`; there are {}", known.join(", ")),
            ));
        }
        // The first that was named or found; the demo agent where there is nothing else.
        None => all
            .iter()
            .find(|(name, provider)| *name != DEMO && provider.about().unavailable.is_none())
            .map_or(DEMO, |(name, _)| name)
            .to_owned(),
    };
    let persona = |(name, persona): (&String, &crate::config::PersonaConfig)| {
        (name.clone(), Persona { system_prompt: persona.system_prompt.clone() })
    };
    let summariser = summariser(config, &all, &default)?;
    Ok(Providers { default, all, personas: config.personas.iter().map(persona).collect(), host: host(), summariser })
}

/// Who writes the summaries, where the configuration says so.
fn summariser(config: &Config, all: &BTreeMap<String, Arc<dyn Provider>>, default: &str) -> Result<Option<Summariser>, Problem> {
    let wanted = &config.compaction;
    let provider = match (&wanted.provider, &wanted.model) {
        (None, None) => return Ok(None),
        (Some(name), _) if !all.contains_key(name) => {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let why = format!("compaction.provider: there is no provider `{name}`; there are {}", known.join(", "));
            return Err(Problem::wrong_use("bad_config", why));
        }
        (Some(name), _) => name.clone(),
        (None, Some(_)) => default.to_owned(),
    };
    Ok(Some(Summariser { provider, model: wanted.model.clone() }))
}

/// This machine's name for itself: agents keep their own conversations on it.
fn host() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").map(|id| id.trim().to_owned()).unwrap_or_default();
    if id.is_empty() { rustix::system::uname().nodename().to_string_lossy().into_owned() } else { id }
}

/// How patient the engine is, by the configuration's clocks.
pub(crate) fn patience(config: &Config) -> Result<Patience, Problem> {
    Ok(Patience { process_idle: config.process_idle()?, archive_after: config.session_archive()?, ..Patience::default() })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn built(name: &str, config: &ProviderConfig) -> Result<Arc<dyn Provider>, Problem> {
    let bad = |why: String| Problem::wrong_use("bad_config", format!("providers.{name}: {why}"));
    match config.kind.as_str() {
        "demo" => Ok(Arc::new(Demo::default())),
        "openai" => {
            let base_url = config.base_url.clone().unwrap_or_else(|| OPENAI_URL.to_owned());
            if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
                return Err(bad(format!("base_url `{base_url}` is no http address")));
            }
            Ok(Arc::new(OpenAi::new(OpenAiConfig {
                base_url,
                api_key: None,
                key_variable: config.api_key_env.clone(),
                model: config.model.clone(),
                context_window: config.context_window.unwrap_or(CONTEXT_WINDOW),
                timeouts: Timeouts::default(),
            })))
        }
        kind @ ("anthropic" | "acp" | "pi") => Ok(Arc::new(NotYet(match kind {
            "anthropic" => "anthropic",
            "acp" => "acp",
            _ => "pi",
        }))),
        other => Err(bad(format!("kind `{other}` is not one of openai, anthropic, acp, pi, demo"))),
    }
}

/// A provider that the configuration may name and this version cannot run yet: it says so in the turn.
struct NotYet(&'static str);

impl NotYet {
    fn why(&self) -> String {
        format!("this version of ctx cannot run providers of kind `{}` yet", self.0)
    }
}

#[async_trait]
impl Provider for NotYet {
    fn about(&self) -> About {
        About {
            kind: self.0,
            can: Can::default(),
            models: Vec::new(),
            model: None,
            context_window: CONTEXT_WINDOW,
            unavailable: Some(self.why()),
            ..About::default()
        }
    }

    async fn run(&self, _: Request, _: Link) -> End {
        End::Failed(Failure::new("provider_unavailable", Class::GiveUp, self.why()))
    }
}
