//! Sessions of Codex: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`, also compressed (`.zst`).
//!
//! A file is a list of items. After `thread_rolled_back` the next turn is a branch. Message ids of
//! models can repeat, so records are identified by their ordinal.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::message::{Part, Source as MessageSource, ToolStatus};
use ctx_engine::core::turn::{Status, Usage};
use serde_json::Value;

use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::fields::{flat_text, list, number, some_text, text, time};
use super::reading::Reading;
use super::{Environment, Source, Tool};

pub(super) struct Codex;

impl Tool for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn homes(&self, environment: &Environment) -> Vec<PathBuf> {
        let home = environment.dir("CODEX_HOME").or_else(|| environment.in_home(".codex"));
        home.map(|home| [home.join("sessions"), home.join("archived_sessions")])
            .into_iter()
            .flatten()
            .collect()
    }

    fn is_source(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("rollout-") && (name.ends_with(".jsonl") || name.ends_with(".jsonl.zst"))
    }

    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()> {
        let mut state = State::default();
        into.each_record(&source.path, |into, record, text, line| {
            add(record, text, line, into, &mut state);
        })
    }
}

#[derive(Default)]
struct State {
    model: Option<String>,
    /// Whether the file has records of usage per request. Otherwise the counts are used.
    has_usage_records: bool,
}

fn add(record: &Value, raw: &str, line: u64, into: &mut Reading<'_>, state: &mut State) {
    let kind = text(record, "type").unwrap_or("record");
    let payload = record.get("payload").unwrap_or(record);
    let id = match number(record, "ordinal") {
        Some(ordinal) => format!("ordinal {ordinal}"),
        None => format!("line {line}"),
    };
    let mark = Mark { id: &id, parent: Parent::Previous, at: time(record, "timestamp") };
    into.main.facts.note(some_text(payload, "cwd"), None, mark.at);
    match kind {
        "session_meta" => {
            let facts = &mut into.main.facts;
            if let Some(id) = some_text(payload, "id") {
                facts.id = id.to_owned();
            }
            facts.git_branch = payload
                .pointer("/git/branch")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .or(facts.git_branch.take());
            into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        "response_item" => item(payload, raw, mark, into, state),
        "compacted" => {
            let summary = text(payload, "message").unwrap_or_default();
            into.main.turns.compaction(mark, summary, None);
        }
        "turn_context" => {
            state.model = some_text(payload, "model").map(str::to_owned).or(state.model.take());
            into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        "token_usage_record" => {
            state.has_usage_records = true;
            if let Some(usage) = payload.get("usage") {
                into.main.turns.usage(&usage_of(usage));
            }
            into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
        }
        "event_msg" => event(payload, raw, mark, into, state),
        "world_state" => into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping),
        _ => into.main.turns.verbatim(mark, kind, raw, Verbatim::Unknown),
    }
}

fn event(payload: &Value, raw: &str, mark: Mark<'_>, into: &mut Reading<'_>, state: &State) {
    let kind = text(payload, "type").unwrap_or("event");
    match kind {
        "token_count" if !state.has_usage_records => {
            if let Some(usage) = payload.pointer("/info/last_token_usage") {
                into.main.turns.usage(&usage_of(usage));
            }
        }
        "turn_aborted" => into.main.turns.ended(Status::Cancelled),
        "thread_rolled_back" => {
            into.main.turns.rewind(number(payload, "num_turns").unwrap_or(0));
        }
        "thread_name_updated" => {
            let title = some_text(payload, "thread_name").or_else(|| some_text(payload, "name"));
            into.main.facts.title = title.map(str::to_owned);
        }
        _ => {}
    }
    into.main.turns.verbatim(mark, kind, raw, Verbatim::Housekeeping);
}

fn usage_of(usage: &Value) -> Usage {
    Usage {
        input_tokens: number(usage, "input_tokens"),
        output_tokens: number(usage, "output_tokens"),
        cached_tokens: number(usage, "cached_input_tokens"),
        cost: None,
        scope: "turn".to_owned(),
        last_input_tokens: None,
    }
}

fn item(item: &Value, raw: &str, mark: Mark<'_>, into: &mut Reading<'_>, state: &State) {
    let turns = &mut into.main.turns;
    let model = state.model.as_deref();
    match text(item, "type").unwrap_or_default() {
        "message" => message(item, raw, mark, into, model),
        "reasoning" => {
            let text = flat_text(item.get("summary").unwrap_or(&Value::Null));
            let text = if text == "[]" { String::new() } else { text };
            turns.answer(mark, vec![Part::Thought { text, raw: Some(item.clone()) }], model);
        }
        kind @ ("function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call"
        | "tool_search_call") => {
            turns.answer(mark, vec![call(item, kind)], model);
        }
        "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
            let output = item.get("output").unwrap_or(&Value::Null);
            let (content, is_error) = match output.get("content") {
                Some(content) => {
                    (content, output.get("success").and_then(Value::as_bool) == Some(false))
                }
                None => (output, false),
            };
            let id = text(item, "call_id").unwrap_or_default();
            turns.result(mark, id, flat_text(content).into_bytes(), is_error);
        }
        "compaction" | "compaction_summary" => {
            turns.verbatim(mark, "compaction", raw, Verbatim::Housekeeping);
        }
        kind => turns.verbatim(mark, kind, raw, Verbatim::Unknown),
    }
}

fn call(item: &Value, kind: &str) -> Part {
    let params = match (text(item, "arguments"), item.get("input").or_else(|| item.get("action"))) {
        (Some(arguments), _) => {
            serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
        }
        (None, Some(input)) => input.clone(),
        (None, None) => Value::Null,
    };
    let id = some_text(item, "call_id").or_else(|| some_text(item, "id")).unwrap_or_default();
    Part::ToolCall {
        id: id.to_owned(),
        name: some_text(item, "name").unwrap_or(kind).to_owned(),
        params,
        status: ToolStatus::Unknown,
    }
}

fn message(item: &Value, raw: &str, mark: Mark<'_>, into: &mut Reading<'_>, model: Option<&str>) {
    let turns = &mut into.main.turns;
    let parts: Vec<Part> =
        list(item, "content").iter().filter_map(|part| content_part(turns, part)).collect();
    let words = parts.iter().find_map(|part| match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    });
    let words = words.unwrap_or_default();
    match text(item, "role") {
        Some("assistant") => turns.answer(mark, parts, model),
        Some("user") if !is_context(&words) && !parts.is_empty() => {
            into.main.facts.note_prompt(&words);
            into.main.turns.prompt(mark, parts, MessageSource::Human);
        }
        role => turns.verbatim(mark, role.unwrap_or("message"), raw, Verbatim::Housekeeping),
    }
}

/// Whether Codex and not the user wrote a message: environment, instructions, interruptions.
fn is_context(words: &str) -> bool {
    const PREFIXES: [&str; 6] = [
        "<environment_context>",
        "<user_instructions>",
        "<turn_aborted>",
        "<permissions instructions>",
        "<skills_instructions>",
        "# AGENTS.md instructions",
    ];
    PREFIXES.iter().any(|prefix| words.trim_start().starts_with(prefix))
}

fn content_part(turns: &mut Assembler, part: &Value) -> Option<Part> {
    match text(part, "type")? {
        "input_text" | "output_text" | "text" => {
            Some(Part::Text { text: text(part, "text")?.to_owned() })
        }
        "input_image" => {
            let (head, data) = text(part, "image_url")?.split_once(";base64,")?;
            let bytes = STANDARD.decode(data).ok()?;
            Some(turns.image(head.trim_start_matches("data:"), bytes))
        }
        _ => Some(Part::Text { text: part.to_string() }),
    }
}
