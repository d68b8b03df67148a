//! The `messages` of a chat completion, as turns; and the turns of any list of items.

use ctx_engine::core::client_history::{GivenStep, GivenTurn};
use ctx_engine::core::inbox::Tool;
use ctx_engine::core::message::Part;
use ctx_engine::core::object::Named;
use serde_json::Value;

use super::api_error::{ApiError, ApiResult};
use super::content_parts::{parts, text};

/// Most messages or items of one request.
const ITEMS_MAX: usize = 20_000;

/// What a client sends: the history with the new message, and what else the request consists of.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) turns: Vec<GivenTurn>,
    /// System and developer messages, which are no turns.
    pub(super) instructions: Vec<String>,
    pub(super) blobs: Vec<Named>,
}

impl Conversation {
    pub(super) fn user(&mut self, content: Vec<Part>) {
        match self.turns.last_mut() {
            Some(turn) if turn.answer.is_empty() => turn.user.extend(content),
            _ => self.turns.push(GivenTurn { user: content, answer: Vec::new() }),
        }
    }

    pub(super) fn step(&mut self, step: GivenStep) {
        if self.turns.is_empty() {
            self.turns.push(GivenTurn::default());
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.answer.push(step);
        }
    }

    /// Checks that the last turn can be answered.
    pub(super) fn check(&self, field: &'static str) -> ApiResult<()> {
        let Some(open) = self.turns.last() else {
            return Err(ApiError::invalid(field, format!("`{field}` has no message of the user")));
        };
        if let Some(call) = open.open_call() {
            return Err(ApiError::invalid(
                field,
                format!("No tool output found for function call {call}."),
            ));
        }
        match open.answer.last() {
            None | Some(GivenStep::Result { .. }) => Ok(()),
            Some(_) => Err(ApiError::invalid(
                field,
                format!("the last of `{field}` must be of the user or the result of a tool"),
            )),
        }
    }
}

/// Reads the messages of a chat completion.
pub(super) fn conversation(messages: &Value) -> ApiResult<Conversation> {
    const FIELD: &str = "messages";
    let list = list(messages, FIELD)?;
    let mut conversation = Conversation::default();
    for message in list {
        let content = &message["content"];
        match message["role"].as_str() {
            Some("system" | "developer") => conversation.instructions.push(text(content, FIELD)?),
            Some("user") => {
                let content = parts(content, FIELD, &mut conversation.blobs)?;
                conversation.user(content);
            }
            Some("assistant") => assistant(message, &mut conversation)?,
            Some("tool" | "function") => {
                let id = message["tool_call_id"].as_str().or_else(|| message["name"].as_str());
                let id = id.ok_or_else(|| {
                    ApiError::invalid(FIELD, "a message of a tool has no `tool_call_id`")
                })?;
                let content = text(content, FIELD)?;
                conversation.step(GivenStep::Result { id: id.to_owned(), content });
            }
            other => {
                let other: String = other.unwrap_or("none").chars().take(50).collect();
                return Err(ApiError::invalid(FIELD, format!("unknown role: {other}")));
            }
        }
    }
    conversation.check(FIELD)?;
    Ok(conversation)
}

fn assistant(message: &Value, conversation: &mut Conversation) -> ApiResult<()> {
    let said = text(&message["content"], "messages")?;
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !said.is_empty() || calls.is_empty() {
        conversation.step(GivenStep::Text(said));
    }
    for call in calls {
        let function = &call["function"];
        conversation.step(self::call(&call["id"], &function["name"], &function["arguments"])?);
    }
    Ok(())
}

/// A call of a tool. Arguments are JSON in a string.
pub(super) fn call(id: &Value, name: &Value, arguments: &Value) -> ApiResult<GivenStep> {
    let (Some(id), Some(name)) = (id.as_str(), name.as_str()) else {
        return Err(ApiError::invalid("messages", "a call of a tool has no id or no name"));
    };
    let params = arguments
        .as_str()
        .map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())));
    Ok(GivenStep::Call {
        id: id.to_owned(),
        name: name.to_owned(),
        params: params.unwrap_or_else(|| arguments.clone()),
    })
}

/// A list of objects, not empty and not too long.
pub(super) fn list<'a>(value: &'a Value, field: &'static str) -> ApiResult<&'a [Value]> {
    let list = value.as_array().filter(|list| !list.is_empty());
    let list =
        list.ok_or_else(|| ApiError::invalid(field, format!("`{field}` must be a list of items")))?;
    if list.len() > ITEMS_MAX {
        let message = format!("`{field}` has {} items: the limit is {ITEMS_MAX}", list.len());
        return Err(ApiError::invalid(field, message));
    }
    Ok(list)
}

/// The tools of the client. Those that OpenAI itself runs are ignored. `tool_choice: "none"` offers
/// no tool.
pub(super) fn tools(body: &Value) -> Vec<Tool> {
    if body["tool_choice"] == "none" {
        return Vec::new();
    }
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let functions = tools.iter().filter(|tool| tool["type"] == "function");
    let tool = |tool: &Value| {
        let function = if tool["function"].is_object() { &tool["function"] } else { tool };
        Some(Tool {
            name: function["name"].as_str()?.to_owned(),
            description: function["description"].as_str().unwrap_or_default().to_owned(),
            parameters: function["parameters"].clone(),
        })
    };
    functions.filter_map(tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turns(messages: Value) -> Vec<(String, String)> {
        let conversation = conversation(&messages).expect("valid");
        conversation.turns.iter().map(|turn| (turn.user_text(), turn.answer_text())).collect()
    }

    #[test]
    fn messages_become_turns_without_those_of_the_system() {
        let messages = json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "text", "text": "1"}]},
            {"role": "user", "content": [{"type": "text", "text": "b"}]},
            {"role": "developer", "content": "in English"},
            {"role": "user", "content": "c", "name": "ignored"},
        ]);
        let expected = [("a", "1"), ("b c", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(turns(messages.clone()), expected);
        let conversation = conversation(&messages).expect("valid");
        assert_eq!(conversation.instructions, ["be brief", "in English"]);
    }

    #[test]
    fn the_last_message_must_be_answerable() {
        let function = json!({"name": "look", "arguments": "{\"a\":1}"});
        let call = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": function}]});
        let result = json!({"role": "tool", "tool_call_id": "c1", "content": "seen"});
        let user = json!({"role": "user", "content": "a"});
        for (what, messages, valid) in [
            ("nothing", json!([]), false),
            ("no list", json!("a"), false),
            ("only the system", json!([{"role": "system", "content": "x"}]), false),
            ("an answer", json!([user, {"role": "assistant", "content": "1"}]), false),
            ("a call", json!([user, call]), false),
            ("a result", json!([user, call, result]), true),
            ("a user", json!([user]), true),
            ("an unknown role", json!([{"role": "robot", "content": "x"}]), false),
            (
                "a remote image",
                json!([{"role": "user", "content":
                [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]),
                false,
            ),
        ] {
            assert_eq!(conversation(&messages).is_ok(), valid, "{what}");
        }
        let conversation = conversation(&json!([user, call, result])).expect("valid");
        let GivenStep::Call { params, .. } = &conversation.turns[0].answer[0] else {
            panic!("a call")
        };
        assert_eq!(params["a"], 1);
    }

    #[test]
    fn tools_have_the_form_of_either_api() {
        let chat = json!({"type": "function", "function": {"name": "look", "parameters": {}}});
        let response = json!({"type": "function", "name": "look", "parameters": {}});
        for tool in [chat, response] {
            let body = json!({"tools": [tool, {"type": "web_search"}]});
            let tools = tools(&body);
            assert_eq!((tools.len(), tools[0].name.as_str()), (1, "look"));
        }
        let none = json!({"tools": [{"type": "function", "name": "x"}], "tool_choice": "none"});
        assert!(tools(&none).is_empty());
    }
}
