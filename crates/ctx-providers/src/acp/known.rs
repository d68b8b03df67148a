//! What an agent told of itself: its settings, its commands, how to log in. Shared by all of its processes, so that a
//! client sees it once one of them has started.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctx_engine::provider::{Agent, Can, Class, Failure};
use serde_json::{Value, json};

use super::live::{Abilities, Trouble};
use crate::rpc::Refused;

/// The most settings, choices or commands that are kept of an agent.
const LIST_MAX: usize = 500;
/// "Log in first."
const AUTH_REQUIRED: i64 = -32000;

/// Shared between the provider and its processes.
#[derive(Clone, Default)]
pub(super) struct Known(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    agent: Agent,
    can: Option<Abilities>,
    images: bool,
    /// Its name, by which its habits are known.
    name: String,
    /// How to log in, told only when it was asked for.
    methods: Vec<String>,
}

impl Known {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn agent(&self) -> Agent {
        self.facts().agent.clone()
    }

    /// What it can do, as far as that is known.
    pub(super) fn can(&self) -> Can {
        let facts = self.facts();
        // Most take pictures; one that does not is told that there was one.
        let images = facts.can.is_none() || facts.images;
        let can = facts.can.unwrap_or_default();
        let compact = facts.agent.commands.iter().flatten().any(|command| command["name"] == "compact");
        Can { steer: can.steer, load: can.load, resume: can.resume, images, tools: false, mcp: true, compact }
    }

    /// The models it offers, and the one that is chosen.
    pub(super) fn models(&self) -> (Vec<String>, Option<String>) {
        let facts = self.facts();
        let Some(model) = facts.agent.options.iter().flatten().find(|option| option["category"] == "model") else {
            return (Vec::new(), None);
        };
        let choices = model["choices"].as_array().cloned().unwrap_or_default();
        let names = choices.iter().filter_map(|choice| choice["value"].as_str().map(str::to_owned)).collect();
        (names, model["value"].as_str().map(str::to_owned))
    }

    /// It has answered `initialize`.
    pub(super) fn introduced(&self, told: &Value, can: Abilities) {
        let mut facts = self.facts();
        facts.can = Some(can);
        facts.images = told.pointer("/agentCapabilities/promptCapabilities/image").and_then(Value::as_bool).unwrap_or(false);
        facts.name = told.pointer("/agentInfo/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let methods = told.get("authMethods").and_then(Value::as_array).cloned().unwrap_or_default();
        let how = |method: &Value| {
            let name = method.get("name").and_then(Value::as_str)?;
            let description = method.get("description").and_then(Value::as_str).unwrap_or_default();
            Some(if description.is_empty() { name.to_owned() } else { format!("{name}: {description}") })
        };
        facts.methods = methods.iter().take(LIST_MAX).filter_map(how).collect();
    }

    /// It has opened a conversation.
    pub(super) fn opened(&self, told: &Value) {
        let mut options = Vec::new();
        if let Some(Value::Array(settings)) = told.get("configOptions") {
            options.extend(settings.iter().take(LIST_MAX).filter_map(option));
        }
        let has = |options: &[Value], category: &str| options.iter().any(|option| option["category"] == category);
        if !has(&options, "mode")
            && let Some(modes) = told.get("modes")
        {
            options.extend(listed("mode", modes, "currentModeId", "availableModes", "id"));
        }
        if !has(&options, "model")
            && let Some(models) = told.get("models")
        {
            options.extend(listed("model", models, "currentModelId", "availableModels", "modelId"));
        }
        let mut facts = self.facts();
        facts.agent.options = Some(options);
        facts.agent.login = None;
    }

    /// An update that changes what it told of itself; `true` if it was one.
    pub(super) fn heard(&self, update: &Value) -> bool {
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("available_commands_update") => {
                let commands = update.get("availableCommands").and_then(Value::as_array).cloned().unwrap_or_default();
                let short = |command: &Value| {
                    let name = command.get("name")?.as_str()?;
                    Some(json!({"name": name, "description": command.get("description")}))
                };
                self.facts().agent.commands = Some(commands.iter().take(LIST_MAX).filter_map(short).collect());
                true
            }
            Some("config_option_update") => {
                if update.get("configOptions").is_some() {
                    self.opened(update);
                }
                true
            }
            Some("current_mode_update") => {
                if let Some(mode) = update.get("currentModeId").and_then(Value::as_str) {
                    self.put("mode", mode);
                }
                true
            }
            _ => false,
        }
    }

    /// What to send so that a setting has a value; nothing where it has, or where there is no such setting.
    pub(super) fn setting(&self, conversation: &str, id: &str, value: &str) -> Option<(&'static str, Value)> {
        let facts = self.facts();
        let mut options = facts.agent.options.iter().flatten();
        let option = options.find(|option| option["id"] == id || option["category"] == id)?;
        if option["value"] == value {
            return None;
        }
        let session = json!(conversation);
        Some(match option["via"].as_str() {
            Some("mode") => ("session/set_mode", json!({"sessionId": session, "modeId": value})),
            Some("model") => ("session/set_model", json!({"sessionId": session, "modelId": value})),
            _ => ("session/set_config_option", json!({"sessionId": session, "configId": option["id"], "value": value})),
        })
    }

    /// A setting was taken; the answer may say how all of them stand now.
    pub(super) fn set(&self, id: &str, value: &str, answer: &Value) {
        if answer.get("configOptions").is_some() {
            self.opened(answer);
        } else {
            self.put(id, value);
        }
    }

    fn put(&self, id: &str, value: &str) {
        let mut facts = self.facts();
        let option = facts.agent.options.iter_mut().flatten().find(|option| option["id"] == id || option["category"] == id);
        if let Some(option) = option {
            option["value"] = value.into();
        }
    }

    /// What a refusal means.
    pub(super) fn failure(&self, trouble: Trouble, what: &str) -> Failure {
        match trouble {
            Trouble::Failed(failure) => failure,
            Trouble::Refused(refused) if wants_login(&refused) => {
                let mut facts = self.facts();
                let how = facts.methods.join("; ");
                let how = if how.is_empty() { "log in with the agent's own command".to_owned() } else { how };
                facts.agent.login = Some(how.clone());
                Failure::new("auth_required", Class::Auth, format!("the agent wants a login: {how}"))
            }
            Trouble::Refused(refused) => {
                let message = format!("the agent said that {what}: {refused}");
                if is_overflow(&refused) {
                    return Failure::new("context_overflow", Class::Overflow, message);
                }
                Failure::new("provider_error", Class::GiveUp, message)
            }
        }
    }

    /// Whether it takes a missing file for a failure of its own, whatever is answered, and wants an empty one instead.
    pub(super) fn wants_missing_files_empty(&self) -> bool {
        self.facts().name == "gemini-cli"
    }

    /// What the numbers of its usage count: seen with each of them, and not told by the protocol.
    pub(super) fn usage_scope(&self) -> &'static str {
        match self.facts().name.as_str() {
            "@agentclientprotocol/claude-agent-acp" | "codex-acp" | "@agentclientprotocol/codex-acp" => "turn",
            "OpenCode" => "last_call",
            _ => "unknown",
        }
    }
}

fn wants_login(refused: &Refused) -> bool {
    refused.code == AUTH_REQUIRED || refused.message.to_lowercase().contains("authentication required")
}

fn is_overflow(refused: &Refused) -> bool {
    let text = refused.to_string().to_lowercase();
    ["context length", "context window", "prompt is too long", "maximum context"].iter().any(|sign| text.contains(sign))
}

/// A setting as clients see it.
fn option(setting: &Value) -> Option<Value> {
    let id = setting.get("id")?.as_str()?;
    let mut choices = Vec::new();
    for choice in setting.get("options").and_then(Value::as_array).into_iter().flatten() {
        // Choices may be in groups.
        match choice.get("options").and_then(Value::as_array) {
            Some(group) => choices.extend(group.iter().filter_map(|choice| self::choice(choice, "value"))),
            None => choices.extend(self::choice(choice, "value")),
        }
    }
    choices.truncate(LIST_MAX);
    Some(json!({"id": id, "category": setting.get("category"), "value": setting.get("currentValue"), "choices": choices}))
}

fn choice(choice: &Value, key: &str) -> Option<Value> {
    let value = choice.get(key)?.as_str()?;
    Some(json!({"value": value, "name": choice.get("name").and_then(Value::as_str).unwrap_or(value)}))
}

/// A setting in the older form, as a list with a current entry.
fn listed(id: &str, list: &Value, current: &str, available: &str, key: &str) -> Option<Value> {
    let choices = list.get(available)?.as_array()?;
    let choices: Vec<Value> = choices.iter().take(LIST_MAX).filter_map(|entry| choice(entry, key)).collect();
    Some(json!({"id": id, "category": id, "value": list.get(current), "choices": choices, "via": id}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_the_way_the_agent_has_them() {
        let known = Known::default();
        known.opened(&json!({"modes": {"currentModeId": "default", "availableModes": [{"id": "default", "name": "D"}, {"id": "plan", "name": "P"}]},
            "configOptions": [{"id": "m1", "category": "model", "currentValue": "a", "options": [{"value": "a"}, {"value": "b", "name": "B"}]}]}));
        assert_eq!(known.models(), (vec!["a".to_owned(), "b".to_owned()], Some("a".to_owned())));
        let (method, params) = known.setting("s", "model", "b").expect("a call");
        assert_eq!((method, &params["configId"], &params["value"]), ("session/set_config_option", &json!("m1"), &json!("b")));
        assert_eq!(known.setting("s", "mode", "plan").expect("a call").0, "session/set_mode");
        assert!(known.setting("s", "mode", "default").is_none(), "it is so already");
        assert!(known.setting("s", "colour", "red").is_none(), "there is no such setting");
        known.set("mode", "plan", &json!({}));
        assert!(known.setting("s", "mode", "plan").is_none());
    }

    #[test]
    fn a_login_that_is_wanted_names_the_way() {
        let known = Known::default();
        let told = json!({"authMethods": [{"id": "x", "name": "Login", "description": "Run `agent login`"}]});
        known.introduced(&told, Abilities::default());
        assert_eq!(known.agent().login, None, "nobody asked yet");
        let refused = Refused { code: AUTH_REQUIRED, message: "Authentication required".to_owned(), data: None };
        let failure = known.failure(Trouble::Refused(refused), "no");
        assert_eq!((failure.code.as_str(), failure.class), ("auth_required", Class::Auth));
        assert!(failure.message.contains("Run `agent login`"), "{}", failure.message);
        assert!(known.agent().login.is_some());
    }
}
