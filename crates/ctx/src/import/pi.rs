//! Sessions of pi: `agent/sessions/DIRECTORY/TIME_ID.jsonl`. Entries name their parents.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::{Status, Usage};
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{flat_text, number, some_text, text, time};
use super::reading::Reading;
use super::{Environment, Source, Tool};

/// Types of entries that concern the program and not the conversation.
const HOUSEKEEPING: [&str; 6] =
    ["model_change", "thinking_level_change", "label", "session_info", "custom", "session"];

pub(super) struct Pi;

impl Tool for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let agent = environment
            .dir("PI_CODING_AGENT_DIR")
            .or_else(|| environment.in_home(".pi").map(|home| home.join("agent")));
        agent.map(|agent| agent.join("sessions")).into_iter().collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|end| end == "jsonl")
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        into.each_record(&source.path, |into, record, text, line| {
            add(record, text, line, into);
        })
    }
}

fn add(record: &Value, raw: &str, line: u64, into: &mut Reading<'_>) {
    let number = format!("line {line}");
    let kind = text(record, "type").unwrap_or("record");
    let mark = Mark {
        id: if kind == "session" { &number } else { some_text(record, "id").unwrap_or(&number) },
        parent: match record.get("parentId") {
            Some(Value::String(id)) if !id.is_empty() => Parent::Record(id),
            // The user went back to the beginning.
            Some(Value::Null) => Parent::Root,
            _ => Parent::Previous,
        },
        at: time(record, "timestamp"),
    };
    let facts = &mut into.main.facts;
    facts.note(some_text(record, "cwd"), None, mark.at);
    match kind {
        "session" => {
            if let Some(id) = some_text(record, "id") {
                facts.id = id.to_owned();
            }
        }
        "session_info" => facts.title = some_text(record, "name").map(str::to_owned),
        _ => {}
    }
    match kind {
        "message" => message(record, raw, mark, into),
        "compaction" => {
            let summary = text(record, "summary").unwrap_or_default();
            into.main.turns.compaction(
                mark,
                summary,
                super::fields::number(record, "tokensBefore"),
            );
        }
        "branch_summary" => {
            let text = text(record, "summary").unwrap_or_default().to_owned();
            into.main.turns.prompt(mark, vec![Part::Text { text }], MessageSource::Agent);
        }
        _ => {
            let known = HOUSEKEEPING.contains(&kind);
            let how = if known { Verbatim::Housekeeping } else { Verbatim::Unknown };
            into.main.turns.verbatim(mark, kind, raw, how);
        }
    }
}

fn message(record: &Value, raw: &str, mark: Mark<'_>, into: &mut Reading<'_>) {
    let Some(message) = record.get("message") else { return };
    let content = message.get("content").unwrap_or(&Value::Null);
    let turns = &mut into.main.turns;
    match text(message, "role").unwrap_or_default() {
        "user" => {
            let parts = user_parts(turns, content);
            into.main.facts.note_prompt(&flat_text(content));
            into.main.turns.prompt(mark, parts, MessageSource::Human);
        }
        "assistant" => {
            let mut parts = answer_parts(content);
            let failure = some_text(message, "errorMessage");
            parts.extend(failure.map(|message| Part::Error {
                code: "provider_error".to_owned(),
                message: message.to_owned(),
                provider_id: Some("pi".to_owned()),
            }));
            turns.answer(mark, parts, some_text(message, "model"));
            match text(message, "stopReason") {
                Some("aborted") => turns.ended(Status::Cancelled),
                Some("error") => turns.ended(Status::Failed),
                _ => {}
            }
            if let Some(usage) = message.get("usage") {
                turns.usage(&usage_of(usage));
            }
        }
        "toolResult" => {
            let call = text(message, "toolCallId").unwrap_or_default();
            let is_error = message.get("isError").and_then(Value::as_bool) == Some(true);
            turns.result(mark, call, flat_text(content).into_bytes(), is_error);
        }
        role => turns.verbatim(mark, &format!("message.{role}"), raw, Verbatim::Housekeeping),
    }
}

fn usage_of(usage: &Value) -> Usage {
    let (fresh, read) = (number(usage, "input"), number(usage, "cacheRead"));
    let written = number(usage, "cacheWrite");
    let cost = usage.pointer("/cost/total").and_then(Value::as_f64).filter(|cost| *cost > 0.0);
    Usage {
        input_tokens: [fresh, read, written].into_iter().flatten().reduce(u64::saturating_add),
        output_tokens: number(usage, "output"),
        cached_tokens: read,
        cost: cost.map(|cost| cost.to_string()),
        scope: "turn".to_owned(),
        last_input_tokens: None,
    }
}

fn user_parts(turns: &mut Assembler, content: &Value) -> Vec<Part> {
    let part = |part: &Value, turns: &mut Assembler| match text(part, "type")? {
        "text" => Some(Part::Text { text: text(part, "text")?.to_owned() }),
        "image" => {
            let bytes = STANDARD.decode(text(part, "data")?).ok()?;
            Some(turns.image(text(part, "mimeType").unwrap_or("image/png"), bytes))
        }
        _ => Some(Part::Text { text: part.to_string() }),
    };
    match content {
        Value::String(text) => vec![Part::Text { text: text.clone() }],
        Value::Array(parts) => parts.iter().filter_map(|one| part(one, turns)).collect(),
        _ => Vec::new(),
    }
}

fn answer_parts(content: &Value) -> Vec<Part> {
    let part = |part: &Value| {
        Some(match text(part, "type")? {
            "text" => Part::Text { text: text(part, "text")?.to_owned() },
            "toolCall" => Part::ToolCall {
                id: text(part, "id").unwrap_or_default().to_owned(),
                name: text(part, "name").unwrap_or("tool").to_owned(),
                params: part.get("arguments").cloned().unwrap_or(Value::Null),
                status: ToolStatus::Unknown,
            },
            _ => Part::Thought {
                text: text(part, "thinking").unwrap_or_default().to_owned(),
                raw: Some(part.clone()),
            },
        })
    };
    match content {
        Value::String(text) => vec![Part::Text { text: text.clone() }],
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}
