//! The settings of one conversation: mode, model and others that the agent offers. Conversations of
//! the same agent have independent values.

use serde_json::{Value, json};

use super::agent_info::LIST_MAX;

/// Settings in the form of the HTTP API. `via` marks those with a method of their own in older
/// versions of ACP.
#[derive(Debug, Clone, Default)]
pub(super) struct AgentSettings(Vec<Value>);

impl AgentSettings {
    /// Parses the response to a request that opens a conversation.
    pub(super) fn parse(opened: &Value) -> Self {
        let mut settings = Self(config_options(opened));
        if let Some(modes) = opened.get("modes").filter(|_| !settings.has("mode")) {
            settings.0.extend(older_setting(
                "mode",
                modes,
                "currentModeId",
                "availableModes",
                "id",
            ));
        }
        if let Some(models) = opened.get("models").filter(|_| !settings.has("model")) {
            settings.0.extend(older_setting(
                "model",
                models,
                "currentModelId",
                "availableModels",
                "modelId",
            ));
        }
        settings
    }

    pub(super) fn list(&self) -> &[Value] {
        &self.0
    }

    fn has(&self, category: &str) -> bool {
        self.0.iter().any(|option| option["category"] == category)
    }

    fn find(&mut self, id: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|option| option["id"] == id || option["category"] == id)
    }

    /// The request that sets a value. `None` if the setting has it already or does not exist.
    pub(super) fn change(
        &mut self,
        conversation: &str,
        id: &str,
        value: &str,
    ) -> Option<(&'static str, Value)> {
        let option = self.find(id)?;
        if option["value"] == value {
            return None;
        }
        let session = json!(conversation);
        Some(match option["via"].as_str() {
            Some("mode") => ("session/set_mode", json!({"sessionId": session, "modeId": value})),
            Some("model") => ("session/set_model", json!({"sessionId": session, "modelId": value})),
            _ => (
                "session/set_config_option",
                json!({"sessionId": session, "configId": option["id"], "value": value}),
            ),
        })
    }

    /// Stores a changed value. The response may contain the new values of all settings.
    pub(super) fn changed(&mut self, id: &str, value: &str, answer: &Value) {
        if answer.get("configOptions").is_some() {
            self.replace(answer);
        } else if let Some(option) = self.find(id) {
            option["value"] = value.into();
        }
    }

    /// Applies a session update; `true` if it is about a setting.
    pub(super) fn apply_update(&mut self, update: &Value) -> bool {
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("config_option_update") => {
                if update.get("configOptions").is_some() {
                    self.replace(update);
                }
                true
            }
            Some("current_mode_update") => {
                if let (Some(mode), Some(option)) =
                    (update.get("currentModeId").cloned(), self.find("mode"))
                {
                    option["value"] = mode;
                }
                true
            }
            _ => false,
        }
    }

    /// Replaces the settings by a complete `configOptions` list. Settings of the older form are
    /// kept: agents report them only when a conversation is opened.
    fn replace(&mut self, opened: &Value) {
        let older: Vec<Value> =
            self.0.drain(..).filter(|option| option.get("via").is_some()).collect();
        self.0 = config_options(opened);
        let missing: Vec<Value> = older
            .into_iter()
            .filter(|option| !self.has(option["category"].as_str().unwrap_or_default()))
            .collect();
        self.0.extend(missing);
    }
}

fn config_options(opened: &Value) -> Vec<Value> {
    opened
        .get("configOptions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(LIST_MAX)
        .filter_map(setting_entry)
        .collect()
}

/// Converts an entry of `configOptions`.
fn setting_entry(setting: &Value) -> Option<Value> {
    let id = setting.get("id")?.as_str()?;
    let mut choices = Vec::new();
    for choice in setting.get("options").and_then(Value::as_array).into_iter().flatten() {
        // Choices may be grouped.
        match choice.get("options").and_then(Value::as_array) {
            Some(group) => {
                choices.extend(group.iter().filter_map(|choice| choice_entry(choice, "value")));
            }
            None => choices.extend(choice_entry(choice, "value")),
        }
    }
    choices.truncate(LIST_MAX);
    Some(json!({
        "id": id,
        "category": setting.get("category"),
        "value": setting.get("currentValue"),
        "choices": choices,
    }))
}

fn choice_entry(choice: &Value, key: &str) -> Option<Value> {
    let value = choice.get(key)?.as_str()?;
    let name = choice.get("name").and_then(Value::as_str).unwrap_or(value);
    Some(json!({"value": value, "name": name}))
}

/// Converts a setting of the older form: a list with a current entry.
fn older_setting(
    id: &str,
    list: &Value,
    current: &str,
    available: &str,
    key: &str,
) -> Option<Value> {
    let choices = list.get(available)?.as_array()?;
    let choices: Vec<Value> =
        choices.iter().take(LIST_MAX).filter_map(|entry| choice_entry(entry, key)).collect();
    let value = list.get(current);
    Some(json!({"id": id, "category": id, "value": value, "choices": choices, "via": id}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Value {
        let modes = json!([{"id": "default", "name": "D"}, {"id": "plan", "name": "P"}]);
        let models = json!([{"value": "a"}, {"value": "b", "name": "B"}]);
        json!({
            "modes": {"currentModeId": "default", "availableModes": modes},
            "configOptions": [
                {"id": "m1", "category": "model", "currentValue": "a", "options": models},
            ],
        })
    }

    #[test]
    fn each_setting_is_changed_with_its_own_method() {
        let mut settings = AgentSettings::parse(&opened());
        let (method, params) = settings.change("s", "model", "b").expect("a call");
        assert_eq!(
            (method, &params["configId"], &params["value"]),
            ("session/set_config_option", &json!("m1"), &json!("b"))
        );
        assert_eq!(settings.change("s", "mode", "plan").expect("a call").0, "session/set_mode");
        assert!(settings.change("s", "mode", "default").is_none(), "the value is unchanged");
        assert!(settings.change("s", "colour", "red").is_none(), "there is no such setting");
        settings.changed("mode", "plan", &json!({}));
        assert!(settings.change("s", "mode", "plan").is_none());
    }

    #[test]
    fn partial_update_keeps_the_other_settings() {
        let mut settings = AgentSettings::parse(&opened());
        let answer = json!({"configOptions": [
            {"id": "m1", "category": "model", "currentValue": "b", "options": []},
        ]});
        settings.changed("model", "b", &answer);
        assert!(settings.change("s", "model", "b").is_none());
        assert!(settings.apply_update(
            &json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"})
        ));
        assert!(
            settings.change("s", "mode", "plan").is_none()
                && settings.change("s", "mode", "default").is_some()
        );
    }
}
