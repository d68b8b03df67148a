//! Who can answer, as every surface gives it.

use ctx_engine::Providers as Known;
use ctx_engine::provider::{About, Can as CoreCan};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// How to be let in.
#[derive(Serialize, ToSchema)]
pub(crate) struct Auth {
    required: bool,
    how: Option<String>,
}

/// What it can do.
#[derive(Serialize, ToSchema)]
pub(crate) struct Can {
    steer: bool,
    load: bool,
    resume: bool,
    images: bool,
    tools: bool,
    mcp: bool,
    compact: bool,
}

impl From<CoreCan> for Can {
    fn from(can: CoreCan) -> Self {
        let CoreCan { steer, load, resume, images, tools, mcp, compact } = can;
        Self { steer, load, resume, images, tools, mcp, compact }
    }
}

/// An agent or a model. What is only known once it started is null until then.
#[derive(Serialize, ToSchema)]
pub(crate) struct Provider {
    id: String,
    kind: String,
    available: bool,
    reason: Option<String>,
    auth: Auth,
    models: Vec<String>,
    /// The model that answers where none is named.
    model: Option<String>,
    context_window: u64,
    #[schema(value_type = Option<Vec<Object>>)]
    options: Option<Vec<Value>>,
    #[schema(value_type = Option<Vec<Object>>)]
    commands: Option<Vec<Value>>,
    can: Can,
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

/// All providers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Providers {
    providers: Vec<Provider>,
    /// Who answers where nobody is named.
    default: Option<String>,
    next_cursor: Option<String>,
}

impl From<&Known> for Providers {
    fn from(known: &Known) -> Self {
        let providers =
            known.all.iter().map(|(id, provider)| Provider::of(id, provider.about())).collect();
        let default = known.all.contains_key(&known.default).then(|| known.default.clone());
        Self { providers, default, next_cursor: None }
    }
}
