//! Rules of the chat completions API.
//!
//! Roles must alternate as well: the chat templates of local models reject anything else.

use serde_json::Value;

use super::{CallPairs, Verdict, has_text, is_identifier, list, rule};

pub(super) fn check(body: &Value) -> Verdict {
    rule(has_text(&body["model"]) && body["stream"] == true, "invalid envelope", body)?;
    check_tools(body)?;
    let messages = match list(body, "messages") {
        [first, rest @ ..] if first["role"] == "system" => {
            rule(has_text(&first["content"]), "empty system prompt", first)?;
            rest
        }
        all => all,
    };
    let role = |message: Option<&Value>| message.map_or(Value::Null, |it| it["role"].clone());
    rule(role(messages.first()) == "user", "first message is not from the user", body)?;
    rule(role(messages.last()) != "assistant", "last message is from the assistant", body)?;
    let mut calls = CallPairs::default();
    let mut previous = "";
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            calls.none_open(message)?;
            rule(role != previous, "roles do not alternate", message)?;
        }
        match role {
            "user" => check_user_content(&message["content"])?,
            "assistant" => check_assistant(message, &mut calls)?,
            "tool" => {
                rule(has_text(&message["content"]), "empty result", message)?;
                calls.result(&message["tool_call_id"], message)?;
            }
            _ => rule(false, "unknown role", message)?,
        }
        previous = role;
    }
    calls.none_open(body)
}

fn check_tools(body: &Value) -> Verdict {
    for tool in list(body, "tools") {
        let function = &tool["function"];
        let valid = tool["type"] == "function"
            && is_identifier(&function["name"])
            && function["parameters"]["type"] == "object";
        rule(valid, "invalid tool", tool)?;
    }
    rule(body.get("tools").is_none() || !list(body, "tools").is_empty(), "empty tool list", body)
}

fn check_user_content(content: &Value) -> Verdict {
    let Some(parts) = content.as_array() else {
        return rule(has_text(content), "empty message", content);
    };
    rule(!parts.is_empty(), "empty message", content)?;
    for part in parts {
        let valid = match part["type"].as_str() {
            Some("text") => has_text(&part["text"]),
            Some("image_url") => part["image_url"]["url"]
                .as_str()
                .is_some_and(|url| url.starts_with("data:image/png;base64,")),
            _ => false,
        };
        rule(valid, "invalid part", part)?;
    }
    Ok(())
}

fn check_assistant(message: &Value, calls: &mut CallPairs) -> Verdict {
    let tool_calls = list(message, "tool_calls");
    let only_calls = message["content"].is_null() && !tool_calls.is_empty();
    rule(has_text(&message["content"]) || only_calls, "empty assistant message", message)?;
    for call in tool_calls {
        calls.call(&call["id"], call)?;
        let function = &call["function"];
        let named = call["type"] == "function" && is_identifier(&function["name"]);
        rule(named, "invalid call", call)?;
        let arguments = function["arguments"].as_str().unwrap_or_default();
        rule(serde_json::from_str::<Value>(arguments).is_ok(), "arguments are not JSON", call)?;
    }
    Ok(())
}
