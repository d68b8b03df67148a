//! Rules of the Responses API without server-side storage.

use serde_json::Value;

use super::{CallPairs, Verdict, has_text, is_identifier, list, rule};

pub(super) fn check(body: &Value) -> Verdict {
    let envelope = has_text(&body["model"]) && body["stream"] == true && body["store"] == false;
    rule(envelope, "invalid envelope", body)?;
    rule(body.get("instructions").is_none_or(has_text), "empty instructions", body)?;
    for tool in list(body, "tools") {
        let valid = tool["type"] == "function"
            && is_identifier(&tool["name"])
            && tool["parameters"]["type"] == "object";
        rule(valid, "invalid tool", tool)?;
    }
    let input = list(body, "input");
    let starts_with_user = input.first().is_some_and(|first| first["role"] == "user");
    rule(starts_with_user, "first item is not from the user", body)?;
    let mut calls = CallPairs::default();
    for (at, item) in input.iter().enumerate() {
        check_item(item, input.get(at + 1).unwrap_or(&Value::Null), &mut calls)?;
    }
    let last = input.last().unwrap_or(&Value::Null);
    let ends_well = last["role"] == "user" || last["type"] == "function_call_output";
    rule(ends_well, "last item is from the assistant", body)?;
    calls.none_open(body)
}

fn check_item(item: &Value, next: &Value, calls: &mut CallPairs) -> Verdict {
    match item["type"].as_str().unwrap_or_default() {
        "message" => {
            calls.none_open(item)?;
            check_message(item)
        }
        "reasoning" => {
            calls.none_open(item)?;
            let readable = has_text(&item["encrypted_content"]) && has_text(&item["id"]);
            rule(readable, "unreadable reasoning", item)?;
            let is_followed = next["role"] == "assistant"
                || matches!(next["type"].as_str(), Some("function_call" | "reasoning"));
            rule(is_followed, "reasoning without the output that follows it", item)
        }
        "function_call" => {
            calls.call(&item["call_id"], item)?;
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let is_json = serde_json::from_str::<Value>(arguments).is_ok();
            rule(is_identifier(&item["name"]) && is_json, "invalid call", item)
        }
        "function_call_output" => {
            rule(has_text(&item["output"]), "empty result", item)?;
            calls.result(&item["call_id"], item)
        }
        _ => rule(false, "unknown item", item),
    }
}

fn check_message(item: &Value) -> Verdict {
    let text_type = match item["role"].as_str().unwrap_or_default() {
        "user" => "input_text",
        "assistant" => "output_text",
        _ => return rule(false, "unknown role", item),
    };
    let parts = list(item, "content");
    rule(!parts.is_empty(), "empty message", item)?;
    for part in parts {
        let is_text = part["type"] == text_type && has_text(&part["text"]);
        let is_image = text_type == "input_text"
            && part["type"] == "input_image"
            && part["image_url"]
                .as_str()
                .is_some_and(|url| url.starts_with("data:image/png;base64,"));
        rule(is_text || is_image, "invalid part", part)?;
    }
    Ok(())
}
