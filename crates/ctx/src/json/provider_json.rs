//! Providers: the agents and models that can answer.

use ctx_engine::Providers as EngineProviders;
use ctx_engine::provider::{About, ProviderFeatures as EngineCan};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// How a provider authenticates
#[derive(Serialize, ToSchema)]
pub(crate) struct Auth {
    required: bool,
    /// What to do, for example which environment variable to set
    how: Option<String>,
}

/// Capabilities of a provider
#[derive(Serialize, ToSchema)]
pub(crate) struct ProviderFeatures {
    steer: bool,
    load: bool,
    resume: bool,
    images: bool,
    tools: bool,
    mcp: bool,
    compact: bool,
}

impl From<EngineCan> for ProviderFeatures {
    fn from(can: EngineCan) -> Self {
        let EngineCan { steer, load, resume, images, tools, mcp, compact } = can;
        Self { steer, load, resume, images, tools, mcp, compact }
    }
}

/// An agent or a model. `options` and `commands` are null until the agent has started.
#[derive(Serialize, ToSchema)]
pub(crate) struct Provider {
    id: String,
    kind: String,
    available: bool,
    /// Why the provider is not available
    reason: Option<String>,
    auth: Auth,
    models: Vec<String>,
    /// The default model
    model: Option<String>,
    /// Size of the context window in tokens
    context_window: u64,
    #[schema(value_type = Option<Vec<Object>>)]
    options: Option<Vec<Value>>,
    #[schema(value_type = Option<Vec<Object>>)]
    commands: Option<Vec<Value>>,
    can: ProviderFeatures,
}

impl Provider {
    fn of(id: &str, about: About) -> Self {
        let mut agent = about.agent.unwrap_or_default();
        let login = agent.login.take();
        Self {
            id: id.to_owned(),
            kind: about.kind.to_owned(),
            available: about.unavailable.is_none(),
            reason: about.unavailable,
            auth: Auth {
                required: about.key_variable.is_some() || login.is_some(),
                how: about
                    .key_variable
                    .map(|variable| format!("set the environment variable {variable}"))
                    .or(login),
            },
            models: about.models,
            model: about.model,
            context_window: about.context_window,
            options: agent.options,
            commands: agent.commands,
            can: about.can.into(),
        }
    }
}

/// All providers
#[derive(Serialize, ToSchema)]
pub(crate) struct Providers {
    providers: Vec<Provider>,
    /// Id of the provider of sessions that name none
    default: Option<String>,
    next_cursor: Option<String>,
}

impl From<&EngineProviders> for Providers {
    fn from(known: &EngineProviders) -> Self {
        let providers =
            known.all.iter().map(|(id, provider)| Provider::of(id, provider.about())).collect();
        let default = known.all.contains_key(&known.default).then(|| known.default.clone());
        Self { providers, default, next_cursor: None }
    }
}
