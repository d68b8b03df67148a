//! Discovery of providers: API keys in the environment, agents on PATH, model servers on this
//! machine. It runs only if the configuration has no providers.
//!
//! [`discover`] returns the providers in this order of preference:
//!
//! 1. **API keys.** The user set them on purpose, and they need no login and no running program.
//!    OpenAI precedes Anthropic.
//! 2. **Agents on PATH.** They can do more than a model, but may need a login first.
//! 3. **Model servers.** The quality of their model is unknown.
//!
//! The demo agent, which is always available, comes last.

mod agents_on_path;
mod model_servers;

use std::ffi::OsStr;

use crate::config::{Config, ProviderConfig};

/// A provider kind, and the environment variables of its key, its base URL and its model.
const KEY_VARIABLES: [[&str; 4]; 2] = [
    ["openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"],
    ["anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"],
];

/// A discovered provider.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) name: String,
    /// Equivalent to this configuration.
    pub(crate) config: ProviderConfig,
    /// Reason for the user, such as "OPENAI_API_KEY is set".
    pub(crate) by: String,
}

/// Returns the discovered providers in order of preference. It starts no program and contacts only
/// this machine.
pub(crate) fn discover(config: &Config) -> Vec<Found> {
    if config.providers.is_empty() { search(config) } else { Vec::new() }
}

/// Returns what discovery finds, also if the configuration has providers.
pub(crate) fn search(config: &Config) -> Vec<Found> {
    if !config.discovery.enabled {
        return Vec::new();
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let mut found = discover_keys(variable);
    found.extend(agents_on_path::discover(
        std::env::var_os("PATH").as_deref().unwrap_or(OsStr::new("")),
    ));
    found.extend(model_servers::discover(&config.discovery.servers()));
    found
}

/// The models of the server at an address; `None` if it is not on this machine or does not respond.
pub(crate) fn models_at(base_url: &str) -> Option<Vec<String>> {
    let rest = base_url.trim().strip_prefix("http://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    if !matches!(host, "127.0.0.1" | "localhost") {
        return None;
    }
    model_servers::model_names(port.parse().ok()?)
}

fn discover_keys(variable: impl Fn(&str) -> Option<String>) -> Vec<Found> {
    let key = |[kind, key, address, model]: &[&str; 4]| {
        variable(key)?;
        let (base_url, model) = (variable(address), variable(model));
        let by = match &base_url {
            Some(_) => format!("{key} and {address} are set"),
            None => format!("{key} is set"),
        };
        let api_key_env = Some((*key).to_owned());
        let config = ProviderConfig {
            kind: (*kind).to_owned(),
            api_key_env,
            base_url,
            model,
            ..ProviderConfig::default()
        };
        Some(Found { name: (*kind).to_owned(), config, by })
    };
    KEY_VARIABLES.iter().filter_map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_order_and_their_values_are_not_stored() {
        let all = |name: &str| Some(format!("value of {name}"));
        let found = discover_keys(all);
        assert_eq!(
            found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(),
            ["openai", "anthropic"]
        );
        assert_eq!(found[0].config.base_url.as_deref(), Some("value of OPENAI_BASE_URL"));
        assert_eq!(found[1].config.api_key_env.as_deref(), Some("ANTHROPIC_API_KEY"));
        assert_eq!(found[1].config.model.as_deref(), Some("value of ANTHROPIC_MODEL"));
        assert!(
            !format!("{found:?}").contains("value of OPENAI_API_KEY"),
            "only the name of the variable is stored"
        );
        let one = discover_keys(|name| (name == "ANTHROPIC_API_KEY").then(|| "x".to_owned()));
        assert_eq!((one.len(), one[0].by.as_str()), (1, "ANTHROPIC_API_KEY is set"));
        assert!(discover_keys(|_| None).is_empty());
    }
}
