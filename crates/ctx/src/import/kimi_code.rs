//! Sessions of Kimi Code: `sessions/WORKSPACE/SESSION/agents/AGENT/wire.jsonl`.
//!
//! The file is a log of the agent's context: appended messages and events of its loop. Other
//! records repeat them for observers. Every agent but `main` is a worker.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::{Status, Usage};
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{flat_text, list, number, some_text, text, time};
use super::lines::{Line, Lines};
use super::reading::{Conversation, Facts, Reading};
use super::{Environment, Source, Tool};

/// Prefixes of types that concern the program and not the conversation.
const HOUSEKEEPING: [&str; 11] = [
    "metadata",
    "runtime.",
    "profile.",
    "turn.",
    "agent.",
    "plugin.",
    "llm.",
    "usage.",
    "token_counting.",
    "prompt.",
    "permission.",
];

pub(super) struct KimiCode;

impl Tool for KimiCode {
    fn name(&self) -> &'static str {
        "kimi-code"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let home = environment.dir("KIMI_CODE_HOME").or_else(|| environment.in_home(".kimi-code"));
        home.map(|home| home.join("sessions")).into_iter().collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == "wire.jsonl")
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        let (agent, session) = names(&source.path);
        note_state(&source.path, &mut into.main.facts);
        if let Some(session) = session {
            into.main.facts.id = session;
        }
        let worker = agent.filter(|agent| agent != "main");
        let mut lines = Lines::open(&source.path)?;
        while let Some(line) = lines.next_line()? {
            match line {
                Line::Bad { number, why } => into.problem(number, why),
                Line::Text { number, text } => match serde_json::from_str::<Value>(text) {
                    Ok(record) => {
                        let conversation = match &worker {
                            Some(worker) => into.worker(worker),
                            None => &mut into.main,
                        };
                        add(&record, text, number, conversation);
                    }
                    Err(error) => into.problem(number, format!("not valid JSON: {error}")),
                },
            }
            into.pass_on()?;
        }
        Ok(())
    }
}

/// The names of the agent and of the session in a path.
fn names(path: &Path) -> (Option<String>, Option<String>) {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned)
    };
    let agent = path.parent();
    let session = agent.and_then(Path::parent).and_then(Path::parent);
    (name(agent), name(session))
}

/// Title, directory and times of `state.json` beside the agents.
fn note_state(path: &Path, facts: &mut Facts) {
    let session = path.parent().and_then(Path::parent).and_then(Path::parent);
    let state = session.and_then(|session| std::fs::read(session.join("state.json")).ok());
    let Some(state) = state.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
        return;
    };
    facts.title = some_text(&state, "title").map(str::to_owned);
    facts.archived = state.get("archived").and_then(Value::as_bool) == Some(true);
    facts.note(some_text(&state, "cwd"), None, time(&state, "createdAt"));
}

fn add(record: &Value, raw: &str, line: u64, into: &mut Conversation) {
    let number_id = format!("line {line}");
    let kind = text(record, "type").unwrap_or("record");
    let at = time(record, "time").or_else(|| time(record, "created_at"));
    let event = record.get("event").unwrap_or(&Value::Null);
    let message = record.get("message").unwrap_or(&Value::Null);
    let id = some_text(event, "uuid").or_else(|| some_text(message, "id")).unwrap_or(&number_id);
    let mark = Mark { id, parent: Parent::Previous, at };
    into.facts.note(None, None, at);
    match kind {
        "context.append_message" => append_message(message, raw, mark, into),
        "context.append_loop_event" => loop_event(event, raw, mark, into),
        "context.apply_compaction" | "context.compaction" => {
            let summary = some_text(record, "summary").unwrap_or_default();
            into.turns.compaction(mark, summary, number(record, "tokensBefore"));
        }
        "context.undo" => {
            into.turns.rewind(number(record, "count").unwrap_or(0));
            into.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        "usage.record" => {
            if let Some(usage) = record.get("usage") {
                into.turns.usage(&usage_of(usage));
            }
            into.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        "turn.ended" => {
            if matches!(text(record, "reason"), Some("cancelled" | "aborted")) {
                into.turns.ended(Status::Cancelled);
            }
            into.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        _ => {
            let known = HOUSEKEEPING.iter().any(|prefix| kind.starts_with(prefix));
            let how = if known { Verbatim::Housekeeping } else { Verbatim::Unknown };
            // Observers get the same message with the same id.
            let mark = Mark { id: &number_id, ..mark };
            into.turns.verbatim(mark, kind, raw, how);
        }
    }
}

fn append_message(message: &Value, raw: &str, mark: Mark<'_>, into: &mut Conversation) {
    let content = message.get("content").unwrap_or(&Value::Null);
    let origin = message.pointer("/origin/kind").and_then(Value::as_str).unwrap_or("user");
    match text(message, "role") {
        Some("user") if origin == "user" => {
            let parts = user_parts(&mut into.turns, content);
            let words = parts.iter().find_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            });
            into.facts.note_prompt(words.unwrap_or_default());
            into.turns.prompt(mark, parts, MessageSource::Human);
        }
        Some("assistant") => {
            let mut parts = answer_parts(content);
            parts.extend(list(message, "toolCalls").iter().map(|call| Part::ToolCall {
                id: text(call, "id").unwrap_or_default().to_owned(),
                name: text(call, "name").unwrap_or("tool").to_owned(),
                params: arguments(call.get("arguments")),
                status: ToolStatus::Unknown,
            }));
            into.turns.answer(mark, parts, None);
        }
        _ => into.turns.verbatim(mark, &format!("message.{origin}"), raw, Verbatim::Housekeeping),
    }
}

fn user_parts(turns: &mut Assembler, content: &Value) -> Vec<Part> {
    match content {
        Value::Array(parts) => parts.iter().map(|part| user_part(turns, part)).collect(),
        other => vec![Part::Text { text: flat_text(other) }],
    }
}

fn user_part(turns: &mut Assembler, part: &Value) -> Part {
    let url = part.pointer("/imageUrl/url").and_then(Value::as_str);
    let image = url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
    if let Some((media_type, data)) = image
        && let Ok(bytes) = STANDARD.decode(data)
    {
        return turns.image(media_type, bytes);
    }
    // Other content has no counterpart; the text keeps it.
    let text = text(part, "text").map_or_else(|| part.to_string(), str::to_owned);
    Part::Text { text }
}

fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    }
}

fn answer_parts(content: &Value) -> Vec<Part> {
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    parts.iter().filter_map(answer_part).collect()
}

fn answer_part(part: &Value) -> Option<Part> {
    Some(match text(part, "type")? {
        "text" => Part::Text { text: text(part, "text")?.to_owned() },
        "think" | "thinking" => Part::Thought {
            text: text(part, "think").or_else(|| text(part, "thinking")).unwrap_or_default().into(),
            raw: Some(part.clone()),
        },
        _ => Part::Thought { text: String::new(), raw: Some(part.clone()) },
    })
}

fn loop_event(event: &Value, raw: &str, mark: Mark<'_>, into: &mut Conversation) {
    match text(event, "type").unwrap_or_default() {
        "content.part" => {
            let part = event.get("part").and_then(answer_part);
            into.turns.answer(mark, part.into_iter().collect(), None);
        }
        "tool.call" => {
            let call = Part::ToolCall {
                id: text(event, "toolCallId").unwrap_or_default().to_owned(),
                name: text(event, "name").unwrap_or("tool").to_owned(),
                params: arguments(event.get("args")),
                status: ToolStatus::Unknown,
            };
            into.turns.answer(mark, vec![call], None);
        }
        "tool.result" => {
            let result = event.get("result").unwrap_or(&Value::Null);
            let is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
            let output = flat_text(result.get("output").unwrap_or(&Value::Null));
            let call = text(event, "toolCallId").unwrap_or_default();
            into.turns.result(mark, call, output.into_bytes(), is_error);
        }
        kind => into.turns.verbatim(
            // The start and the end of a step have one id.
            Mark { id: &format!("{} {kind}", mark.id), ..mark },
            kind,
            raw,
            Verbatim::Housekeeping,
        ),
    }
}

fn usage_of(usage: &Value) -> Usage {
    let (fresh, read) = (number(usage, "inputOther"), number(usage, "inputCacheRead"));
    let written = number(usage, "inputCacheCreation");
    Usage {
        input_tokens: [fresh, read, written].into_iter().flatten().reduce(u64::saturating_add),
        output_tokens: number(usage, "output"),
        cached_tokens: read,
        cost: None,
        scope: "turn".to_owned(),
        last_input_tokens: None,
    }
}
