//! A generic format: one message per line, as chat APIs have them.
//!
//! `{"role": "user"|"assistant"|"system"|"tool", "content": TEXT or [{"type": "text", "text": …}]}`
//! with the optional fields `id`, `parent_id`, `timestamp`, `model`, `usage`, `reasoning`,
//! `reasoning_raw`, `error`, `tool_calls` and `tool_call_id` with `is_error`. A line
//! `{"type": "session", …}` has the facts `id`, `title`, `working_dir`, `git_branch`.
//! `ctx export --to jsonl` writes this format.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::Usage;
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{flat_text, list, number, some_text, text, time};
use super::reading::Reading;
use super::{Environment, Source, Tool};

pub(super) struct GenericLines;

impl Tool for GenericLines {
    fn name(&self) -> &'static str {
        "jsonl"
    }

    fn homes(&self, _: &Environment) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|end| end == "jsonl" || end == "zst")
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        into.each_record(&source.path, |into, record, text, line| {
            add(record, text, line, into);
        })
    }
}

fn add(record: &Value, raw: &str, line: u64, into: &mut Reading<'_>) {
    let number = format!("line {line}");
    let at = ["timestamp", "created_at", "time"].iter().find_map(|field| time(record, field));
    let mark = Mark {
        id: some_text(record, "id").unwrap_or(&number),
        parent: some_text(record, "parent_id").map_or(Parent::Previous, Parent::Record),
        at,
    };
    into.main.facts.note(some_text(record, "working_dir"), some_text(record, "git_branch"), at);
    if text(record, "type") == Some("session") {
        let facts = &mut into.main.facts;
        facts.title = some_text(record, "title").map(str::to_owned).or(facts.title.take());
        if let Some(id) = some_text(record, "id") {
            facts.id = id.to_owned();
        }
        return;
    }
    let content = record.get("content").unwrap_or(&Value::Null);
    match text(record, "role").unwrap_or_default() {
        "user" => {
            let parts = parts(&mut into.main.turns, content);
            into.main.facts.note_prompt(&flat_text(content));
            into.main.turns.prompt(mark, parts, MessageSource::Human);
        }
        "assistant" => {
            let mut answer = Vec::new();
            let thought = some_text(record, "reasoning");
            let thought = thought.or_else(|| some_text(record, "reasoning_content"));
            let raw = record.get("reasoning_raw").cloned();
            if thought.is_some() || raw.is_some() {
                let text = thought.unwrap_or_default().to_owned();
                answer.push(Part::Thought { text, raw });
            }
            answer.extend(parts(&mut into.main.turns, content));
            answer.extend(list(record, "tool_calls").iter().map(call));
            answer.extend(record.get("error").and_then(failure));
            into.main.turns.answer(mark, answer, some_text(record, "model"));
            if let Some(usage) = record.get("usage") {
                into.main.turns.usage(&usage_of(usage));
            }
        }
        "tool" => {
            let is_error = record.get("is_error").and_then(Value::as_bool) == Some(true);
            let id = text(record, "tool_call_id").unwrap_or_default();
            into.main.turns.result(mark, id, flat_text(content).into_bytes(), is_error);
        }
        "summary" => into.main.turns.compaction(mark, &flat_text(content), None),
        "system" | "developer" => {
            into.main.turns.verbatim(mark, "system", raw, Verbatim::Unknown);
        }
        _ if record.is_object() => {
            into.main.turns.verbatim(mark, "record", raw, Verbatim::Unknown);
        }
        _ => into.problem(line, "not a message: a JSON object with `role` is expected"),
    }
}

fn parts(turns: &mut Assembler, content: &Value) -> Vec<Part> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![Part::Text { text: text.clone() }],
        Value::Array(parts) => parts.iter().filter_map(|one| part(turns, one)).collect(),
        _ => Vec::new(),
    }
}

fn part(turns: &mut Assembler, part: &Value) -> Option<Part> {
    match text(part, "type")? {
        "image_url" => {
            let url = part.pointer("/image_url/url").and_then(Value::as_str)?;
            let (head, data) = url.split_once(";base64,")?;
            let bytes = STANDARD.decode(data).ok()?;
            Some(turns.image(head.trim_start_matches("data:"), bytes))
        }
        _ => Some(Part::Text { text: text(part, "text")?.to_owned() }),
    }
}

/// An error of the provider: `{code, message}`.
fn failure(error: &Value) -> Option<Part> {
    Some(Part::Error {
        code: some_text(error, "code").unwrap_or("provider_error").to_owned(),
        message: some_text(error, "message")?.to_owned(),
        provider_id: None,
    })
}

/// A call in the form of chat completions, or `{id, name, arguments}`.
fn call(call: &Value) -> Part {
    let function = call.get("function").unwrap_or(call);
    let params = match function.get("arguments").or_else(|| function.get("params")) {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    };
    Part::ToolCall {
        id: text(call, "id").unwrap_or_default().to_owned(),
        name: text(function, "name").unwrap_or("tool").to_owned(),
        params,
        status: ToolStatus::Unknown,
    }
}

fn usage_of(usage: &Value) -> Usage {
    let first = |fields: [&str; 2]| fields.iter().find_map(|field| number(usage, field));
    Usage {
        input_tokens: first(["input_tokens", "prompt_tokens"]),
        output_tokens: first(["output_tokens", "completion_tokens"]),
        cached_tokens: first(["cached_tokens", "cache_read_input_tokens"]),
        cost: some_text(usage, "cost").map(str::to_owned),
        scope: "turn".to_owned(),
        last_input_tokens: None,
    }
}
