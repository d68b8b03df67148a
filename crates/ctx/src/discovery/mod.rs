//! Who is there where nobody was configured: keys in the environment, agents on PATH, model servers on this machine.
//!
//! The order of [`look`] is the order of preference, and this is the only place that says it:
//!
//! 1. **Keys**: somebody set them on purpose, and they work without a login or a running program. OpenAI's before
//!    Anthropic's, as in the list.
//! 2. **Agents on PATH**: they can do more than a model, but may want a login first.
//! 3. **Model servers here**: anything may run there, and how well its model does the work is anybody's guess.
//!
//! Behind them comes the demo agent, which is always there. An explicit configuration wins over all of this: where
//! providers are configured, nobody looks.

mod agents;
mod servers;

use std::ffi::OsStr;

use crate::config::{Config, ProviderConfig};

/// A kind, and the variables that hold its key, its address and its model.
const KEYS: [[&str; 4]; 2] = [
    ["openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"],
    ["anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"],
];

/// Somebody who could answer.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// What it is called here.
    pub(crate) name: String,
    /// As if it had been configured so.
    pub(crate) config: ProviderConfig,
    /// What was found.
    pub(crate) by: String,
}

/// Looks around, in order of preference. Quick: nobody is started, and only this machine is asked.
pub(crate) fn look(config: &Config) -> Vec<Found> {
    if !config.providers.is_empty() || !config.discovery.enabled {
        return Vec::new();
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let mut found = keys(variable);
    found.extend(agents::on_path(std::env::var_os("PATH").as_deref().unwrap_or(OsStr::new(""))));
    found.extend(servers::here(&config.discovery.servers()));
    found
}

fn keys(variable: impl Fn(&str) -> Option<String>) -> Vec<Found> {
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
    KEYS.iter().filter_map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_order_and_never_repeated() {
        let all = |name: &str| Some(format!("value of {name}"));
        let found = keys(all);
        assert_eq!(
            found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(),
            ["openai", "anthropic"]
        );
        assert_eq!(found[0].config.base_url.as_deref(), Some("value of OPENAI_BASE_URL"));
        assert_eq!(found[1].config.api_key_env.as_deref(), Some("ANTHROPIC_API_KEY"));
        assert_eq!(found[1].config.model.as_deref(), Some("value of ANTHROPIC_MODEL"));
        assert!(
            !format!("{found:?}").contains("value of OPENAI_API_KEY"),
            "only the variable's name is known"
        );
        let one = keys(|name| (name == "ANTHROPIC_API_KEY").then(|| "x".to_owned()));
        assert_eq!((one.len(), one[0].by.as_str()), (1, "ANTHROPIC_API_KEY is set"));
        assert!(keys(|_| None).is_empty());
    }
}
