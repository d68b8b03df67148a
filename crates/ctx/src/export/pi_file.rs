//! A session of pi: `sessions/DIRECTORY/TIME_ID.jsonl` in its agent directory.

use std::path::PathBuf;

use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Status;
use serde_json::{Value, json};

use super::native_ids::NativeIds;
use super::native_lines::{base64, push_line};
use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};
use super::{Format, Native, NativeSession};

/// The version of the file format.
const VERSION: u64 = 3;

pub(super) struct PiFile {
    ids: NativeIds,
    session: String,
    title: Option<String>,
    working_dir: String,
    created_at: Timestamp,
    parent: Option<String>,
    count: u64,
}

impl PiFile {
    pub(super) fn new(native: &NativeSession) -> Self {
        Self {
            session: native.ids.timed_uuid("session", native.created_at),
            ids: native.ids.clone(),
            title: native.title.clone(),
            working_dir: native.working_dir.clone(),
            created_at: native.created_at,
            parent: None,
            count: 0,
        }
    }

    /// The id of the next entry. An entry has eight digits; a repeated one would be a circle.
    fn next_id(&mut self) -> String {
        self.count += 1;
        let number = format!("{:08x}", self.count);
        let random = self.ids.short("entries");
        // The number makes the id unique, the random part differs between sessions.
        number.bytes().zip(random.bytes()).map(|(a, b)| hex_sum(a, b)).collect()
    }

    fn entry(&mut self, at: Timestamp, kind: &str, more: Value, out: &mut Vec<u8>) {
        let id = self.next_id();
        let mut entry = json!({
            "type": kind,
            "id": id,
            "parentId": self.parent,
            "timestamp": at.to_string(),
        });
        if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
            entry.extend(more);
        }
        if kind == "compaction" {
            // Nothing before it is kept: what was kept follows it.
            entry["firstKeptEntryId"] = json!(id);
        }
        push_line(out, &entry);
        self.parent = Some(id);
    }

    fn message(&mut self, at: Timestamp, message: Value, out: &mut Vec<u8>) {
        self.entry(at, "message", json!({"message": message}), out);
    }

    fn response(&mut self, turn: &Turn, response: &Response, out: &mut Vec<u8>) {
        let mut content: Vec<Value> = response.parts.iter().filter_map(block).collect();
        content.extend(response.calls.iter().map(|call| {
            let (id, name, arguments) = (&call.id, &call.name, &call.params);
            json!({"type": "toolCall", "id": id, "name": name, "arguments": arguments})
        }));
        let error = response.parts.iter().find_map(|part| match part {
            ResponsePart::Error { message, .. } => Some(message),
            _ => None,
        });
        let stop = match (error, turn.status) {
            (Some(_), Status::Cancelled) => "aborted",
            (Some(_), _) => "error",
            _ if !response.calls.is_empty() => "toolUse",
            _ => "stop",
        };
        let mut message = json!({
            "role": "assistant",
            "content": content,
            "api": "openai-completions",
            "provider": turn.provider_id.as_deref().unwrap_or("unknown"),
            "model": turn.model.as_deref().unwrap_or("unknown"),
            "usage": usage(turn, response.is_last),
            "stopReason": stop,
            "timestamp": response.at.0,
        });
        if let Some(error) = error {
            message["errorMessage"] = json!(error);
        }
        self.message(response.at, message, out);
        for call in &response.calls {
            self.result(call, out);
        }
    }

    fn result(&mut self, call: &Call, out: &mut Vec<u8>) {
        let message = json!({
            "role": "toolResult",
            "toolCallId": call.id,
            "toolName": call.name,
            "content": [{"type": "text", "text": call.output}],
            "isError": call.is_error,
            "timestamp": call.ended_at.0,
        });
        self.message(call.ended_at, message, out);
    }
}

fn hex_sum(a: u8, b: u8) -> char {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0);
    char::from_digit((digit(a) + digit(b)) % 16, 16).unwrap_or('0')
}

fn block(part: &ResponsePart) -> Option<Value> {
    match part {
        ResponsePart::Text(text) => Some(json!({"type": "text", "text": text})),
        ResponsePart::Thought { text, raw } => {
            let own = |raw: &&Value| raw.get("thinking").is_some_and(Value::is_string);
            let own = raw.as_ref().filter(own).filter(|raw| raw["type"] == "thinking");
            match own {
                // The signature of another tool is in another field.
                Some(raw) if raw.get("signature").is_none() => Some(raw.clone()),
                _ if text.is_empty() => None,
                _ => Some(json!({"type": "thinking", "thinking": text})),
            }
        }
        _ => None,
    }
}

fn usage(turn: &Turn, is_last: bool) -> Value {
    let usage = turn.usage.as_ref().filter(|_| is_last);
    let cached = usage.and_then(|usage| usage.cached_tokens).unwrap_or(0);
    let input = usage.and_then(|usage| usage.input_tokens).unwrap_or(0);
    let output = usage.and_then(|usage| usage.output_tokens).unwrap_or(0);
    let cost = super::cost_of(usage);
    json!({
        "input": input.saturating_sub(cached),
        "output": output,
        "cacheRead": cached,
        "cacheWrite": 0,
        "totalTokens": input.saturating_add(output),
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    })
}

impl Format for PiFile {
    fn start(&mut self, out: &mut Vec<u8>) {
        let session = json!({
            "type": "session",
            "version": VERSION,
            "id": self.session,
            "timestamp": self.created_at.to_string(),
            "cwd": self.working_dir,
        });
        push_line(out, &session);
        if let Some(title) = self.title.clone() {
            self.entry(self.created_at, "session_info", json!({"name": title}), out);
        }
    }

    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        if turn.is_with_ctx_only {
            return;
        }
        for entry in &turn.entries {
            match entry {
                Entry::Prompt { at, parts } => {
                    let content: Vec<Value> = parts.iter().map(prompt_block).collect();
                    let message = json!({"role": "user", "content": content, "timestamp": at.0});
                    self.message(*at, message, out);
                }
                Entry::Response(response) => self.response(turn, response, out),
                Entry::Compaction { at, summary, tokens_before } => {
                    let tokens = tokens_before.unwrap_or(0);
                    let more = json!({"summary": summary, "tokensBefore": tokens});
                    self.entry(*at, "compaction", more, out);
                }
                Entry::Notice { .. } | Entry::Record { .. } => {}
            }
        }
    }
}

impl Native for PiFile {
    fn id(&self) -> &str {
        &self.session
    }

    fn path(&self) -> PathBuf {
        let time = self.created_at.to_string().replace([':', '.'], "-");
        let name = format!("{time}_{}.jsonl", self.session);
        PathBuf::from("sessions").join(directory_name(&self.working_dir)).join(name)
    }
}

/// The name that pi gives to the directory of a project.
fn directory_name(working_dir: &str) -> String {
    let rest = working_dir.strip_prefix(['/', '\\']).unwrap_or(working_dir);
    format!("--{}--", rest.replace(['/', '\\', ':'], "-"))
}

fn prompt_block(part: &PromptPart) -> Value {
    match part {
        PromptPart::Text(text) => json!({"type": "text", "text": text}),
        PromptPart::Image { media_type, bytes } => {
            json!({"type": "image", "data": base64(bytes), "mimeType": media_type})
        }
    }
}
