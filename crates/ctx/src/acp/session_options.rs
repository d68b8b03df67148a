//! The settings of a session as config options and modes: provider, model, persona, and what the
//! agent behind offers. Slash commands of ctx and of the agent.

use std::collections::BTreeMap;

use ctx_engine::Engine;
use ctx_engine::core::decide::Patch;
use ctx_engine::core::session::Session;
use ctx_engine::provider::About;
use ctx_providers::json_rpc::RpcError;
use serde_json::{Value, json};

use super::invalid_params;

const PROVIDER: &str = "provider";
const MODEL: &str = "model";
const PERSONA: &str = "persona";
/// The value for "none", where a setting has no value.
const DEFAULT: &str = "default";

/// Commands that ctx carries out itself: name, description, hint for the input.
const OWN_COMMANDS: [(&str, &str, Option<&str>); 4] = [
    ("compact", "Shorten the context of the conversation", Some("what to keep in focus")),
    ("done", "Seal the open task as complete", Some("message of the commit")),
    ("abandon", "Seal the open task as abandoned", Some("reason")),
    ("help", "Show the commands of ctx", None),
];

/// What the editor shows about the settings of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ShownOptions {
    /// `configOptions` of ACP.
    pub(super) options: Vec<Value>,
    /// `modes` of ACP, for an agent with modes.
    pub(super) modes: Option<Value>,
    /// `availableCommands` of ACP.
    pub(super) commands: Vec<Value>,
}

impl ShownOptions {
    pub(super) fn of(engine: &Engine, session: &Session) -> Self {
        let about = about(engine, session);
        let agent_options = agent_options(&about);
        let mut options = vec![provider_option(engine, session)];
        options.extend(model_option(&about, session));
        options.extend(persona_option(engine, session));
        options.extend(agent_options.iter().filter_map(|option| agent_option(option, session)));
        let mode = agent_options.iter().find(|option| option["category"] == "mode");
        let modes = mode.and_then(|option| modes(option, session));
        Self { options, modes, commands: commands(&about) }
    }

    /// The fields of a response that opens a session.
    pub(super) fn add_to(&self, response: &mut Value) {
        response["configOptions"] = json!(self.options);
        if let Some(modes) = &self.modes {
            response["modes"] = modes.clone();
        }
    }

    pub(super) fn current_mode(&self) -> Option<&Value> {
        self.modes.as_ref().map(|modes| &modes["currentModeId"])
    }
}

/// The change of a session for a new value of a setting.
pub(super) fn patch(
    engine: &Engine,
    session: &Session,
    id: &str,
    value: &str,
) -> Result<Patch, RpcError> {
    let shown = ShownOptions::of(engine, session);
    let option = shown.options.iter().find(|option| option["id"] == id);
    let option = option.ok_or_else(|| invalid_params(format!("unknown setting `{id}`")))?;
    let offered = option["options"].as_array().cloned().unwrap_or_default();
    if !offered.iter().any(|choice| choice["value"] == value) {
        return Err(invalid_params(format!("setting `{id}`: `{value}` is not offered")));
    }
    let named = Some(value.to_owned());
    let or_default = || Some(named.clone().filter(|value| value != DEFAULT));
    Ok(match id {
        // A model belongs to its provider.
        PROVIDER => Patch { provider_id: Some(named), model: Some(None), ..Patch::default() },
        MODEL => Patch { model: or_default(), ..Patch::default() },
        PERSONA => Patch { persona: or_default(), ..Patch::default() },
        _ => option_patch(id, value),
    })
}

/// The change of a session for a new mode.
pub(super) fn mode_patch(
    engine: &Engine,
    session: &Session,
    mode: &str,
) -> Result<Patch, RpcError> {
    let options = agent_options(&about(engine, session));
    let option = options.iter().find(|option| option["category"] == "mode");
    let known = option.filter(|option| {
        let choices = option["choices"].as_array();
        choices.is_some_and(|choices| choices.iter().any(|choice| choice["value"] == mode))
    });
    let id = known.and_then(|option| option["id"].as_str());
    let id = id.ok_or_else(|| invalid_params(format!("unknown mode `{mode}`")))?;
    Ok(option_patch(id, mode))
}

/// The change of a session after the agent has changed settings itself.
pub(super) fn patch_of_update(engine: &Engine, session: &Session, update: &Value) -> Option<Patch> {
    let options = agent_options(&about(engine, session));
    let mut changed = BTreeMap::new();
    for option in &options {
        let id = option["id"].as_str()?;
        let new = match update["sessionUpdate"].as_str() {
            Some("current_mode_update") if option["category"] == "mode" => {
                update["currentModeId"].as_str()
            }
            Some("config_option_update") => update["configOptions"]
                .as_array()
                .and_then(|all| all.iter().find(|it| it["id"] == id))
                .and_then(|it| it["currentValue"].as_str()),
            _ => None,
        };
        let current = session.options.get(id).map(String::as_str).or(option["value"].as_str());
        if let Some(new) = new.filter(|new| Some(*new) != current && option["category"] != MODEL) {
            changed.insert(id.to_owned(), Some(new.to_owned()));
        }
    }
    (!changed.is_empty()).then(|| Patch { options: Some(Some(changed)), ..Patch::default() })
}

pub(super) fn about(engine: &Engine, session: &Session) -> About {
    let providers = engine.providers();
    let name = session.provider_id.as_ref().unwrap_or(&providers.default);
    providers.all.get(name).map(|provider| provider.about()).unwrap_or_default()
}

fn option_patch(id: &str, value: &str) -> Patch {
    let options = BTreeMap::from([(id.to_owned(), Some(value.to_owned()))]);
    Patch { options: Some(Some(options)), ..Patch::default() }
}

fn select(id: &str, name: &str, category: &str, current: &str, choices: Vec<Value>) -> Value {
    json!({
        "id": id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": choices,
    })
}

fn choice(value: &str, name: &str) -> Value {
    json!({"value": value, "name": name})
}

fn provider_option(engine: &Engine, session: &Session) -> Value {
    let providers = engine.providers();
    let current = session.provider_id.as_ref().unwrap_or(&providers.default);
    let choices = providers.all.iter().filter_map(|(name, provider)| {
        let about = provider.about();
        let is_offered = about.unavailable.is_none() || name == current;
        let description = about.unavailable.unwrap_or_else(|| about.kind.to_owned());
        is_offered.then(|| json!({"value": name, "name": name, "description": description}))
    });
    select(PROVIDER, "Provider", "_provider", current, choices.collect())
}

/// `None` if the models of the provider are not known.
fn model_option(about: &About, session: &Session) -> Option<Value> {
    let current = session.model.as_ref().or(about.model.as_ref());
    let mut models: Vec<&String> = about.models.iter().chain(current).collect();
    models.sort_unstable();
    models.dedup();
    let mut choices: Vec<Value> = models.iter().map(|model| choice(model, model)).collect();
    if choices.is_empty() {
        return None;
    }
    if current.is_none() {
        choices.insert(0, choice(DEFAULT, "Default"));
    }
    Some(select(MODEL, "Model", MODEL, current.map_or(DEFAULT, String::as_str), choices))
}

/// `None` if no persona is configured.
fn persona_option(engine: &Engine, session: &Session) -> Option<Value> {
    let providers = engine.providers();
    let personas = &providers.personas;
    if personas.is_empty() {
        return None;
    }
    let names = personas.keys().map(|name| choice(name, name));
    let choices = std::iter::once(choice(DEFAULT, "None")).chain(names).collect();
    let current = session.persona.as_deref().unwrap_or(DEFAULT);
    Some(select(PERSONA, "Persona", "_persona", current, choices))
}

fn agent_options(about: &About) -> Vec<Value> {
    about.agent.as_ref().and_then(|agent| agent.options.clone()).unwrap_or_default()
}

/// A setting of the agent behind. Its model is the model of the session.
fn agent_option(option: &Value, session: &Session) -> Option<Value> {
    let id = option["id"].as_str().filter(|id| ![PROVIDER, MODEL, PERSONA].contains(id))?;
    let choices = option["choices"].as_array().filter(|choices| !choices.is_empty())?;
    if option["category"] == MODEL {
        return None;
    }
    let current = session.options.get(id).map(String::as_str).or(option["value"].as_str())?;
    let category = option["category"].as_str().unwrap_or("_agent");
    let mut name = id.replace(['_', '-'], " ");
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Some(select(id, &name, category, current, choices.clone()))
}

fn modes(option: &Value, session: &Session) -> Option<Value> {
    let id = option["id"].as_str()?;
    let current = session.options.get(id).map(String::as_str).or(option["value"].as_str())?;
    let mode = |choice: &Value| json!({"id": choice["value"], "name": choice["name"]});
    let available: Vec<Value> = option["choices"].as_array()?.iter().map(mode).collect();
    Some(json!({"currentModeId": current, "availableModes": available}))
}

fn commands(about: &About) -> Vec<Value> {
    let own = OWN_COMMANDS.iter().map(|(name, description, hint)| {
        let mut command = json!({"name": name, "description": description});
        if let Some(hint) = hint {
            command["input"] = json!({"hint": hint});
        }
        command
    });
    let agent = about.agent.as_ref().and_then(|agent| agent.commands.as_ref());
    let of_agent = agent.into_iter().flatten().filter_map(|command| {
        let name = command["name"].as_str()?;
        let is_own = OWN_COMMANDS.iter().any(|(own, ..)| *own == name);
        let description = command["description"].as_str().unwrap_or_default();
        (!is_own).then(
            || json!({"name": name, "description": description, "input": {"hint": "arguments"}}),
        )
    });
    own.chain(of_agent).collect()
}
