//! The providers and personas of the configuration, and what the rules know about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ctx_core::decide::{ProviderCapabilities, ProviderCatalog, RunHost};
use ctx_core::id::NodeId;

use crate::provider::Provider;

/// A named system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Persona {
    pub system_prompt: String,
}

/// The provider of summaries, if it is not the one of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Summariser {
    pub provider: String,
    /// The model; the provider's default if none.
    pub model: Option<String>,
}

/// The configured providers and personas.
#[derive(Clone, Default)]
pub struct Providers {
    /// The name of the provider of sessions that prefer none.
    pub default: String,
    /// All providers by name.
    pub all: BTreeMap<String, Arc<dyn Provider>>,
    /// All personas by name.
    pub personas: BTreeMap<String, Persona>,
    /// The name of this machine, under which agents' own sessions are stored.
    pub host: String,
    /// The provider of summaries; the session's own if none.
    pub summariser: Option<Summariser>,
}

impl Providers {
    /// A single provider, which is the default.
    pub fn only(name: &str, provider: Arc<dyn Provider>) -> Self {
        Self {
            default: name.to_owned(),
            all: BTreeMap::from([(name.to_owned(), provider)]),
            personas: BTreeMap::new(),
            host: String::new(),
            summariser: None,
        }
    }

    /// The capabilities that rules depend on.
    pub fn catalog(&self) -> ProviderCatalog {
        let capabilities = |provider: &Arc<dyn Provider>| {
            let about = provider.about();
            ProviderCapabilities {
                can_steer: about.can.steer,
                supports_tools: about.can.tools,
                repeatable: about.repeatable,
            }
        };
        ProviderCatalog {
            default: self.default.clone(),
            providers: self
                .all
                .iter()
                .map(|(name, provider)| (name.clone(), capabilities(provider)))
                .collect(),
            personas: self.personas.keys().cloned().collect(),
        }
    }
}

/// The providers, and what the rules know about them.
pub(crate) struct Configured {
    pub(crate) providers: Arc<Providers>,
    pub(crate) run_host: RunHost,
}

impl Configured {
    pub(crate) fn new(providers: Providers, node: NodeId) -> Self {
        let run_host = RunHost { node, catalog: providers.catalog() };
        Self { providers: Arc::new(providers), run_host }
    }
}
