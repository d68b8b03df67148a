//! The rules of Responses without a store at the server.

use serde_json::Value;

use super::{Calls, Verdict, is_name, rule, says};

pub(super) fn check(body: &Value) -> Verdict {
    rule(says(&body["model"]) && body["stream"] == true && body["store"] == false, "the frame", body)?;
    rule(body.get("instructions").is_none_or(says), "empty instructions", body)?;
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        rule(tool["type"] == "function" && is_name(&tool["name"]) && tool["parameters"]["type"] == "object", "a tool", tool)?;
    }
    let input = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    rule(input.first().is_some_and(|first| first["role"] == "user"), "the user begins", body)?;
    let mut calls = Calls::default();
    for (at, item) in input.iter().enumerate() {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                calls.none_open(item)?;
                message(item)?;
            }
            "reasoning" => {
                calls.none_open(item)?;
                rule(says(&item["encrypted_content"]) && says(&item["id"]), "reasoning that cannot be read", item)?;
                let next = input.get(at + 1).unwrap_or(&Value::Null);
                let led = next["role"] == "assistant" || matches!(next["type"].as_str(), Some("function_call" | "reasoning"));
                rule(led, "reasoning that leads nowhere", item)?;
            }
            "function_call" => {
                calls.call(&item["call_id"], item)?;
                let arguments = item["arguments"].as_str().unwrap_or_default();
                rule(is_name(&item["name"]) && serde_json::from_str::<Value>(arguments).is_ok(), "a call", item)?;
            }
            "function_call_output" => {
                rule(says(&item["output"]), "an empty result", item)?;
                calls.result(&item["call_id"], item)?;
            }
            _ => rule(false, "an unknown item", item)?,
        }
    }
    let last = input.last().unwrap_or(&Value::Null);
    rule(last["role"] == "user" || last["type"] == "function_call_output", "the model does not end", body)?;
    calls.none_open(body)
}

fn message(item: &Value) -> Verdict {
    let words = match item["role"].as_str().unwrap_or_default() {
        "user" => "input_text",
        "assistant" => "output_text",
        _ => return rule(false, "an unknown role", item),
    };
    let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    rule(!parts.is_empty(), "an empty message", item)?;
    for part in parts {
        let image = words == "input_text" && part["type"] == "input_image";
        let shown = part["image_url"].as_str().is_some_and(|url| url.starts_with("data:image/png;base64,"));
        rule(part["type"] == words && says(&part["text"]) || image && shown, "a part", part)?;
    }
    Ok(())
}
