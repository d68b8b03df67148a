//! Sessions of Gemini CLI: `tmp/PROJECT/chats/session-TIME-ID.jsonl`.
//!
//! A file starts with a header. A line is a message, a change of the header's fields, or a way back
//! to an earlier message. A message that changes is written again, whole. Tool calls are recorded
//! with their results; the message that follows repeats the results.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::Usage;
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{flat_text, list, number, some_text, text, time};
use super::lines::{Line, Lines};
use super::reading::Reading;
use super::{Environment, Source, Tool};

pub(super) struct GeminiCli;

impl Tool for GeminiCli {
    fn name(&self) -> &'static str {
        "gemini-cli"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let home = environment.dir("GEMINI_CLI_HOME").map(|home| home.join(".gemini"));
        let home = home.or_else(|| environment.in_home(".gemini"));
        home.map(|home| home.join("tmp")).into_iter().collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("session-") && (name.ends_with(".jsonl") || name.ends_with(".json"))
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        into.main.facts.working_dir = working_dir(&source.path);
        if source.path.extension().is_some_and(|end| end == "json") {
            return read_document(source, into);
        }
        let newest = newest_lines(&source.path)?;
        into.each_record(&source.path, |into, record, text, line| {
            let id = some_text(record, "id").unwrap_or_default();
            if newest.get(id).is_none_or(|newest| *newest <= line) {
                add(record, text, line, into);
            }
        })
    }
}

/// The line with the newest form of each message.
fn newest_lines(path: &Path) -> io::Result<HashMap<String, u64>> {
    let mut newest = HashMap::new();
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        if let Line::Text { number, text } = line
            && let Ok(record) = serde_json::from_str::<Value>(text)
            && let Some(id) = some_text(&record, "id")
        {
            newest.insert(id.to_owned(), number);
        }
    }
    Ok(newest)
}

/// Older versions write one JSON document with all messages.
fn read_document(source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
    let bytes = std::fs::read(&source.path)?;
    let document: Value = match serde_json::from_slice(&bytes) {
        Ok(document) => document,
        Err(error) => {
            into.problem(0, format!("not valid JSON: {error}"));
            return Ok(());
        }
    };
    add(&document, "", 1, into);
    for (n, message) in list(&document, "messages").iter().enumerate() {
        add(message, &message.to_string(), n as u64 + 2, into);
        into.pass_on()?;
    }
    Ok(())
}

/// The directory of a project, from the list beside the sessions.
fn working_dir(session: &Path) -> Option<String> {
    let project = session.parent()?.parent()?;
    if let Ok(root) = std::fs::read_to_string(project.join(".project_root")) {
        return Some(root.trim().to_owned());
    }
    let list = std::fs::read(project.parent()?.parent()?.join("projects.json")).ok()?;
    let list: Value = serde_json::from_slice(&list).ok()?;
    let name = project.file_name()?.to_str()?;
    let projects = list.get("projects")?.as_object()?;
    projects.iter().find(|(_, short)| short.as_str() == Some(name)).map(|(dir, _)| dir.clone())
}

fn add(record: &Value, raw: &str, line: u64, into: &mut Reading<'_>) {
    let number = format!("line {line}");
    let mark = Mark {
        id: some_text(record, "id").unwrap_or(&number),
        parent: Parent::Previous,
        at: time(record, "timestamp").or_else(|| time(record, "startTime")),
    };
    into.main.facts.note(None, None, mark.at);
    if let Some(id) = some_text(record, "sessionId") {
        into.main.facts.id = id.to_owned();
        if !raw.is_empty() {
            into.main.turns.verbatim(mark, "session", raw, Verbatim::Housekeeping);
        }
        return;
    }
    if let Some(changed) = record.get("$set") {
        if let Some(summary) = some_text(changed, "summary") {
            into.main.facts.title = Some(summary.to_owned());
        }
        return into.main.turns.verbatim(mark, "set", raw, Verbatim::Housekeeping);
    }
    if let Some(id) = some_text(record, "$rewindTo") {
        into.main.turns.rewind_before(id);
        return into.main.turns.verbatim(mark, "rewind", raw, Verbatim::Housekeeping);
    }
    match text(record, "type").unwrap_or_default() {
        "user" => user(record, raw, mark, into),
        "gemini" => answer(record, mark, into),
        kind @ ("info" | "error" | "warning") => {
            into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        _ => into.main.turns.verbatim(mark, "record", raw, Verbatim::Unknown),
    }
}

fn user(record: &Value, raw: &str, mark: Mark<'_>, into: &mut Reading<'_>) {
    let content = record.get("content").unwrap_or(&Value::Null);
    let words = flat_text(content);
    let is_response = content
        .as_array()
        .is_some_and(|parts| parts.iter().any(|part| part.get("functionResponse").is_some()));
    if is_response || words.starts_with("<session_context>") {
        return into.main.turns.verbatim(mark, "user", raw, Verbatim::Housekeeping);
    }
    let parts = user_parts(&mut into.main.turns, content);
    let words = parts.iter().find_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    into.main.facts.note_prompt(words.unwrap_or_default());
    into.main.turns.prompt(mark, parts, MessageSource::Human);
}

fn user_parts(turns: &mut Assembler, content: &Value) -> Vec<Part> {
    match content {
        Value::Array(parts) => parts.iter().map(|part| user_part(turns, part)).collect(),
        other => vec![Part::Text { text: flat_text(other) }],
    }
}

fn user_part(turns: &mut Assembler, part: &Value) -> Part {
    if let Some(image) = part.get("inlineData")
        && let Some(Ok(bytes)) = text(image, "data").map(|data| STANDARD.decode(data))
    {
        return turns.image(text(image, "mimeType").unwrap_or("image/png"), bytes);
    }
    // Other content has no counterpart; the text keeps it.
    let text = text(part, "text").map_or_else(|| part.to_string(), str::to_owned);
    Part::Text { text }
}

fn answer(record: &Value, mark: Mark<'_>, into: &mut Reading<'_>) {
    let turns = &mut into.main.turns;
    let mut parts: Vec<Part> = list(record, "thoughts")
        .iter()
        .map(|thought| Part::Thought {
            text: [text(thought, "subject"), text(thought, "description")]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("\n"),
            raw: Some(thought.clone()),
        })
        .collect();
    let words = flat_text(record.get("content").unwrap_or(&Value::Null));
    if !words.is_empty() {
        parts.push(Part::Text { text: words });
    }
    let calls = list(record, "toolCalls");
    parts.extend(calls.iter().map(|call| Part::ToolCall {
        id: text(call, "id").unwrap_or_default().to_owned(),
        name: text(call, "name").unwrap_or("tool").to_owned(),
        params: call.get("args").cloned().unwrap_or(Value::Null),
        status: ToolStatus::Unknown,
    }));
    turns.answer(mark, parts, some_text(record, "model"));
    for call in calls {
        let id = text(call, "id").unwrap_or_default();
        let Some(result) = call.get("result") else { continue };
        let name = format!("{} result {id}", mark.id);
        let at = time(call, "timestamp").or(mark.at);
        let place = Mark { id: &name, parent: Parent::Previous, at };
        let is_error = !matches!(text(call, "status"), None | Some("success"));
        turns.result(place, id, result_text(result).into_bytes(), is_error);
    }
    if let Some(tokens) = record.get("tokens") {
        turns.usage(&Usage {
            input_tokens: number(tokens, "input"),
            output_tokens: number(tokens, "output"),
            cached_tokens: number(tokens, "cached"),
            cost: None,
            scope: "turn".to_owned(),
            last_input_tokens: None,
        });
    }
}

/// The outputs of function responses.
pub(super) fn result_text(result: &Value) -> String {
    let output = |part: &Value| {
        let response = part.pointer("/functionResponse/response")?;
        let text = some_text(response, "output").or_else(|| some_text(response, "error"));
        Some(text.map_or_else(|| response.to_string(), str::to_owned))
    };
    match result {
        Value::Array(parts) => {
            let texts: Vec<String> =
                parts.iter().map(|part| output(part).unwrap_or_else(|| flat_text(part))).collect();
            texts.join("\n")
        }
        other => output(other).unwrap_or_else(|| flat_text(other)),
    }
}
