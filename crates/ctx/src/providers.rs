//! Who can answer: what the configuration names, else what is found here, and always the demo agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ctx_engine::provider::{About, Can, Class, End, Failure, Link, Provider, Request};
use ctx_engine::{Patience, Persona, Providers};
use ctx_providers::anthropic::MAX_TOKENS;
use ctx_providers::openai::Api;
use ctx_providers::{Anthropic, Config as Remote, Demo, OpenAi, Timeouts};

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
pub(crate) fn assemble(config: &Config) -> Result<Assembled, Problem> {
    let mut all: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    let mut origins = BTreeMap::new();
    all.insert(DEMO.to_owned(), Arc::new(Demo::default()));
    origins.insert(DEMO.to_owned(), "it is built in".to_owned());
    for (name, provider) in &config.providers {
        all.insert(name.clone(), built(name, provider)?);
        origins.insert(name.clone(), "it is configured".to_owned());
    }
    let found = discovery::look(config);
    for Found { name, config, by } in &found {
        let provider = built(name, config).map_err(|p| Problem::wrong_use("bad_config", format!("{by}, but {}", p.message)))?;
        all.insert(name.clone(), provider);
        origins.insert(name.clone(), by.clone());
    }
    let (default, reason) = chosen(config, &all, &found)?;
    let persona = |(name, persona): (&String, &crate::config::PersonaConfig)| {
        (name.clone(), Persona { system_prompt: persona.system_prompt.clone() })
    };
    let providers = Providers { default, all, personas: config.personas.iter().map(persona).collect() };
    Ok(Assembled { providers, origins, reason })
}

/// Who answers where nobody is named: whom the configuration names, else the first of it, else the first that was found.
fn chosen(config: &Config, all: &BTreeMap<String, Arc<dyn Provider>>, found: &[Found]) -> Result<(String, String), Problem> {
    if let Some(name) = config.default_provider() {
        if all.contains_key(name) {
            return Ok((name.to_owned(), "the configuration names it as the default".to_owned()));
        }
        let known: Vec<&str> = all.keys().map(String::as_str).collect();
        return Err(Problem::wrong_use(
            "bad_config",
            format!("defaults.provider: there is no provider `{name}`; there are {}", known.join(", ")),
        ));
    }
    let usable = |name: &String| all.get(name).is_some_and(|provider| provider.about().unavailable.is_none());
    if let Some(name) = config.providers.keys().find(|name| usable(name)) {
        return Ok((name.clone(), "it is the first that is configured and can be used".to_owned()));
    }
    if let Some(first) = found.iter().find(|found| usable(&found.name)) {
        return Ok((first.name.clone(), first.by.clone()));
    }
    Ok((DEMO.to_owned(), "nobody else was found that can be used".to_owned()))
}

/// How patient the engine is, by the configuration's clocks.
pub(crate) fn patience(config: &Config) -> Result<Patience, Problem> {
    Ok(Patience { process_idle: config.process_idle()?, archive_after: config.session_archive()?, ..Patience::default() })
}

fn built(name: &str, config: &ProviderConfig) -> Result<Arc<dyn Provider>, Problem> {
    let bad = |why: String| Problem::wrong_use("bad_config", format!("providers.{name}: {why}"));
    match config.kind.as_str() {
        "demo" => Ok(Arc::new(Demo::default())),
        "openai" => {
            // Every compatible server speaks chat completions; OpenAI's own models do better with the other.
            let api = match (config.api.as_deref(), &config.base_url) {
                (Some("chat"), _) | (None, Some(_)) => Api::Chat,
                (Some("responses"), _) | (None, None) => Api::Responses,
                (Some(other), _) => return Err(bad(format!("api `{other}` is neither chat nor responses"))),
            };
            let mut remote = remote(config, OPENAI_URL, CONTEXT_WINDOW).map_err(bad)?;
            if config.base_url.is_none() {
                remote.model.get_or_insert_with(|| OPENAI_MODEL.to_owned());
                usual_key(&mut remote, config, OPENAI_KEY);
            }
            Ok(Arc::new(OpenAi::new(remote, api)))
        }
        "anthropic" => {
            let mut remote = remote(config, ANTHROPIC_URL, ANTHROPIC_WINDOW).map_err(bad)?;
            usual_key(&mut remote, config, ANTHROPIC_KEY);
            Ok(Arc::new(Anthropic::new(remote, config.max_tokens.unwrap_or(MAX_TOKENS).max(1))))
        }
        "acp" => Ok(Arc::new(NotYet("acp"))),
        "pi" => Ok(Arc::new(NotYet("pi"))),
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
            key_variable: None,
        }
    }

    async fn run(&self, _: Request, _: Link) -> End {
        End::Failed(Failure::new("provider_unavailable", Class::GiveUp, self.why()))
    }
}
