//! A session of Claude Code: `projects/DIRECTORY/ID.jsonl` in its configuration directory.
//!
//! Each block of a response is a record; records name their parents. Reasoning is written only in
//! the form that Anthropic signed: the API refuses other reasoning.

use std::path::PathBuf;

use ctx_engine::core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::native_ids::NativeIds;
use super::native_lines::{base64, push_line};
use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};
use super::{Format, Native, NativeSession};

/// The version whose form is written.
const VERSION: &str = "2.1.326";
/// Characters of a directory name before it is shortened.
const DIRECTORY_MAX: usize = 200;

pub(super) struct ClaudeCodeFile {
    ids: NativeIds,
    session: String,
    title: Option<String>,
    working_dir: String,
    git_branch: String,
    /// The record that the next one follows.
    parent: Option<String>,
    count: u64,
}

impl ClaudeCodeFile {
    pub(super) fn new(native: &NativeSession) -> Self {
        Self {
            session: native.ids.uuid("session"),
            ids: native.ids.clone(),
            title: native.title.clone(),
            working_dir: native.working_dir.clone(),
            git_branch: String::new(),
            parent: None,
            count: 0,
        }
    }

    fn next_uuid(&mut self) -> String {
        self.count += 1;
        self.ids.uuid(&format!("record {}", self.count))
    }

    /// Appends a record with the fields that all records have.
    fn record(&mut self, at: Timestamp, kind: &str, more: Value, out: &mut Vec<u8>) {
        let uuid = self.next_uuid();
        let mut record = Map::new();
        record.insert("parentUuid".to_owned(), json!(self.parent));
        record.insert("isSidechain".to_owned(), json!(false));
        record.insert("type".to_owned(), json!(kind));
        if let Value::Object(more) = more {
            record.extend(more);
        }
        let common = json!({
            "uuid": uuid,
            "timestamp": at.to_string(),
            "userType": "external",
            "entrypoint": "cli",
            "cwd": self.working_dir,
            "sessionId": self.session,
            "version": VERSION,
            "gitBranch": self.git_branch,
        });
        if let Value::Object(common) = common {
            record.extend(common);
        }
        push_line(out, &Value::Object(record));
        self.parent = Some(uuid);
    }

    fn prompt(&mut self, at: Timestamp, parts: &[PromptPart], out: &mut Vec<u8>) {
        let content = match parts {
            [PromptPart::Text(text)] => json!(text),
            parts => parts.iter().map(prompt_block).collect(),
        };
        self.record(at, "user", json!({"message": {"role": "user", "content": content}}), out);
    }

    fn response(&mut self, turn: &Turn, response: &Response, out: &mut Vec<u8>) {
        let message = format!("msg_ctx_{}", self.ids.short(&format!("message {}", self.count)));
        let mut blocks: Vec<Value> = response.parts.iter().filter_map(block).collect();
        blocks.extend(response.calls.iter().map(call_block));
        let stop = if response.calls.is_empty() { "end_turn" } else { "tool_use" };
        let (last, model) = (blocks.len().saturating_sub(1), turn.model.as_deref());
        for (n, block) in blocks.into_iter().enumerate() {
            let usage = usage(turn, response.is_last && n == last);
            let message = json!({
                "id": message,
                "type": "message",
                "role": "assistant",
                "model": model.unwrap_or("unknown"),
                "content": [block],
                "stop_reason": if n == last { json!(stop) } else { Value::Null },
                "stop_sequence": null,
                "usage": usage,
            });
            self.record(response.at, "assistant", json!({"message": message}), out);
        }
        for call in &response.calls {
            self.result(call, out);
        }
        for part in &response.parts {
            if let ResponsePart::Error { message, .. } = part {
                self.failure(response.at, message, out);
            }
        }
    }

    /// An error of the provider, as a record that is shown and not sent.
    fn failure(&mut self, at: Timestamp, text: &str, out: &mut Vec<u8>) {
        let more = json!({
            "subtype": "informational",
            "content": text,
            "isMeta": false,
            "level": "error",
        });
        self.record(at, "system", more, out);
    }

    fn result(&mut self, call: &Call, out: &mut Vec<u8>) {
        let block = json!({
            "tool_use_id": call.id,
            "type": "tool_result",
            "content": call.output,
            "is_error": call.is_error,
        });
        let message = json!({"role": "user", "content": [block]});
        self.record(call.ended_at, "user", json!({"message": message}), out);
    }

    fn compaction(&mut self, at: Timestamp, summary: &str, tokens: u64, out: &mut Vec<u8>) {
        let before = self.parent.take();
        let boundary = json!({
            "logicalParentUuid": before,
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": false,
            "level": "info",
            "compactMetadata": {"trigger": "manual", "preTokens": tokens},
        });
        self.record(at, "system", boundary, out);
        let summary = json!({
            "isCompactSummary": true,
            "isVisibleInTranscriptOnly": true,
            "message": {"role": "user", "content": summary},
        });
        self.record(at, "user", summary, out);
    }
}

impl Format for ClaudeCodeFile {
    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        for entry in &turn.entries {
            match entry {
                Entry::Record { kind, content, .. } if kind.ends_with(":git_branch") => {
                    self.git_branch.clone_from(content);
                }
                _ if turn.is_with_ctx_only => {}
                Entry::Prompt { at, parts } => self.prompt(*at, parts, out),
                Entry::Response(response) => self.response(turn, response, out),
                Entry::Compaction { at, summary, tokens_before } => {
                    self.compaction(*at, summary, tokens_before.unwrap_or(0), out);
                }
                Entry::Notice { .. } | Entry::Record { .. } => {}
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(title) = &self.title {
            let title = json!({
                "type": "custom-title",
                "customTitle": title,
                "sessionId": self.session,
            });
            push_line(out, &title);
        }
    }
}

impl Native for ClaudeCodeFile {
    fn id(&self) -> &str {
        &self.session
    }

    fn path(&self) -> PathBuf {
        let directory = directory_name(&self.working_dir);
        PathBuf::from("projects").join(directory).join(format!("{}.jsonl", self.session))
    }
}

/// The name that Claude Code gives to the directory of a project.
fn directory_name(working_dir: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // The tool counts UTF-16 units: a character outside the basic plane becomes two.
    let name: String =
        working_dir.chars().flat_map(|c| std::iter::repeat_n(keep(c), c.len_utf16())).collect();
    if name.len() <= DIRECTORY_MAX {
        return name;
    }
    let hash = working_dir
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    format!("{}-{}", &name[..DIRECTORY_MAX], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

fn prompt_block(part: &PromptPart) -> Value {
    match part {
        PromptPart::Text(text) => json!({"type": "text", "text": text}),
        PromptPart::Image { media_type, bytes } => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": base64(bytes)},
        }),
    }
}

fn block(part: &ResponsePart) -> Option<Value> {
    match part {
        ResponsePart::Text(text) => Some(json!({"type": "text", "text": text})),
        ResponsePart::Thought { raw: Some(raw), .. } => {
            let kind = raw.get("type").and_then(Value::as_str)?;
            let signed = raw.get("signature").and_then(Value::as_str);
            let is_signed = match kind {
                "thinking" => signed.is_some_and(|signature| !signature.is_empty()),
                kind => kind == "redacted_thinking",
            };
            is_signed.then(|| raw.clone())
        }
        _ => None,
    }
}

fn call_block(call: &Call) -> Value {
    let input = if call.params.is_object() { call.params.clone() } else { json!({}) };
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// The usage of a turn belongs to its last record; ctx stores one sum per turn.
fn usage(turn: &Turn, is_last: bool) -> Value {
    let usage = turn.usage.as_ref().filter(|_| is_last);
    let cached = usage.and_then(|usage| usage.cached_tokens).unwrap_or(0);
    let input = usage.and_then(|usage| usage.input_tokens).unwrap_or(0);
    json!({
        "input_tokens": input.saturating_sub(cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.and_then(|usage| usage.output_tokens).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_project_is_named_as_claude_code_names_it() {
        assert_eq!(directory_name("/home/me/my.app"), "-home-me-my-app");
        let long = format!("/{}", "a".repeat(250));
        let name = directory_name(&long);
        assert!(name.starts_with(&format!("-{}-", "a".repeat(199))), "{name}");
        assert!(name.len() > 201 && name.len() < 210, "{name}");
    }
}
