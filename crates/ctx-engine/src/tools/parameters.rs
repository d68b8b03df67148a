//! Checks the parameters of a call against the schema of the tool, and reads them.

use ctx_core::context_pack::BUDGET_DEFAULT;
use serde_json::{Map, Value};

use super::definition::LIMIT_DEFAULT;

/// What is wrong with the parameters of a call: one is unknown, missing, of another type or out of
/// its range. The parameter is named.
pub(super) fn wrong_parameter(tool: &str, schema: &Value, params: &Value) -> Option<String> {
    let none = Map::new();
    let given = match params {
        Value::Null => &none,
        Value::Object(given) => given,
        _ => return Some("the parameters must be a JSON object".to_owned()),
    };
    let known = schema["properties"].as_object().unwrap_or(&none);
    for (name, value) in given {
        let Some(schema) = known.get(name) else {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let names = names.join(", ");
            return Some(format!(
                "unknown parameter `{name}`: the parameters of {tool} are {names}"
            ));
        };
        if !value.is_null()
            && let Some(wrong) = wrong_value(name, schema, value)
        {
            return Some(wrong);
        }
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let missing = required.filter_map(Value::as_str).find(|name| text(params, name).is_none())?;
    Some(format!("parameter `{missing}` is missing"))
}

/// What is wrong with a value at a path such as `commands[0].exit`.
fn wrong_value(path: &str, schema: &Value, value: &Value) -> Option<String> {
    let invalid = |wanted: &str| Some(format!("invalid parameter `{path}`: it must be {wanted}"));
    match schema["type"].as_str() {
        Some("boolean") if !value.is_boolean() => invalid("true or false"),
        Some("integer") => {
            let (min, max) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
            let fits = |n: i64| min.is_none_or(|min| n >= min) && max.is_none_or(|max| n <= max);
            match (value.as_i64(), min.zip(max)) {
                (Some(n), _) if fits(n) => None,
                (_, Some((min, max))) => invalid(&format!("a number from {min} to {max}")),
                _ => invalid("a number"),
            }
        }
        Some("string") => match (value.as_str(), schema["enum"].as_array()) {
            (None, _) => invalid("a string"),
            (Some(_), Some(choices)) if !choices.contains(value) => {
                let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
                invalid(&format!("one of {}", choices.join(", ")))
            }
            _ => None,
        },
        Some("array") => {
            let Some(items) = value.as_array() else { return invalid("a list") };
            let mut items = items.iter().enumerate();
            items.find_map(|(at, it)| wrong_value(&format!("{path}[{at}]"), &schema["items"], it))
        }
        Some("object") => wrong_object(path, schema, value),
        _ => None,
    }
}

fn wrong_object(path: &str, schema: &Value, value: &Value) -> Option<String> {
    let Some(fields) = value.as_object() else {
        return Some(format!("invalid parameter `{path}`: it must be an object"));
    };
    for (name, value) in fields {
        let known = &schema["properties"][name];
        if known.is_null() {
            return Some(format!("unknown parameter `{path}.{name}`"));
        }
        if let Some(wrong) = wrong_value(&format!("{path}.{name}"), known, value) {
            return Some(wrong);
        }
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let missing = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name))?;
    Some(format!("parameter `{path}.{missing}` is missing"))
}

/// A text parameter that is not blank.
pub(super) fn text<'a>(params: &'a Value, field: &str) -> Option<&'a str> {
    params.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// A required text parameter. That it is there was checked by [`wrong_parameter`].
pub(super) fn required<'a>(params: &'a Value, field: &str) -> &'a str {
    text(params, field).unwrap_or_default()
}

/// A flag, `false` if absent.
pub(super) fn flag(params: &Value, field: &str) -> bool {
    params.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of a list, none if absent.
pub(super) fn list<'a>(params: &'a Value, field: &str) -> &'a [Value] {
    params.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn budget(params: &Value) -> u64 {
    params.get("budget").and_then(Value::as_u64).unwrap_or(BUDGET_DEFAULT)
}

pub(super) fn limit(params: &Value) -> usize {
    let limit = params.get("limit").and_then(Value::as_u64).unwrap_or(LIMIT_DEFAULT);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

pub(super) fn offset(params: &Value) -> usize {
    let offset = params.get("offset").and_then(Value::as_u64).unwrap_or(0);
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{CallerKind, definition_of};
    use super::*;
    use ctx_core::decide::AgentTool;
    use serde_json::json;

    fn wrong(tool: AgentTool, caller: CallerKind, params: &Value) -> Option<String> {
        wrong_parameter(tool.name(), &definition_of(tool).schema_for(caller), params)
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (tool, params, expected) in [
            (AgentTool::SendMessageToAgent, json!({"to": "manager", "content": "x"}), None),
            (
                AgentTool::SendMessageToAgent,
                json!({"to": "manager", "text": "x"}),
                Some(
                    "unknown parameter `text`: the parameters of send_message_to_agent are \
                     content, to",
                ),
            ),
            (
                AgentTool::SendMessageToAgent,
                json!({"to": "manager"}),
                Some("parameter `content` is missing"),
            ),
            (AgentTool::GetAgentStatus, Value::Null, None),
            (AgentTool::GetAgentStatus, json!({"label": null}), None),
            (
                AgentTool::GetAgentStatus,
                json!("worker"),
                Some("the parameters must be a JSON object"),
            ),
            (AgentTool::DispatchToAgent, json!({"task": "x", "to": "a", "wait": true}), None),
            (
                AgentTool::DispatchToAgent,
                json!({"task": "x", "wait": "yes"}),
                Some("invalid parameter `wait`: it must be true or false"),
            ),
            (
                AgentTool::DispatchToAgent,
                json!({"task": 5}),
                Some("invalid parameter `task`: it must be a string"),
            ),
            (
                AgentTool::DispatchToAgent,
                json!({"task": "x", "provider": "a"}),
                Some(
                    "unknown parameter `provider`: the parameters of dispatch_to_agent are \
                      model, task, to, wait, working_dir",
                ),
            ),
        ] {
            assert_eq!(wrong(tool, CallerKind::Run, &params).as_deref(), expected, "{params}");
        }
    }

    #[test]
    fn numbers_choices_and_nested_values_are_checked() {
        for (tool, params, expected) in [
            (AgentTool::ReadSession, json!({"session": "main", "budget": 500}), None),
            (
                AgentTool::ReadSession,
                json!({"session": "main", "budget": 5}),
                Some("invalid parameter `budget`: it must be a number from 100 to 200000"),
            ),
            (
                AgentTool::ReadSession,
                json!({"session": "main", "budget": "many"}),
                Some("invalid parameter `budget`: it must be a number from 100 to 200000"),
            ),
            (
                AgentTool::FinishTask,
                json!({"summary": "x", "outcome": "failed"}),
                Some("invalid parameter `outcome`: it must be one of done, confirmed, abandoned"),
            ),
            (
                AgentTool::UpdateTask,
                json!({"commands": [{"command": "ls", "exit": 0}, {"exit": 1}]}),
                Some("parameter `commands[1].command` is missing"),
            ),
            (
                AgentTool::UpdateTask,
                json!({"files_read": [{"path": "a", "mode": 1}]}),
                Some("unknown parameter `files_read[0].mode`"),
            ),
            (
                AgentTool::UpdateTask,
                json!({"relations": {}}),
                Some("invalid parameter `relations`: it must be a list"),
            ),
        ] {
            assert_eq!(wrong(tool, CallerKind::Outside, &params).as_deref(), expected, "{params}");
        }
        let own =
            wrong(AgentTool::AskUser, CallerKind::Run, &json!({"question": "?", "session": "x"}));
        assert!(own.is_some_and(|why| why.contains("session")), "a run has its own session only");
    }
}
