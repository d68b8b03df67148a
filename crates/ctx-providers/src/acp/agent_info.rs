//! What an agent told of itself: its settings, its commands, how to log in. Shared by all of its processes, so that a
//! client sees it once one of them has started.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctx_engine::provider::{Agent, Can, Class, Failure};
use serde_json::{Value, json};

use super::acp_connection::{Abilities, Trouble};
use super::agent_settings::Settings;
use crate::failure::says_overflow;
use crate::json_rpc::Refused;

/// The most settings, choices or commands that are kept of an agent.
pub(super) const LIST_MAX: usize = 500;
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
        let compact =
            facts.agent.commands.iter().flatten().any(|command| command["name"] == "compact");
        Can {
            steer: can.steer,
            load: can.load,
            resume: can.resume,
            images,
            tools: false,
            mcp: true,
            compact,
        }
    }

    /// The models it offers, and the one that is chosen.
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

    /// It has answered `initialize`.
    pub(super) fn introduced(&self, told: &Value, can: Abilities) {
        let mut facts = self.facts();
        facts.can = Some(can);
        facts.images = told
            .pointer("/agentCapabilities/promptCapabilities/image")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        facts.name =
            told.pointer("/agentInfo/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let methods =
            told.get("authMethods").and_then(Value::as_array).cloned().unwrap_or_default();
        let how = |method: &Value| {
            let name = method.get("name").and_then(Value::as_str)?;
            let description = method.get("description").and_then(Value::as_str).unwrap_or_default();
            Some(if description.is_empty() {
                name.to_owned()
            } else {
                format!("{name}: {description}")
            })
        };
        facts.methods = methods.iter().take(LIST_MAX).filter_map(how).collect();
    }

    /// It has opened a conversation. Clients are shown what a new one begins with.
    pub(super) fn opened(&self, settings: &Settings, is_new: bool) {
        let mut facts = self.facts();
        if is_new || facts.agent.options.is_none() {
            facts.agent.options = Some(settings.list().to_vec());
        }
        facts.agent.login = None;
    }

    /// An update that may change what it told of itself.
    pub(super) fn heard(&self, update: &Value) {
        if update.get("sessionUpdate").and_then(Value::as_str) != Some("available_commands_update")
        {
            return;
        }
        let commands =
            update.get("availableCommands").and_then(Value::as_array).cloned().unwrap_or_default();
        let short = |command: &Value| {
            let name = command.get("name")?.as_str()?;
            Some(json!({"name": name, "description": command.get("description")}))
        };
        self.facts().agent.commands =
            Some(commands.iter().take(LIST_MAX).filter_map(short).collect());
    }

    /// What a refusal means.
    pub(super) fn failure(&self, trouble: Trouble, what: &str) -> Failure {
        match trouble {
            Trouble::Failed(failure) => failure,
            Trouble::Refused(refused) if wants_login(&refused) => {
                let mut facts = self.facts();
                let how = facts.methods.join("; ");
                let how = if how.is_empty() {
                    "log in with the agent's own command".to_owned()
                } else {
                    how
                };
                facts.agent.login = Some(how.clone());
                Failure::new(
                    "auth_required",
                    Class::Auth,
                    format!("the agent wants a login: {how}"),
                )
            }
            Trouble::Refused(refused) => {
                let message = format!("the agent said that {what}: {refused}");
                if says_overflow(&refused.to_string()) {
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
            "@agentclientprotocol/claude-agent-acp"
            | "codex-acp"
            | "@agentclientprotocol/codex-acp"
            | "gemini-cli" => "turn",
            "OpenCode" => "last_call",
            _ => "unknown",
        }
    }
}

pub(super) fn wants_login(refused: &Refused) -> bool {
    refused.code == AUTH_REQUIRED
        || refused.message.to_lowercase().contains("authentication required")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_shown_what_a_new_conversation_begins_with() {
        let told = |model: &str| json!({"configOptions": [{"id": "m1", "category": "model", "currentValue": model, "options": [{"value": "a"}, {"value": "b"}]}]});
        let known = Known::default();
        known.opened(&Settings::of(&told("a")), true);
        known.opened(&Settings::of(&told("b")), false);
        assert_eq!(known.models(), (vec!["a".to_owned(), "b".to_owned()], Some("a".to_owned())));
    }

    #[test]
    fn a_login_that_is_wanted_names_the_way() {
        let known = Known::default();
        let told = json!({"authMethods": [{"id": "x", "name": "Login", "description": "Run `agent login`"}]});
        known.introduced(&told, Abilities::default());
        assert_eq!(known.agent().login, None, "nobody asked yet");
        let refused = Refused {
            code: AUTH_REQUIRED,
            message: "Authentication required".to_owned(),
            data: None,
        };
        let failure = known.failure(Trouble::Refused(refused), "no");
        assert_eq!((failure.code.as_str(), failure.class), ("auth_required", Class::Auth));
        assert!(failure.message.contains("Run `agent login`"), "{}", failure.message);
        assert!(known.agent().login.is_some());
    }
}
