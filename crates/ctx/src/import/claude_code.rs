//! Sessions of Claude Code: `projects/DIRECTORY/SESSION.jsonl` in its configuration directory.
//!
//! A record names its parent, so a file contains a tree. Records of a subagent are marked as
//! `isSidechain`; newer versions write them to files of their own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::{Status, Usage};
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{flat_text, list, number, some_text, text, time};
use super::reading::{Conversation, Reading};
use super::{Environment, Source, Tool};

/// Types of records that concern the program and not the conversation.
const HOUSEKEEPING: [&str; 13] = [
    "queue-operation",
    "last-prompt",
    "cost-state",
    "atis-latch",
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "tools-used",
    "mode",
    "file-history-snapshot",
    "ai-title",
    "custom-title",
    "summary",
];
/// Fields that repeat the result of a tool, which the message of the record contains.
const UNUSED: [&str; 1] = ["toolUseResult"];
/// The main conversation among those of workers.
const MAIN: &str = "";
/// The text with which Claude Code records that the user stopped a request.
const INTERRUPTED: &str = "[Request interrupted by user";
/// The beginning of a text that Claude Code adds for the model.
const REMINDER: &str = "<system-reminder>";

pub(super) struct ClaudeCode;

impl Tool for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let home = environment.dir("CLAUDE_CONFIG_DIR").or_else(|| environment.in_home(".claude"));
        home.map(|home| home.join("projects")).into_iter().collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|end| end == "jsonl")
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        let mut usages: BTreeMap<String, UsageOfMessage> = BTreeMap::new();
        into.each_record_without(&source.path, &UNUSED, |into, record, text, line| {
            add(record, text, line, into, &mut usages);
        })?;
        for (worker, usage) in &mut usages {
            let main = worker == MAIN;
            usage.pass_on(if main { &mut into.main.turns } else { &mut into.worker(worker).turns });
        }
        Ok(())
    }
}

/// The usage of the message that is read. Each record of a message repeats it.
#[derive(Default)]
struct UsageOfMessage {
    message: String,
    usage: Option<Usage>,
    /// Whether a result of a tool followed the message.
    has_result: bool,
}

impl UsageOfMessage {
    fn pass_on(&mut self, turns: &mut Assembler) {
        if let Some(usage) = self.usage.take() {
            turns.usage(&usage);
        }
        self.message.clear();
    }

    /// Notes that a request was sent. Newer versions record it. If results were sent with it, the
    /// response is another one, even if its id is the same.
    fn note_request(&mut self, turns: &mut Assembler) {
        if self.has_result {
            self.pass_on(turns);
        }
    }

    fn note(&mut self, message: &Value, record: &Value, turns: &mut Assembler) {
        self.has_result = false;
        let id = text(message, "id").unwrap_or_default();
        if id.is_empty() || id != self.message {
            self.pass_on(turns);
            id.clone_into(&mut self.message);
        }
        let Some(counts) = message.get("usage") else { return };
        let fresh = number(counts, "input_tokens");
        let written = number(counts, "cache_creation_input_tokens");
        let cached = number(counts, "cache_read_input_tokens");
        let input = [fresh, written, cached].into_iter().flatten().reduce(u64::saturating_add);
        self.usage = Some(Usage {
            input_tokens: input,
            output_tokens: number(counts, "output_tokens"),
            cached_tokens: cached,
            cost: record.get("costUSD").and_then(Value::as_f64).map(|cost| cost.to_string()),
            scope: "turn".to_owned(),
            last_input_tokens: None,
        });
    }
}

fn add(
    record: &Value,
    raw: &str,
    line: u64,
    into: &mut Reading<'_>,
    usages: &mut BTreeMap<String, UsageOfMessage>,
) {
    let number = format!("line {line}");
    let kind = text(record, "type").unwrap_or("record");
    if let Some(id) = some_text(record, "sessionId")
        && into.main.turns.turns() == 0
        && into.main.facts.first_prompt.is_none()
    {
        into.main.facts.id = id.to_owned();
    }
    let is_worker = record.get("isSidechain").and_then(Value::as_bool) == Some(true);
    let worker = text(record, "agentId").unwrap_or("sidechain");
    let (conversation, name) =
        if is_worker { (into.worker(worker), worker) } else { (&mut into.main, MAIN) };
    let usage = usages.entry(name.to_owned()).or_default();
    let mark = Mark {
        id: some_text(record, "uuid").unwrap_or(&number),
        parent: parent(record, kind),
        at: time(record, "timestamp"),
    };
    note_facts(conversation, record, kind, mark);
    if kind == "api-request" {
        usage.note_request(&mut conversation.turns);
    }
    match kind {
        "user" => user(conversation, record, raw, mark, usage),
        "assistant" => assistant(conversation, record, mark, usage),
        "attachment" => attachment(conversation, record, raw, mark),
        "system" if text(record, "subtype") == Some("compact_boundary") => {
            conversation.turns.verbatim(mark, "compact_boundary", raw, Verbatim::Housekeeping);
        }
        _ => {
            let known = HOUSEKEEPING.contains(&kind) || kind == "system";
            let how = if known { Verbatim::Housekeeping } else { Verbatim::Unknown };
            conversation.turns.verbatim(mark, kind, raw, how);
        }
    }
}

fn parent<'a>(record: &'a Value, kind: &str) -> Parent<'a> {
    match record.get("parentUuid") {
        Some(Value::String(id)) => Parent::Record(id),
        Some(Value::Null) if kind != "system" => Parent::Root,
        _ => some_text(record, "logicalParentUuid").map_or(Parent::Previous, Parent::Record),
    }
}

fn note_facts(conversation: &mut Conversation, record: &Value, kind: &str, mark: Mark<'_>) {
    let branch = some_text(record, "gitBranch");
    let known = conversation.facts.git_branch.clone();
    conversation.facts.note(some_text(record, "cwd"), branch, mark.at);
    if let Some(branch) = branch.filter(|branch| known.as_deref() != Some(branch)) {
        let id = format!("{} git branch", mark.id);
        let note = Mark { id: &id, parent: Parent::Previous, at: mark.at };
        conversation.turns.verbatim(note, "git_branch", branch, Verbatim::Housekeeping);
    }
    let title = match kind {
        "summary" => some_text(record, "summary"),
        "ai-title" => some_text(record, "aiTitle").or_else(|| some_text(record, "title")),
        "custom-title" => some_text(record, "customTitle").or_else(|| some_text(record, "title")),
        _ => None,
    };
    if let Some(title) = title {
        conversation.facts.title = Some(title.to_owned());
    }
}

fn user(
    conversation: &mut Conversation,
    record: &Value,
    raw: &str,
    mark: Mark<'_>,
    usage: &mut UsageOfMessage,
) {
    let turns = &mut conversation.turns;
    let content = record.pointer("/message/content").unwrap_or(&Value::Null);
    let flag = |name: &str| record.get(name).and_then(Value::as_bool) == Some(true);
    if flag("isCompactSummary") {
        usage.pass_on(turns);
        return turns.compaction(mark, &flat_text(content), None);
    }
    let results: Vec<&Value> = content
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter(|part| text(part, "type") == Some("tool_result"))
        .collect();
    if !results.is_empty() {
        for (n, part) in results.iter().enumerate() {
            let id = format!("{} {n}", mark.id);
            let mark = if n == 0 { mark } else { Mark { id: &id, ..mark } };
            let call = text(part, "tool_use_id").unwrap_or_default();
            let is_error = part.get("is_error").and_then(Value::as_bool) == Some(true);
            let result = part.get("content").map(flat_text).unwrap_or_default();
            turns.result(mark, call, result.into_bytes(), is_error);
        }
        usage.has_result = true;
        return text_beside_results(turns, content, mark);
    }
    let parts = user_parts(turns, content);
    let words = parts.iter().find_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let words = words.unwrap_or_default();
    if words.starts_with(INTERRUPTED) {
        turns.ended(Status::Cancelled);
        return turns.verbatim(mark, "interrupted", raw, Verbatim::Housekeeping);
    }
    if flag("isMeta") || words.starts_with("<local-command-") || parts.is_empty() {
        return turns.verbatim(mark, "user", raw, Verbatim::Housekeeping);
    }
    usage.pass_on(turns);
    conversation.facts.note_prompt(words);
    conversation.turns.prompt(mark, parts, MessageSource::Human);
}

/// Keeps what a record has besides the results of tools: a remark of the user, or a text that
/// Claude Code adds.
fn text_beside_results(turns: &mut Assembler, content: &Value, mark: Mark<'_>) {
    let mut remark = Vec::new();
    for (n, part) in content.as_array().into_iter().flatten().enumerate() {
        let words = text(part, "text").unwrap_or_default();
        if text(part, "type") == Some("tool_result") {
            continue;
        }
        if words.starts_with(INTERRUPTED) {
            turns.ended(Status::Cancelled);
        }
        if words.starts_with(INTERRUPTED) || words.starts_with(REMINDER) {
            let id = format!("{} text {n}", mark.id);
            let mark = Mark { id: &id, parent: Parent::Previous, ..mark };
            turns.verbatim(mark, "user", &part.to_string(), Verbatim::Housekeeping);
        } else {
            remark.extend(user_part(turns, part));
        }
    }
    if !remark.is_empty() {
        let id = format!("{} text", mark.id);
        let mark = Mark { id: &id, parent: Parent::Previous, ..mark };
        turns.steer(mark, remark, MessageSource::Human);
    }
}

fn user_parts(turns: &mut Assembler, content: &Value) -> Vec<Part> {
    match content {
        Value::String(text) => vec![Part::Text { text: text.clone() }],
        Value::Array(parts) => parts.iter().filter_map(|part| user_part(turns, part)).collect(),
        _ => Vec::new(),
    }
}

fn user_part(turns: &mut Assembler, part: &Value) -> Option<Part> {
    match text(part, "type")? {
        "text" => Some(Part::Text { text: text(part, "text")?.to_owned() }),
        "image" => {
            let source = part.get("source")?;
            let bytes = STANDARD.decode(text(source, "data")?).ok()?;
            Some(turns.image(text(source, "media_type").unwrap_or("image/png"), bytes))
        }
        // A document has no counterpart; the text keeps it.
        _ => Some(Part::Text { text: part.to_string() }),
    }
}

fn assistant(
    conversation: &mut Conversation,
    record: &Value,
    mark: Mark<'_>,
    usage: &mut UsageOfMessage,
) {
    let Some(message) = record.get("message") else { return };
    let turns = &mut conversation.turns;
    let parts: Vec<Part> = list(message, "content").iter().filter_map(answer_part).collect();
    usage.note(message, record, turns);
    if record.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true) {
        let words = parts.iter().find_map(|part| match part {
            Part::Text { text } => Some(text.clone()),
            _ => None,
        });
        let error = Part::Error {
            code: "provider_error".to_owned(),
            message: words.unwrap_or_default(),
            provider_id: Some("claude-code".to_owned()),
        };
        turns.answer(mark, vec![error], None);
        return turns.ended(Status::Failed);
    }
    turns.answer(mark, parts, some_text(message, "model"));
}

fn answer_part(part: &Value) -> Option<Part> {
    Some(match text(part, "type")? {
        "text" => Part::Text { text: text(part, "text")?.to_owned() },
        "thinking" | "redacted_thinking" => Part::Thought {
            text: text(part, "thinking").unwrap_or_default().to_owned(),
            raw: Some(part.clone()),
        },
        "tool_use" | "server_tool_use" => Part::ToolCall {
            id: text(part, "id").unwrap_or_default().to_owned(),
            name: text(part, "name").unwrap_or("tool").to_owned(),
            params: part.get("input").cloned().unwrap_or(Value::Null),
            status: ToolStatus::Unknown,
        },
        other => Part::Thought { text: String::new(), raw: Some(unknown(other, part)) },
    })
}

fn unknown(kind: &str, part: &Value) -> Value {
    serde_json::json!({"type": kind, "part": part})
}

fn attachment(conversation: &mut Conversation, record: &Value, raw: &str, mark: Mark<'_>) {
    let attached = record.get("attachment").unwrap_or(&Value::Null);
    let kind = text(attached, "type").unwrap_or("attachment");
    if kind == "queued_command"
        && let Some(prompt) = attached.get("prompt")
    {
        let parts = user_parts(&mut conversation.turns, prompt);
        return conversation.turns.steer(mark, parts, MessageSource::Human);
    }
    let kind = format!("attachment.{kind}");
    conversation.turns.verbatim(mark, &kind, raw, Verbatim::Housekeeping);
}
