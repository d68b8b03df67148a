//! Sessions of OpenCode: rows of its database `opencode.db`. A session with a parent is a worker.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::{Status, Usage};
use serde_json::Value;

use super::assembler::{Mark, Parent, Verbatim};
use super::fields::{number, some_text, text};
use super::reading::{Conversation, Reading};
use super::sources::SourcePart;
use super::sqlite_file::{SqliteFile, column_number, column_text};
use super::{Environment, Source, Tool};

pub(super) struct OpenCode;

impl Tool for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        environment.data_home().map(|data| data.join("opencode")).into_iter().collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == "opencode.db")
    }

    fn parts(&self, path: &Path) -> io::Result<Option<Vec<SourcePart>>> {
        let database = SqliteFile::open(path)?;
        let mut parts = Vec::new();
        database.each("SELECT id, time_updated FROM session ORDER BY id", &[], |row| {
            let id = column_text(row, "id").unwrap_or_default();
            parts.push(SourcePart { id, updated: column_number(row, "time_updated") });
            Ok(())
        })?;
        Ok(Some(parts))
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        let database = SqliteFile::open(&source.path)?;
        let session = source.part.clone().unwrap_or_default();
        let mut parent = None;
        database.each("SELECT * FROM session WHERE id = ?1", &[&session], |row| {
            let facts = &mut into.main.facts;
            facts.id = session.clone();
            facts.title = column_text(row, "title");
            facts.archived = column_number(row, "time_archived").is_some();
            let at = column_number(row, "time_created").map(Timestamp);
            facts.note(column_text(row, "directory").as_deref(), None, at);
            facts.updated_at = column_number(row, "time_updated").map(Timestamp);
            parent = column_text(row, "parent_id");
            Ok(())
        })?;
        if let Some(parent) = &parent {
            into.main.facts.id.clone_from(parent);
        }
        let messages = "SELECT id, data, time_created FROM message WHERE session_id = ?1
                        ORDER BY time_created, id";
        database.each(messages, &[&session], |row| {
            let id = column_text(row, "id").unwrap_or_default();
            let raw = column_text(row, "data").unwrap_or_default();
            let at = column_number(row, "time_created").map(Timestamp);
            let parts = parts_of(&database, &id)?;
            match serde_json::from_str::<Value>(&raw) {
                Ok(data) => {
                    let conversation = match &parent {
                        Some(_) => into.worker(&session),
                        None => &mut into.main,
                    };
                    message(&id, &data, &raw, at, &parts, conversation);
                }
                Err(error) => into.problem(0, format!("message {id} is not valid JSON: {error}")),
            }
            into.pass_on()
        })
    }
}

/// A part of a message: its id, its data and the text of the data.
type StoredPart = (String, Value, String);

fn parts_of(database: &SqliteFile, message: &str) -> io::Result<Vec<StoredPart>> {
    let mut parts = Vec::new();
    database.each(
        "SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id",
        &[message],
        |row| {
            let raw = column_text(row, "data").unwrap_or_default();
            if let Ok(data) = serde_json::from_str(&raw) {
                parts.push((column_text(row, "id").unwrap_or_default(), data, raw));
            }
            Ok(())
        },
    )?;
    Ok(parts)
}

fn message(
    id: &str,
    data: &Value,
    raw: &str,
    at: Option<Timestamp>,
    parts: &[StoredPart],
    into: &mut Conversation,
) {
    let mark = Mark { id, parent: Parent::Previous, at };
    match text(data, "role") {
        Some("user") => user(mark, parts, into),
        Some("assistant") if data.get("summary").and_then(Value::as_bool) == Some(true) => {
            let summary: Vec<&str> =
                parts.iter().filter_map(|(_, part, _)| text(part, "text")).collect();
            into.turns.compaction(mark, &summary.join("\n"), None);
        }
        Some("assistant") => assistant(mark, data, parts, into),
        role => into.turns.verbatim(mark, role.unwrap_or("message"), raw, Verbatim::Unknown),
    }
}

fn user(mark: Mark<'_>, parts: &[StoredPart], into: &mut Conversation) {
    let mut content = Vec::new();
    for (id, part, raw) in parts {
        let synthetic = part.get("synthetic").and_then(Value::as_bool) == Some(true);
        match text(part, "type").unwrap_or_default() {
            "text" if !synthetic => {
                let words = text(part, "text").unwrap_or_default();
                into.facts.note_prompt(words);
                content.push(Part::Text { text: words.to_owned() });
            }
            "file" if some_text(part, "url").is_some_and(|url| url.contains(";base64,")) => {
                let data = text(part, "url").and_then(|url| url.split_once(";base64,"));
                let bytes = data.and_then(|(_, data)| STANDARD.decode(data).ok());
                let media_type = text(part, "mime").unwrap_or("image/png");
                content.extend(bytes.map(|bytes| into.turns.image(media_type, bytes)));
            }
            kind => {
                let mark = Mark { id, ..mark };
                into.turns.verbatim(mark, &format!("part.{kind}"), raw, Verbatim::Housekeeping);
            }
        }
    }
    if !content.is_empty() {
        into.turns.prompt(mark, content, MessageSource::Human);
    }
}

fn assistant(mark: Mark<'_>, data: &Value, parts: &[StoredPart], into: &mut Conversation) {
    let model = some_text(data, "modelID");
    for (id, part, raw) in parts {
        let mark = Mark { id, ..mark };
        match text(part, "type").unwrap_or_default() {
            "text" => {
                let text = text(part, "text").unwrap_or_default().to_owned();
                into.turns.answer(mark, vec![Part::Text { text }], model);
            }
            "reasoning" => {
                let text = text(part, "text").unwrap_or_default().to_owned();
                let thought = Part::Thought { text, raw: Some(part.clone()) };
                into.turns.answer(mark, vec![thought], model);
            }
            "tool" => tool_call(mark, part, model, into),
            kind => {
                into.turns.verbatim(mark, &format!("part.{kind}"), raw, Verbatim::Housekeeping);
            }
        }
    }
    if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
        let message = error.pointer("/data/message").and_then(Value::as_str);
        let id = format!("{} error", mark.id);
        let part = Part::Error {
            code: text(error, "name").unwrap_or("provider_error").to_owned(),
            message: message.map_or_else(|| error.to_string(), str::to_owned),
            provider_id: Some("opencode".to_owned()),
        };
        into.turns.answer(Mark { id: &id, ..mark }, vec![part], model);
        let aborted = text(error, "name") == Some("MessageAbortedError");
        into.turns.ended(if aborted { Status::Cancelled } else { Status::Failed });
    }
    if let Some(tokens) = data.get("tokens") {
        into.turns.usage(&usage(tokens, data));
    }
}

fn tool_call(mark: Mark<'_>, part: &Value, model: Option<&str>, into: &mut Conversation) {
    let state = part.get("state").unwrap_or(&Value::Null);
    let call = text(part, "callID").unwrap_or(mark.id).to_owned();
    let params = state.get("input").cloned().unwrap_or(Value::Null);
    let name = text(part, "tool").unwrap_or("tool").to_owned();
    let part = Part::ToolCall { id: call.clone(), name, params, status: ToolStatus::Unknown };
    into.turns.answer(mark, vec![part], model);
    let (output, is_error) = match text(state, "status") {
        Some("completed") => (text(state, "output").unwrap_or_default(), false),
        Some("error") => (text(state, "error").unwrap_or_default(), true),
        _ => return,
    };
    let id = format!("{} result", mark.id);
    let end = state.pointer("/time/end").and_then(Value::as_i64).map(Timestamp);
    let mark = Mark { id: &id, parent: Parent::Previous, at: end.or(mark.at) };
    into.turns.result(mark, &call, output.as_bytes().to_vec(), is_error);
}

fn usage(tokens: &Value, data: &Value) -> Usage {
    let cache = tokens.get("cache").unwrap_or(&Value::Null);
    let (fresh, read) = (number(tokens, "input"), number(cache, "read"));
    let counts = [fresh, read, number(cache, "write")];
    let cost = data.get("cost").and_then(Value::as_f64).filter(|cost| *cost > 0.0);
    Usage {
        input_tokens: counts.into_iter().flatten().reduce(u64::saturating_add),
        output_tokens: number(tokens, "output"),
        cached_tokens: read,
        cost: cost.map(|cost| cost.to_string()),
        scope: "turn".to_owned(),
        last_input_tokens: None,
    }
}
