//! What an agent reported about itself: settings, commands, login methods. All processes of the
//! agent share it, so clients see it after the first one has started.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctx_engine::provider::{Agent, Failure, FailureClass, ProviderFeatures};
use serde_json::{Value, json};

use super::acp_connection::{CallError, Capabilities};
use super::agent_settings::AgentSettings;
use crate::failure::reports_overflow;
use crate::json_rpc::RpcError;

/// Maximum number of settings, choices or commands that are kept.
pub(super) const LIST_MAX: usize = 500;
/// JSON-RPC error code of ACP for a missing login.
const AUTH_REQUIRED: i64 = -32000;

/// Shared between the provider and its connections.
#[derive(Clone, Default)]
pub(super) struct AgentInfo(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    agent: Agent,
    /// `None` before the first `initialize` response.
    capabilities: Option<Capabilities>,
    images: bool,
    /// The agent's name, which selects workarounds for known agents.
    name: String,
    /// Login methods as texts for the user.
    login_methods: Vec<String>,
}

impl AgentInfo {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn agent(&self) -> Agent {
        self.facts().agent.clone()
    }

    /// The capabilities as far as they are known.
    pub(super) fn can(&self) -> ProviderFeatures {
        let facts = self.facts();
        // Most agents accept images. For one that does not, the prompt describes the image.
        let images = facts.capabilities.is_none() || facts.images;
        let capabilities = facts.capabilities.unwrap_or_default();
        let compact =
            facts.agent.commands.iter().flatten().any(|command| command["name"] == "compact");
        ProviderFeatures {
            steer: capabilities.steer,
            load: capabilities.load,
            resume: capabilities.resume,
            images,
            tools: false,
            mcp: true,
            compact,
        }
    }

    /// The available models and the default one.
    pub(super) fn models(&self) -> (Vec<String>, Option<String>) {
        let facts = self.facts();
        let Some(model) =
            facts.agent.options.iter().flatten().find(|option| option["category"] == "model")
        else {
            return (Vec::new(), None);
        };
        let choices = model["choices"].as_array().cloned().unwrap_or_default();
        let names = choices
            .iter()
            .filter_map(|choice| choice["value"].as_str().map(str::to_owned))
            .collect();
        (names, model["value"].as_str().map(str::to_owned))
    }

    /// Stores the response to `initialize`.
    pub(super) fn initialized(&self, response: &Value, capabilities: Capabilities) {
        let mut facts = self.facts();
        facts.capabilities = Some(capabilities);
        facts.images = response
            .pointer("/agentCapabilities/promptCapabilities/image")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        facts.name = response
            .pointer("/agentInfo/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let methods =
            response.get("authMethods").and_then(Value::as_array).cloned().unwrap_or_default();
        let describe = |method: &Value| {
            let name = method.get("name").and_then(Value::as_str)?;
            let description = method.get("description").and_then(Value::as_str).unwrap_or_default();
            Some(if description.is_empty() {
                name.to_owned()
            } else {
                format!("{name}: {description}")
            })
        };
        facts.login_methods = methods.iter().take(LIST_MAX).filter_map(describe).collect();
    }

    /// A conversation was opened. Clients see the settings of a new conversation.
    pub(super) fn conversation_opened(&self, settings: &AgentSettings, is_new: bool) {
        let mut facts = self.facts();
        if is_new || facts.agent.options.is_none() {
            facts.agent.options = Some(settings.list().to_vec());
        }
        facts.agent.login = None;
    }

    /// Stores the commands of an `available_commands_update`; ignores other updates.
    pub(super) fn apply_update(&self, update: &Value) {
        if update.get("sessionUpdate").and_then(Value::as_str) != Some("available_commands_update")
        {
            return;
        }
        let commands =
            update.get("availableCommands").and_then(Value::as_array).cloned().unwrap_or_default();
        let entry = |command: &Value| {
            let name = command.get("name")?.as_str()?;
            Some(json!({"name": name, "description": command.get("description")}))
        };
        self.facts().agent.commands =
            Some(commands.iter().take(LIST_MAX).filter_map(entry).collect());
    }

    /// Classifies a failed call. `what` completes the sentence "the agent …".
    pub(super) fn failure(&self, error: CallError, what: &str) -> Failure {
        match error {
            CallError::Failed(failure) => failure,
            CallError::Rejected(error) if requires_login(&error) => {
                let mut facts = self.facts();
                let methods = facts.login_methods.join("; ");
                let how = if methods.is_empty() {
                    "log in with the agent's own command".to_owned()
                } else {
                    methods
                };
                facts.agent.login = Some(how.clone());
                let message = format!("the agent requires a login: {how}");
                Failure::new("auth_required", FailureClass::Auth, message)
            }
            CallError::Rejected(error) => {
                let message = format!("the agent {what}: {error}");
                if reports_overflow(&error.to_string()) {
                    return Failure::new("context_overflow", FailureClass::Overflow, message);
                }
                Failure::new("provider_error", FailureClass::Permanent, message)
            }
        }
    }

    /// Whether the agent fails on every error response for a missing file and expects empty
    /// content instead.
    pub(super) fn expects_empty_missing_files(&self) -> bool {
        self.facts().name == "gemini-cli"
    }

    /// What the reported token counts cover. The protocol does not define it; these values were
    /// observed with each agent.
    pub(super) fn usage_scope(&self) -> &'static str {
        match self.facts().name.as_str() {
            "@agentclientprotocol/claude-agent-acp"
            | "codex-acp"
            | "@agentclientprotocol/codex-acp"
            | "gemini-cli" => "turn",
            "OpenCode" => "last_call",
            _ => "unknown",
        }
    }
}

pub(super) fn requires_login(error: &RpcError) -> bool {
    error.code == AUTH_REQUIRED || error.message.to_lowercase().contains("authentication required")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_see_the_settings_of_a_new_conversation() {
        let opened = |model: &str| {
            let choices = json!([{"value": "a"}, {"value": "b"}]);
            json!({"configOptions": [
                {"id": "m1", "category": "model", "currentValue": model, "options": choices},
            ]})
        };
        let info = AgentInfo::default();
        info.conversation_opened(&AgentSettings::parse(&opened("a")), true);
        info.conversation_opened(&AgentSettings::parse(&opened("b")), false);
        assert_eq!(info.models(), (vec!["a".to_owned(), "b".to_owned()], Some("a".to_owned())));
    }

    #[test]
    fn required_login_names_the_login_methods() {
        let info = AgentInfo::default();
        let method = json!({"id": "x", "name": "Login", "description": "Run `agent login`"});
        info.initialized(&json!({"authMethods": [method]}), Capabilities::default());
        assert_eq!(info.agent().login, None, "no login is required yet");
        let error = RpcError {
            code: AUTH_REQUIRED,
            message: "Authentication required".to_owned(),
            data: None,
        };
        let failure = info.failure(CallError::Rejected(error), "did not start");
        assert_eq!((failure.code.as_str(), failure.class), ("auth_required", FailureClass::Auth));
        assert!(failure.message.contains("Run `agent login`"), "{}", failure.message);
        assert!(info.agent().login.is_some());
    }
}
