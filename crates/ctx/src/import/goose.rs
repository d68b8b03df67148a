//! Sessions of Goose: rows of `sessions/sessions.db`, and the JSON lines of older versions.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::time::Timestamp;
use serde_json::Value;

use super::assembler::{Mark, Parent, Verbatim};
use super::fields::{flat_text, some_text, text};
use super::lines::{Line, Lines};
use super::reading::{Conversation, Reading};
use super::sources::SourcePart;
use super::sqlite_file::{SqliteFile, column_number, column_text};
use super::{Environment, Source, Tool};

const DATABASE: &str = "sessions.db";

pub(super) struct Goose;

impl Tool for Goose {
    fn name(&self) -> &'static str {
        "goose"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let root = environment.dir("GOOSE_PATH_ROOT").map(|root| root.join("data"));
        let data = root.or_else(|| environment.data_home().map(|data| data.join("goose")));
        data.map(|data| data.join("sessions")).into_iter().collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == DATABASE)
            || path.extension().is_some_and(|end| end == "jsonl")
    }

    fn parts(&self, path: &Path) -> io::Result<Option<Vec<SourcePart>>> {
        if path.extension().is_some_and(|end| end == "jsonl") {
            return Ok(None);
        }
        let database = SqliteFile::open(path)?;
        let mut parts = Vec::new();
        let sessions = "SELECT s.id, (SELECT MAX(m.id) FROM messages m WHERE m.session_id = s.id)
                        AS newest FROM sessions s ORDER BY s.id";
        database.each(sessions, &[], |row| {
            let id = column_text(row, "id").unwrap_or_default();
            parts.push(SourcePart { id, updated: column_number(row, "newest") });
            Ok(())
        })?;
        Ok(Some(parts))
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        match &source.part {
            Some(session) => read_rows(source, session, into),
            None => read_lines(source, into),
        }
    }
}

fn read_rows(source: &Source, session: &str, into: &mut Reading<'_>) -> io::Result<()> {
    let database = SqliteFile::open(&source.path)?;
    let mut model = None;
    database.each("SELECT * FROM sessions WHERE id = ?1", &[session], |row| {
        let facts = &mut into.main.facts;
        session.clone_into(&mut facts.id);
        let title = column_text(row, "name").filter(|name| !name.is_empty());
        facts.title = title.or_else(|| column_text(row, "description")).filter(|t| !t.is_empty());
        facts.archived = column_text(row, "archived_at").is_some();
        let at = column_text(row, "created_at").and_then(|text| sql_time(&text));
        facts.note(column_text(row, "working_dir").as_deref(), None, at);
        let config = column_text(row, "model_config_json");
        let config = config.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        model = config.and_then(|config| some_text(&config, "model_name").map(str::to_owned));
        Ok(())
    })?;
    let has_id = database.columns("messages")?.iter().any(|column| column == "message_id");
    let id = if has_id { "COALESCE(message_id, 'row ' || id)" } else { "'row ' || id" };
    let messages = format!(
        "SELECT {id} AS name, role, content_json, created_timestamp FROM messages
         WHERE session_id = ?1 ORDER BY id"
    );
    database.each(&messages, &[session], |row| {
        let raw = column_text(row, "content_json").unwrap_or_default();
        let id = column_text(row, "name").unwrap_or_default();
        let at = column_number(row, "created_timestamp").map(seconds);
        let role = column_text(row, "role").unwrap_or_default();
        match serde_json::from_str::<Value>(&raw) {
            Ok(content) => {
                let mark = Mark { id: &id, parent: Parent::Previous, at };
                message(mark, &role, &content, &raw, model.as_deref(), &mut into.main);
            }
            Err(error) => into.problem(0, format!("message {id} is not valid JSON: {error}")),
        }
        into.pass_on()
    })
}

/// The first line has the facts, each further line a message.
fn read_lines(source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
    let mut lines = Lines::open(&source.path)?;
    while let Some(line) = lines.next_line()? {
        match line {
            Line::Bad { number, why } => into.problem(number, why),
            Line::Text { number, text: raw } => match serde_json::from_str::<Value>(raw) {
                Ok(record) if record.get("role").is_none() => {
                    into.main.facts.title = some_text(&record, "description").map(str::to_owned);
                    into.main.facts.note(some_text(&record, "working_dir"), None, None);
                }
                Ok(record) => {
                    let name = format!("line {number}");
                    let id = some_text(&record, "id").unwrap_or(&name);
                    let at = record.get("created").and_then(Value::as_i64).map(seconds);
                    into.main.facts.note(None, None, at);
                    let mark = Mark { id, parent: Parent::Previous, at };
                    let content = record.get("content").unwrap_or(&Value::Null);
                    let role = text(&record, "role").unwrap_or_default();
                    message(mark, role, content, raw, None, &mut into.main);
                }
                Err(error) => into.problem(number, format!("not valid JSON: {error}")),
            },
        }
        into.pass_on()?;
    }
    Ok(())
}

/// A time in seconds; newer versions store milliseconds.
const fn seconds(time: i64) -> Timestamp {
    const MILLISECONDS_FROM: i64 = 100_000_000_000;
    Timestamp(if time < MILLISECONDS_FROM { time * 1000 } else { time })
}

/// A time as SQLite writes it, `2026-05-06 18:02:43`, or in RFC 3339.
fn sql_time(text: &str) -> Option<Timestamp> {
    let text = text.replacen(' ', "T", 1);
    let text = if text.ends_with('Z') || text.contains('+') { text } else { format!("{text}Z") };
    text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp(at.as_millisecond()))
}

fn message(
    mark: Mark<'_>,
    role: &str,
    content: &Value,
    raw: &str,
    model: Option<&str>,
    into: &mut Conversation,
) {
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    let mut kept = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        match text(part, "type").unwrap_or_default() {
            "toolResponse" => {
                let result = part.get("toolResult").unwrap_or(&Value::Null);
                let is_error = text(result, "status") == Some("error");
                let output = result_text(result);
                let id = format!("{} {n}", mark.id);
                let call = text(part, "id").unwrap_or_default();
                into.turns.result(Mark { id: &id, ..mark }, call, output.into_bytes(), is_error);
            }
            "toolRequest" | "frontendToolRequest" => {
                let call = part.pointer("/toolCall/value").unwrap_or(&Value::Null);
                kept.push(Part::ToolCall {
                    id: text(part, "id").unwrap_or_default().to_owned(),
                    name: text(call, "name").unwrap_or("tool").to_owned(),
                    params: call.get("arguments").cloned().unwrap_or(Value::Null),
                    status: ToolStatus::Unknown,
                });
            }
            "thinking" | "redactedThinking" => kept.push(Part::Thought {
                text: text(part, "thinking").unwrap_or_default().to_owned(),
                raw: Some(part.clone()),
            }),
            "image" => {
                let bytes = text(part, "data").and_then(|data| STANDARD.decode(data).ok());
                let media_type = text(part, "mimeType").unwrap_or("image/png");
                kept.extend(bytes.map(|bytes| into.turns.image(media_type, bytes)));
            }
            "text" => {
                kept.push(Part::Text { text: text(part, "text").unwrap_or_default().to_owned() });
            }
            _ => kept.push(Part::Thought { text: String::new(), raw: Some(part.clone()) }),
        }
    }
    let words = flat_text(content);
    match role {
        _ if kept.is_empty() => {}
        "user" => {
            into.facts.note_prompt(&words);
            into.turns.prompt(mark, kept, MessageSource::Human);
        }
        "assistant" => into.turns.answer(mark, kept, model),
        role => into.turns.verbatim(mark, role, raw, Verbatim::Unknown),
    }
}

fn result_text(result: &Value) -> String {
    let value = result.get("value").unwrap_or(&Value::Null);
    let parts = if value.is_array() { value } else { value.get("content").unwrap_or(value) };
    if let Some(error) = some_text(result, "error") {
        return error.to_owned();
    }
    // A result with an image or a resource is kept as it is written.
    flat_text(parts)
}
