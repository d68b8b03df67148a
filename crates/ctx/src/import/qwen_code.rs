//! Sessions of Qwen Code: `projects/DIRECTORY/chats/SESSION.jsonl`. Records name their parents.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::Usage;
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{list, number, some_text, text, time};
use super::gemini_cli::result_text;
use super::reading::Reading;
use super::{Environment, Source, Tool};

pub(super) struct QwenCode;

impl Tool for QwenCode {
    fn name(&self) -> &'static str {
        "qwen-code"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let home = environment.dir("QWEN_HOME").or_else(|| environment.in_home(".qwen"));
        home.map(|home| home.join("projects")).into_iter().collect()
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
    let mark = Mark {
        id: some_text(record, "uuid").unwrap_or(&number),
        parent: match record.get("parentUuid") {
            Some(Value::String(id)) => Parent::Record(id),
            Some(Value::Null) => Parent::Root,
            _ => Parent::Previous,
        },
        at: time(record, "timestamp"),
    };
    let facts = &mut into.main.facts;
    facts.note(some_text(record, "cwd"), some_text(record, "gitBranch"), mark.at);
    if let Some(id) = some_text(record, "sessionId") {
        facts.id = id.to_owned();
    }
    let parts = record.pointer("/message/parts").and_then(Value::as_array);
    let parts = parts.map_or(&[][..], Vec::as_slice);
    match text(record, "type").unwrap_or_default() {
        "user" => user(parts, mark, into),
        "assistant" => {
            let answer = parts.iter().filter_map(answer_part).collect();
            into.main.turns.answer(mark, answer, some_text(record, "model"));
            if let Some(usage) = record.get("usageMetadata") {
                into.main.turns.usage(&usage_of(usage));
            }
        }
        "tool_result" => results(record, parts, mark, into),
        "system" => system(record, raw, mark, into),
        kind => into.main.turns.verbatim(mark, kind, raw, Verbatim::Unknown),
    }
}

fn user(parts: &[Value], mark: Mark<'_>, into: &mut Reading<'_>) {
    let turns = &mut into.main.turns;
    let content: Vec<Part> = parts.iter().filter_map(|part| user_part(turns, part)).collect();
    let words: Vec<&str> = parts.iter().filter_map(|part| text(part, "text")).collect();
    into.main.facts.note_prompt(&words.join("\n"));
    into.main.turns.prompt(mark, content, MessageSource::Human);
}

fn user_part(turns: &mut Assembler, part: &Value) -> Option<Part> {
    if let Some(text) = text(part, "text") {
        return Some(Part::Text { text: text.to_owned() });
    }
    let image = part.get("inlineData")?;
    let bytes = STANDARD.decode(text(image, "data")?).ok()?;
    Some(turns.image(text(image, "mimeType").unwrap_or("image/png"), bytes))
}

fn answer_part(part: &Value) -> Option<Part> {
    if let Some(call) = part.get("functionCall") {
        return Some(Part::ToolCall {
            id: text(call, "id").unwrap_or_default().to_owned(),
            name: text(call, "name").unwrap_or("tool").to_owned(),
            params: call.get("args").cloned().unwrap_or(Value::Null),
            status: ToolStatus::Unknown,
        });
    }
    let words = text(part, "text").unwrap_or_default();
    if part.get("thought").and_then(Value::as_bool) == Some(true) {
        return Some(Part::Thought { text: words.to_owned(), raw: Some(part.clone()) });
    }
    (!words.is_empty()).then(|| Part::Text { text: words.to_owned() })
}

fn usage_of(usage: &Value) -> Usage {
    Usage {
        input_tokens: number(usage, "promptTokenCount"),
        output_tokens: number(usage, "candidatesTokenCount"),
        cached_tokens: number(usage, "cachedContentTokenCount"),
        cost: None,
        scope: "turn".to_owned(),
        last_input_tokens: None,
    }
}

fn results(record: &Value, parts: &[Value], mark: Mark<'_>, into: &mut Reading<'_>) {
    let status = record.pointer("/toolCallResult/status").and_then(Value::as_str);
    let is_error = !matches!(status, None | Some("success"));
    for (n, part) in parts.iter().enumerate() {
        let id = format!("{} {n}", mark.id);
        let mark = if n == 0 { mark } else { Mark { id: &id, ..mark } };
        let call = part.pointer("/functionResponse/id").and_then(Value::as_str);
        let call = call.unwrap_or_default();
        into.main.turns.result(mark, call, result_text(part).into_bytes(), is_error);
    }
}

fn system(record: &Value, raw: &str, mark: Mark<'_>, into: &mut Reading<'_>) {
    let kind = text(record, "subtype").unwrap_or("system");
    let payload = record.get("systemPayload").unwrap_or(&Value::Null);
    match kind {
        "chat_compression" => {
            let history = list(payload, "compressedHistory");
            let summary = history.iter().find_map(|entry| {
                let parts = entry.get("parts")?.as_array()?;
                parts.iter().find_map(|part| some_text(part, "text"))
            });
            let before = payload.pointer("/info/originalTokenCount").and_then(Value::as_u64);
            into.main.turns.compaction(mark, summary.unwrap_or_default(), before);
        }
        "custom_title" => {
            let title = some_text(payload, "customTitle").or_else(|| some_text(payload, "title"));
            into.main.facts.title = title.map(str::to_owned);
            into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        _ => into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping),
    }
}
