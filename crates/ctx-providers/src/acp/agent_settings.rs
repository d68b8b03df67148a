//! The settings of one conversation with an agent: its mode, its model and whatever else it offers. Each conversation
//! has its own values, whatever was chosen in another.

use serde_json::{Value, json};

use super::agent_info::LIST_MAX;

/// Each as clients see it, with `via` where it is set in the older way.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings(Vec<Value>);

impl Settings {
    /// As an agent tells them when it opens a conversation.
    pub(super) fn of(told: &Value) -> Self {
        let mut settings = Self(named(told));
        if let Some(modes) = told.get("modes").filter(|_| !settings.has("mode")) {
            settings.0.extend(listed("mode", modes, "currentModeId", "availableModes", "id"));
        }
        if let Some(models) = told.get("models").filter(|_| !settings.has("model")) {
            settings.0.extend(listed(
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

    /// What to send so that a setting has a value; nothing where it has, or where there is no such setting.
    pub(super) fn call(
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

    /// A setting was taken; the answer may say how all of them stand now.
    pub(super) fn set(&mut self, id: &str, value: &str, answer: &Value) {
        if answer.get("configOptions").is_some() {
            self.renew(answer);
        } else if let Some(option) = self.find(id) {
            option["value"] = value.into();
        }
    }

    /// An update of the conversation; `true` if it was about a setting.
    pub(super) fn heard(&mut self, update: &Value) -> bool {
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("config_option_update") => {
                if update.get("configOptions").is_some() {
                    self.renew(update);
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

    /// Those that are told by name are told whole; those of the older form are told at the beginning only.
    fn renew(&mut self, told: &Value) {
        let older: Vec<Value> =
            self.0.drain(..).filter(|option| option.get("via").is_some()).collect();
        self.0 = named(told);
        let missing: Vec<Value> = older
            .into_iter()
            .filter(|option| !self.has(option["category"].as_str().unwrap_or_default()))
            .collect();
        self.0.extend(missing);
    }
}

fn named(told: &Value) -> Vec<Value> {
    told.get("configOptions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(LIST_MAX)
        .filter_map(option)
        .collect()
}

/// A setting as clients see it.
fn option(setting: &Value) -> Option<Value> {
    let id = setting.get("id")?.as_str()?;
    let mut choices = Vec::new();
    for choice in setting.get("options").and_then(Value::as_array).into_iter().flatten() {
        // Choices may be in groups.
        match choice.get("options").and_then(Value::as_array) {
            Some(group) => {
                choices.extend(group.iter().filter_map(|choice| self::choice(choice, "value")))
            }
            None => choices.extend(self::choice(choice, "value")),
        }
    }
    choices.truncate(LIST_MAX);
    Some(
        json!({"id": id, "category": setting.get("category"), "value": setting.get("currentValue"), "choices": choices}),
    )
}

fn choice(choice: &Value, key: &str) -> Option<Value> {
    let value = choice.get(key)?.as_str()?;
    Some(
        json!({"value": value, "name": choice.get("name").and_then(Value::as_str).unwrap_or(value)}),
    )
}

/// A setting in the older form, as a list with a current entry.
fn listed(id: &str, list: &Value, current: &str, available: &str, key: &str) -> Option<Value> {
    let choices = list.get(available)?.as_array()?;
    let choices: Vec<Value> =
        choices.iter().take(LIST_MAX).filter_map(|entry| choice(entry, key)).collect();
    Some(
        json!({"id": id, "category": id, "value": list.get(current), "choices": choices, "via": id}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Value {
        json!({"modes": {"currentModeId": "default", "availableModes": [{"id": "default", "name": "D"}, {"id": "plan", "name": "P"}]},
            "configOptions": [{"id": "m1", "category": "model", "currentValue": "a", "options": [{"value": "a"}, {"value": "b", "name": "B"}]}]})
    }

    #[test]
    fn settings_are_set_the_way_the_agent_has_them() {
        let mut settings = Settings::of(&told());
        let (method, params) = settings.call("s", "model", "b").expect("a call");
        assert_eq!(
            (method, &params["configId"], &params["value"]),
            ("session/set_config_option", &json!("m1"), &json!("b"))
        );
        assert_eq!(settings.call("s", "mode", "plan").expect("a call").0, "session/set_mode");
        assert!(settings.call("s", "mode", "default").is_none(), "it is so already");
        assert!(settings.call("s", "colour", "red").is_none(), "there is no such setting");
        settings.set("mode", "plan", &json!({}));
        assert!(settings.call("s", "mode", "plan").is_none());
    }

    #[test]
    fn what_is_told_of_some_settings_leaves_the_others() {
        let mut settings = Settings::of(&told());
        let answer = json!({"configOptions": [{"id": "m1", "category": "model", "currentValue": "b", "options": []}]});
        settings.set("model", "b", &answer);
        assert!(settings.call("s", "model", "b").is_none());
        assert!(
            settings
                .heard(&json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}))
        );
        assert!(
            settings.call("s", "mode", "plan").is_none()
                && settings.call("s", "mode", "default").is_some()
        );
    }
}
