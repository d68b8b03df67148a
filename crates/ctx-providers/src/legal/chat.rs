//! The rules of chat completions, with the alternation that templates of local models want.

use serde_json::Value;

use super::{Calls, Verdict, is_name, rule, says};

pub(super) fn check(body: &Value) -> Verdict {
    rule(says(&body["model"]) && body["stream"] == true, "the frame", body)?;
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let function = &tool["function"];
        rule(tool["type"] == "function" && is_name(&function["name"]) && function["parameters"]["type"] == "object", "a tool", tool)?;
    }
    rule(body.get("tools").is_none_or(|tools| tools.as_array().is_some_and(|tools| !tools.is_empty())), "an empty list of tools", body)?;
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let messages = match messages {
        [first, rest @ ..] if first["role"] == "system" => {
            rule(says(&first["content"]), "an empty system prompt", first)?;
            rest
        }
        all => all,
    };
    rule(messages.first().is_some_and(|first| first["role"] == "user"), "the user begins", body)?;
    rule(messages.last().is_some_and(|last| last["role"] != "assistant"), "the model does not end", body)?;
    let mut calls = Calls::default();
    let mut before = "";
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            calls.none_open(message)?;
            rule(role != before, "nobody speaks twice", message)?;
        }
        match role {
            "user" => user(&message["content"])?,
            "assistant" => assistant(message, &mut calls)?,
            "tool" => {
                rule(says(&message["content"]), "an empty result", message)?;
                calls.result(&message["tool_call_id"], message)?;
            }
            _ => rule(false, "an unknown role", message)?,
        }
        before = role;
    }
    calls.none_open(body)
}

fn user(content: &Value) -> Verdict {
    let Some(parts) = content.as_array() else { return rule(says(content), "an empty message", content) };
    rule(!parts.is_empty(), "an empty message", content)?;
    for part in parts {
        let good = match part["type"].as_str() {
            Some("text") => says(&part["text"]),
            Some("image_url") => part["image_url"]["url"].as_str().is_some_and(|url| url.starts_with("data:image/png;base64,")),
            _ => false,
        };
        rule(good, "a part", part)?;
    }
    Ok(())
}

fn assistant(message: &Value, calls: &mut Calls) -> Verdict {
    let list = message.get("tool_calls").and_then(Value::as_array);
    rule(
        says(&message["content"]) || message["content"].is_null() && list.is_some_and(|list| !list.is_empty()),
        "it says nothing",
        message,
    )?;
    for call in list.into_iter().flatten() {
        calls.call(&call["id"], call)?;
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        rule(call["type"] == "function" && is_name(&call["function"]["name"]), "a call", call)?;
        rule(serde_json::from_str::<Value>(arguments).is_ok(), "arguments that are no JSON", call)?;
    }
    Ok(())
}
