//! Builds the request body of the chat completions API.
//!
//! Every call keeps its id, which its result refers to. Roles alternate, because the chat templates
//! of local models reject anything else. Reasoning and plans have no place in this API and are left
//! out.

use ctx_core::inbox::Tool;
use ctx_core::message::Role;
use ctx_engine::provider::Request;
use serde_json::{Value, json};

use crate::model_request::{
    ApiMessage, ApiPart, EMPTY_CONVERSATION, alternating_messages, api_message, arguments_json,
    data_url, joined_text, result_text, schema, system_prompt,
};

pub(crate) fn body(request: &Request, model: &str) -> Value {
    let turns = alternating_messages(request);
    let mut messages: Vec<Value> =
        turns.iter().flat_map(|message| messages(api_message(message, request))).collect();
    if messages.is_empty() {
        messages.push(json!({ "role": "user", "content": EMPTY_CONVERSATION }));
    }
    if let Some(system) = system_prompt(request) {
        messages.insert(0, json!({ "role": "system", "content": system }));
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(effort) = request.options.get("effort") {
        body["reasoning_effort"] = json!(effort);
    }
    body
}

fn messages(message: ApiMessage<'_>) -> Vec<Value> {
    match message.role {
        // A summary must not get the authority of the system prompt: a model wrote it. Also, chat
        // templates of local models reject a system message that is not the first message.
        Role::User | Role::System => user(&message.parts).into_iter().collect(),
        Role::Assistant => assistant(&message.parts).into_iter().collect(),
        Role::Tool => message.parts.into_iter().filter_map(result).collect(),
    }
}

/// Content without images is a plain string: not every server accepts a list of parts.
fn user(parts: &[ApiPart<'_>]) -> Option<Value> {
    let content = if parts.iter().any(|part| matches!(part, ApiPart::Image { .. })) {
        parts.iter().filter_map(content_part).collect()
    } else {
        json!(Some(joined_text(parts)).filter(|text| !text.is_empty())?)
    };
    Some(json!({ "role": "user", "content": content }))
}

fn content_part(part: &ApiPart<'_>) -> Option<Value> {
    match part {
        ApiPart::Text(text) => Some(json!({ "type": "text", "text": text })),
        ApiPart::Image { media_type, data } => {
            Some(json!({ "type": "image_url", "image_url": { "url": data_url(media_type, data) } }))
        }
        _ => None,
    }
}

fn assistant(parts: &[ApiPart<'_>]) -> Option<Value> {
    let calls: Vec<Value> = parts.iter().filter_map(call).collect();
    let text = joined_text(parts);
    match (text.is_empty(), calls.is_empty()) {
        (true, true) => None,
        (false, true) => Some(json!({ "role": "assistant", "content": text })),
        (true, false) => Some(json!({ "role": "assistant", "content": null, "tool_calls": calls })),
        (false, false) => {
            Some(json!({ "role": "assistant", "content": text, "tool_calls": calls }))
        }
    }
}

fn call(part: &ApiPart<'_>) -> Option<Value> {
    let ApiPart::Call { id, name, params } = part else { return None };
    let function = json!({ "name": name, "arguments": arguments_json(params) });
    Some(json!({ "id": id, "type": "function", "function": function }))
}

fn result(part: ApiPart<'_>) -> Option<Value> {
    let ApiPart::Result { id, text, is_error } = part else { return None };
    Some(json!({ "role": "tool", "tool_call_id": id, "content": result_text(text, is_error) }))
}

fn tool(tool: &Tool) -> Value {
    let (name, description) = (&tool.name, &tool.description);
    let function = json!({ "name": name, "description": description, "parameters": schema(tool) });
    json!({ "type": "function", "function": function })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::{
        image_part, images, message, request, text_message, tool_call, tool_result,
    };
    use ctx_core::id::{BlobId, ObjectId};
    use ctx_core::message::Part;
    use ctx_core::stored_content::Content;

    #[test]
    fn body_contains_the_conversation_in_order() {
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let thought = Part::Thought { text: "hm".to_owned(), raw: None };
        let omitted = Content::Omitted { omitted: BlobId(ObjectId::from_bytes([1; 32])), bytes: 9 };
        let omitted =
            Part::ToolResult { tool_call_id: "c".to_owned(), content: omitted, is_error: false };
        let mut request = request(vec![
            message(Role::System, vec![Part::Summary { text: "a boat was built".to_owned() }]),
            message(Role::User, vec![text("see"), image_part(), text("this")]),
            message(
                Role::Assistant,
                vec![
                    thought,
                    text("I look."),
                    tool_call("a", json!({"n": 1})),
                    tool_call("b", Value::Null),
                ],
            ),
            message(Role::Tool, vec![tool_result("a", "one", false)]),
            message(Role::Tool, vec![tool_result("b", "no file", true)]),
            message(Role::Assistant, vec![tool_call("c", json!({"_raw": "{"}))]),
            message(Role::Tool, vec![omitted]),
            message(Role::Assistant, vec![Part::Plan { entries: json!([]) }]),
            message(Role::User, vec![image_part()]),
        ]);
        request.system = Some("Be brief.".to_owned());
        let body = body(&request, "m");
        let picture = "[an image, image/png, which cannot be shown here]";
        let call = |id: &str, arguments: &str| {
            let function = json!({"name": "look", "arguments": arguments});
            json!({"id": id, "type": "function", "function": function})
        };
        let unavailable = "[9 bytes, which cannot be shown here]";
        let expected = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": format!(
                "Summary of the conversation so far:\n\na boat was built\n\n\
                 [Next message:]\n\nsee\n\n{picture}\n\nthis"
            )},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                call("a", "{\"n\":1}"), call("b", "{}"),
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: no file"},
            {"role": "assistant", "content": null, "tool_calls": [
                call("c", "{\"_raw\":\"{\"}"),
            ]},
            {"role": "tool", "tool_call_id": "c", "content": unavailable},
            {"role": "user", "content": picture},
        ]);
        assert_eq!(body["messages"], expected);
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
        request.messages = vec![message(Role::User, vec![text("see"), image_part()])];
        request.images = images();
        let url = "data:image/png;base64,AQID";
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let expected = json!([{"type": "text", "text": "see"}, image]);
        assert_eq!(super::body(&request, "m")["messages"][1]["content"], expected);
    }

    #[test]
    fn body_has_tools_only_if_there_are_any() {
        let mut request = request(vec![text_message(Role::User, "hi")]);
        assert_eq!(body(&request, "m").get("tools"), None, "some servers reject an empty list");
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tool = |name: &str, parameters: &Value| Tool {
            name: name.to_owned(),
            description: "d".to_owned(),
            parameters: parameters.clone(),
        };
        request.tools = vec![tool("a", &schema), tool("b", &Value::Null)];
        request.options.insert("effort".to_owned(), "low".to_owned());
        let body = body(&request, "m");
        let function = |name: &str, parameters: Value| {
            let function = json!({"name": name, "description": "d", "parameters": parameters});
            json!({"type": "function", "function": function})
        };
        assert_eq!(
            body["tools"],
            json!([
                function("a", schema),
                function("b", json!({"type": "object", "properties": {}}))
            ])
        );
        assert_eq!(body["reasoning_effort"], "low");
    }
}
