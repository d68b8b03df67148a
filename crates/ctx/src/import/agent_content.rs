//! The content of a message of an older session server: JSON with a text, a plan or a tool call.
//!
//! Servers differ in the names of fields, so several are accepted. Content that is not JSON is
//! text.

use ctx_engine::core::message::{Part, ToolStatus};
use serde_json::Value;

use super::fields::{flat_text, some_text, text};

/// A part of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// The entries of a plan.
    Plan(Value),
    Tool(ToolPiece),
    /// Content of another kind, which is kept verbatim.
    Other,
}

/// A tool call, with its output once it has ended.
#[derive(Debug, PartialEq)]
pub(super) struct ToolPiece {
    /// `None` if the server gave it none.
    pub(super) id: Option<String>,
    name: String,
    params: Value,
    /// `None` while the call runs.
    pub(super) output: Option<String>,
    pub(super) is_error: bool,
}

impl ToolPiece {
    /// The call as a part of a message.
    pub(super) fn call(&self, id: &str) -> Part {
        Part::ToolCall {
            id: id.to_owned(),
            name: self.name.clone(),
            params: self.params.clone(),
            status: ToolStatus::Unknown,
        }
    }
}

/// The parts of a content.
pub(super) fn pieces(content: &str) -> Vec<Piece> {
    match serde_json::from_str::<Value>(content) {
        Ok(Value::Array(parts)) => parts.iter().map(piece).collect(),
        Ok(Value::Number(_) | Value::Bool(_)) | Err(_) if !content.trim().is_empty() => {
            vec![Piece::Text(content.to_owned())]
        }
        Ok(Value::Null) | Err(_) => Vec::new(),
        Ok(part) => vec![piece(&part)],
    }
}

fn piece(part: &Value) -> Piece {
    if let Value::String(text) = part {
        return Piece::Text(text.clone());
    }
    match kind(part) {
        "text" => match first(part, &["text", "content", "message"]) {
            Some(found) => Piece::Text(flat_text(found)),
            None => Piece::Other,
        },
        "plan" => {
            let plan = part.get("plan").filter(|plan| !plan.is_null()).unwrap_or(part);
            match first(plan, &["entries", "steps", "items", "content"]) {
                Some(entries) => Piece::Plan(entries.clone()),
                None => Piece::Plan(plan.clone()),
            }
        }
        "tool" => tool(part).map_or(Piece::Other, Piece::Tool),
        _ => Piece::Other,
    }
}

/// `text`, `plan` or `tool`, by the type of a part or else by its fields.
fn kind(part: &Value) -> &'static str {
    let named = text(part, "type").unwrap_or_default().to_ascii_lowercase();
    let has = |name: &str| part.get(name).is_some_and(|field| !field.is_null());
    match named.as_str() {
        "text" => "text",
        "plan" => "plan",
        named if named.starts_with("tool") => "tool",
        _ if has("toolCallId") || has("tool") => "tool",
        _ if has("text") => "text",
        _ if has("plan") || has("entries") => "plan",
        _ => "",
    }
}

fn tool(part: &Value) -> Option<ToolPiece> {
    // The call may be inside the part; fields of the part itself come second.
    let inner = ["tool", "toolCall", "tool_call"].iter().find_map(|name| {
        let inner = part.get(*name)?;
        inner.is_object().then_some(inner)
    });
    let field = |names: &[&str]| inner.and_then(|tool| first(tool, names)).or(first(part, names));
    let word = |names: &[&str]| {
        let found = |value: &Value| {
            let mut texts = names.iter().filter_map(|name| some_text(value, name));
            texts.next().map(str::to_owned)
        };
        inner.and_then(found).or_else(|| found(part))
    };
    let id = word(&["toolCallId", "tool_call_id", "callId", "tool_use_id", "id"]);
    let status = word(&["status", "state"]).unwrap_or_default().to_ascii_lowercase();
    let failed = matches!(status.as_str(), "failed" | "error" | "errored" | "cancelled");
    let flagged = ["isError", "is_error"]
        .iter()
        .any(|name| inner.unwrap_or(part).get(*name).and_then(Value::as_bool) == Some(true));
    let output = field(&["rawOutput", "output", "result", "content", "error"]).map(output_text);
    let ended = failed || matches!(status.as_str(), "completed" | "success" | "done");
    Some(ToolPiece {
        id,
        name: word(&["name", "toolName", "tool_name", "tool", "title", "kind"])
            .filter(|name| !name.starts_with("tool_"))
            .unwrap_or_else(|| "tool".to_owned()),
        params: field(&["rawInput", "input", "args", "arguments", "params", "parameters"])
            .cloned()
            .unwrap_or(Value::Null),
        output: output.or_else(|| ended.then(String::new)),
        is_error: failed || flagged,
    })
}

/// The text of an output. The Agent Client Protocol wraps texts twice.
fn output_text(output: &Value) -> String {
    let Value::Array(parts) = output else { return flat_text(output) };
    let inner =
        |part: &Value| part.pointer("/content/text").and_then(Value::as_str).map(str::to_owned);
    let texts: Option<Vec<String>> = parts.iter().map(inner).collect();
    texts.map_or_else(|| flat_text(output), |texts| texts.join("\n"))
}

/// The first of several fields that is present.
fn first<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| value.get(*name).filter(|field| !field.is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(content: Value) -> Piece {
        let mut found = pieces(&content.to_string());
        assert_eq!(found.len(), 1, "{content}");
        found.remove(0)
    }

    #[test]
    fn texts_and_plans_are_recognised_by_type_and_by_field() {
        for content in [
            json!({"type": "text", "text": "hi"}),
            json!({"text": "hi"}),
            json!({"type": "text", "content": [{"type": "text", "text": "hi"}]}),
            json!("hi"),
        ] {
            assert_eq!(one(content), Piece::Text("hi".to_owned()));
        }
        assert_eq!(pieces("not JSON"), [Piece::Text("not JSON".to_owned())]);
        assert_eq!(pieces(""), []);
        let entries = json!([{"content": "read", "status": "pending"}]);
        for content in [
            json!({"type": "plan", "entries": entries}),
            json!({"type": "plan", "plan": {"entries": entries}}),
            json!({"plan": {"entries": entries}}),
        ] {
            assert_eq!(one(content), Piece::Plan(entries.clone()));
        }
        assert_eq!(one(json!({"type": "audio"})), Piece::Other);
    }

    #[test]
    fn a_tool_call_has_an_output_once_it_has_ended() {
        let expected = |output: Option<&str>, is_error| {
            Piece::Tool(ToolPiece {
                id: Some("c1".to_owned()),
                name: "read".to_owned(),
                params: json!({"path": "a"}),
                output: output.map(str::to_owned),
                is_error,
            })
        };
        let call = json!({"toolCallId": "c1", "name": "read", "rawInput": {"path": "a"}});
        let with = |more: Value| {
            let mut all = call.as_object().cloned().expect("an object");
            all.extend(more.as_object().cloned().expect("an object"));
            all
        };
        for (more, output, is_error) in [
            (json!({"status": "pending"}), None, false),
            (json!({"status": "completed"}), Some(""), false),
            (json!({"status": "completed", "rawOutput": "text"}), Some("text"), false),
            (json!({"status": "failed", "output": "no"}), Some("no"), true),
            (
                json!({"content": [{"type": "content", "content": {"type": "text", "text": "x"}}]}),
                Some("x"),
                false,
            ),
        ] {
            let flat = with(more.clone());
            let mut typed = flat.clone();
            typed.insert("type".to_owned(), "tool".into());
            assert_eq!(one(Value::Object(typed)), expected(output, is_error), "{more}");
            let nested = json!({"type": "tool", "tool": flat});
            assert_eq!(one(nested), expected(output, is_error), "{more}");
        }
    }
}
