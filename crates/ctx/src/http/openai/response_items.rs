//! The `input` of a response, as turns.

use ctx_engine::core::client_history::GivenStep;
use serde_json::Value;

use super::api_error::{ApiError, ApiResult};
use super::chat_messages::{Conversation, call, list};
use super::content_parts::{parts, text};

const FIELD: &str = "input";

/// Reads the input of a response: a text, or a list of items.
pub(super) fn conversation(input: &Value, instructions: &Value) -> ApiResult<Conversation> {
    let mut conversation = Conversation::default();
    if let Some(text) = instructions.as_str().filter(|text| !text.is_empty()) {
        conversation.instructions.push(text.to_owned());
    }
    if input.is_string() {
        conversation.user(parts(input, FIELD, &mut Vec::new())?);
    } else {
        for item in list(input, FIELD)? {
            add(item, &mut conversation)?;
        }
    }
    conversation.check(FIELD)?;
    Ok(conversation)
}

/// Reads items that are a history alone.
pub(super) fn history(items: &[Value]) -> ApiResult<Conversation> {
    let mut conversation = Conversation::default();
    items.iter().try_for_each(|item| add(item, &mut conversation))?;
    Ok(conversation)
}

fn add(item: &Value, conversation: &mut Conversation) -> ApiResult<()> {
    match item["type"].as_str().unwrap_or("message") {
        "message" => message(item, conversation),
        "function_call" => {
            conversation.step(call(&item["call_id"], &item["name"], &item["arguments"])?);
            Ok(())
        }
        "function_call_output" => {
            let id = item["call_id"]
                .as_str()
                .ok_or_else(|| ApiError::invalid(FIELD, "an output has no `call_id`"))?;
            let content = text(&item["output"], FIELD)?;
            conversation.step(GivenStep::Result { id: id.to_owned(), content });
            Ok(())
        }
        // ctx keeps these itself.
        "reasoning" | "item_reference" | "compaction" => Ok(()),
        other => {
            let other: String = other.chars().take(50).collect();
            Err(ApiError::invalid(FIELD, format!("items of type `{other}` are not supported")))
        }
    }
}

fn message(item: &Value, conversation: &mut Conversation) -> ApiResult<()> {
    let content = &item["content"];
    match item["role"].as_str() {
        Some("system" | "developer") => conversation.instructions.push(text(content, FIELD)?),
        Some("user") => {
            let content = parts(content, FIELD, &mut conversation.blobs)?;
            conversation.user(content);
        }
        Some("assistant") => conversation.step(GivenStep::Text(text(content, FIELD)?)),
        other => {
            let other: String = other.unwrap_or("none").chars().take(50).collect();
            return Err(ApiError::invalid(FIELD, format!("unknown role: {other}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_input_is_a_text_or_items() {
        let none = Value::Null;
        let turns = |input: Value| {
            let found = conversation(&input, &none).expect("valid");
            found
                .turns
                .iter()
                .map(|turn| (turn.user_text(), turn.answer_text()))
                .collect::<Vec<_>>()
        };
        assert_eq!(turns(json!("a")), [("a".to_owned(), String::new())]);
        let items = json!([
            {"role": "user", "content": "a"},
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "1"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b"}]},
        ]);
        assert_eq!(turns(items).len(), 2);
        let output = json!([{"type": "function_call_output", "call_id": "c1", "output": "seen"}]);
        let found = conversation(&output, &json!("be brief")).expect("valid");
        assert_eq!(found.turns[0].results(), [("c1", "seen")]);
        assert_eq!(found.instructions, ["be brief"]);
        for wrong in [json!(7), json!([]), json!([{"type": "web_search_call"}])] {
            assert!(conversation(&wrong, &none).is_err(), "{wrong}");
        }
    }
}
