//! The form of a turn that all exports share: prompts, responses and what their tools returned.
//!
//! It is valid for every tool: a tool call has exactly one result, the result belongs to the
//! response with the call, and ids of calls are unique in the session.

use std::collections::{HashMap, HashSet, VecDeque};

use ctx_engine::StoredTurn;
use ctx_engine::core::id::{BlobId, TurnId};
use ctx_engine::core::message::{Message, Part, Role, ToolStatus};
use ctx_engine::core::projection::OUTCOME_UNKNOWN;
use ctx_engine::core::redaction::Redactor;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::{Kind, Status, Usage, is_with_ctx_only};
use serde_json::Value;

/// Characters of a tool call id that every API accepts, without the suffix of a repeated id.
const CALL_ID_MAX_CHARS: usize = 48;

/// A turn to be exported.
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    pub(crate) status: Status,
    pub(crate) provider_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    /// Whether the turn is only between the user and ctx. Tools do not receive it.
    pub(crate) is_with_ctx_only: bool,
    /// Whether the body was purged.
    pub(crate) is_purged: bool,
    pub(crate) entries: Vec<Entry>,
}

/// One entry of a turn.
pub(crate) enum Entry {
    /// A message of the user.
    Prompt { at: Timestamp, parts: Vec<PromptPart> },
    /// One response of the model, with the results of its tool calls.
    Response(Response),
    /// The summary that replaces everything before it in requests.
    Compaction { at: Timestamp, summary: String, tokens_before: Option<u64> },
    /// A text of ctx to the user.
    Notice { at: Timestamp, text: String },
    /// A record of another tool, verbatim.
    Record { at: Timestamp, kind: String, content: String },
}

/// A part of a prompt.
pub(crate) enum PromptPart {
    Text(String),
    Image { media_type: String, bytes: Vec<u8> },
}

/// One response of a model.
pub(crate) struct Response {
    pub(crate) at: Timestamp,
    pub(crate) parts: Vec<ResponsePart>,
    pub(crate) calls: Vec<Call>,
    /// Whether it is the last response of its turn.
    pub(crate) is_last: bool,
}

/// A part of a response besides its tool calls, which follow it.
pub(crate) enum ResponsePart {
    Text(String),
    Thought { text: String, raw: Option<Value> },
    Error { code: String, message: String },
    Plan(Value),
    Image { media_type: String, bytes: Vec<u8> },
}

/// A tool call with its result.
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) params: Value,
    pub(crate) output: String,
    pub(crate) is_error: bool,
    /// Whether the result was stored; else `output` says that the outcome is unknown.
    pub(crate) has_result: bool,
    pub(crate) ended_at: Timestamp,
}

/// Makes the ids of tool calls unique in a session.
#[derive(Default)]
pub(crate) struct CallIds {
    used: HashSet<String>,
}

impl CallIds {
    fn unique(&mut self, id: &str) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let clean = |c: char| if is_allowed(c) { c } else { '_' };
        let base: String = id.chars().take(CALL_ID_MAX_CHARS).map(clean).collect();
        let base = if base.is_empty() { "call".to_owned() } else { base };
        let mut name = base.clone();
        let mut number = 1_u64;
        while !self.used.insert(name.clone()) {
            number += 1;
            // Claude Code takes `_2` for the mark of a repeated call and drops its result.
            name = format!("{base}r{number}");
        }
        name
    }
}

/// The bytes of the blobs that a turn refers to.
pub(super) type Blobs = HashMap<BlobId, Vec<u8>>;

impl Turn {
    /// Converts a stored turn.
    pub(super) fn of(
        turn: &StoredTurn,
        messages: Option<Vec<Message>>,
        blobs: &Blobs,
        ids: &mut CallIds,
    ) -> Self {
        let header = &turn.header;
        let is_purged = messages.is_none();
        let messages = messages.unwrap_or_default();
        let mut building = Building::new(&messages, blobs, ids);
        if let (Kind::Compaction, Some(compaction)) = (header.kind, &turn.compaction) {
            building.entries.push(Entry::Compaction {
                at: header.started_at,
                summary: compaction.summary.clone(),
                tokens_before: Some(compaction.tokens_before).filter(|tokens| *tokens > 0),
            });
        }
        let has_compaction = !building.entries.is_empty();
        for message in &messages {
            building.message(message, has_compaction);
        }
        building.close();
        let mut entries = building.entries;
        let last = entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Response(response) => Some(response),
            _ => None,
        });
        if let Some(last) = last {
            last.is_last = true;
        }
        Self {
            id: turn.id,
            status: header.status,
            provider_id: header.provider_id.clone(),
            model: header.model.clone(),
            usage: header.usage.clone(),
            started_at: header.started_at,
            ended_at: header.ended_at,
            is_with_ctx_only: is_with_ctx_only(header.provider_id.as_deref(), &messages),
            is_purged,
            entries,
        }
    }

    /// Replaces the secrets of the turn.
    pub(super) fn redact(&mut self, redactor: &mut Redactor) {
        for entry in &mut self.entries {
            match entry {
                Entry::Prompt { parts, .. } => {
                    for part in parts {
                        if let PromptPart::Text(text) = part {
                            redactor.text_mut(text);
                        }
                    }
                }
                Entry::Response(response) => response.redact(redactor),
                Entry::Compaction { summary: text, .. }
                | Entry::Notice { text, .. }
                | Entry::Record { content: text, .. } => {
                    redactor.text_mut(text);
                }
            }
        }
    }
}

impl Response {
    fn redact(&mut self, redactor: &mut Redactor) {
        for part in &mut self.parts {
            match part {
                ResponsePart::Text(text) | ResponsePart::Error { message: text, .. } => {
                    redactor.text_mut(text);
                }
                ResponsePart::Thought { text, raw } => {
                    redactor.thought(text, raw);
                }
                ResponsePart::Plan(entries) => {
                    redactor.value(entries);
                }
                ResponsePart::Image { .. } => {}
            }
        }
        for call in &mut self.calls {
            redactor.value(&mut call.params);
            redactor.text_mut(&mut call.output);
        }
    }
}

/// The results of a turn by the id of their call, in order.
type Results = HashMap<String, VecDeque<(String, bool, Timestamp)>>;

struct Building<'a> {
    blobs: &'a Blobs,
    ids: &'a mut CallIds,
    results: Results,
    open: Option<Response>,
    entries: Vec<Entry>,
}

impl<'a> Building<'a> {
    fn new(messages: &[Message], blobs: &'a Blobs, ids: &'a mut CallIds) -> Self {
        let mut results = Results::new();
        for message in messages {
            for part in &message.content {
                if let Part::ToolResult { tool_call_id, content, is_error } = part {
                    let result = (content_text(content, blobs), *is_error, message.created_at);
                    results.entry(tool_call_id.clone()).or_default().push_back(result);
                }
            }
        }
        Self { blobs, ids, results, open: None, entries: Vec::new() }
    }

    fn message(&mut self, message: &Message, has_compaction: bool) {
        let at = message.created_at;
        let mut prompt = Vec::new();
        for part in &message.content {
            match (message.role, part) {
                (_, Part::Record { kind, content }) => {
                    let content = content_text(content, self.blobs);
                    self.push(Entry::Record { at, kind: kind.clone(), content });
                }
                (_, Part::Summary { text }) => {
                    if !has_compaction {
                        let (summary, tokens_before) = (text.clone(), None);
                        self.push(Entry::Compaction { at, summary, tokens_before });
                    }
                }
                (Role::User, Part::Text { text }) => prompt.push(PromptPart::Text(text.clone())),
                (Role::User, Part::Image { media_type, blob, .. }) => {
                    if let Some(bytes) = self.blobs.get(blob).cloned() {
                        let media_type = media_type.clone();
                        prompt.push(PromptPart::Image { media_type, bytes });
                    }
                }
                (Role::System, Part::Text { text }) => {
                    self.push(Entry::Notice { at, text: text.clone() });
                }
                (_, part) => self.response_part(part, at),
            }
        }
        if !prompt.is_empty() {
            self.push(Entry::Prompt { at, parts: prompt });
        }
    }

    fn response_part(&mut self, part: &Part, at: Timestamp) {
        let part = match part {
            Part::ToolCall { id, name, params, status } => {
                return self.call(id, name, params, *status, at);
            }
            Part::Text { text } if text.is_empty() => return,
            Part::Text { text } => ResponsePart::Text(text.clone()),
            Part::Thought { text, raw } => {
                ResponsePart::Thought { text: text.clone(), raw: raw.clone() }
            }
            Part::Error { code, message, .. } => {
                ResponsePart::Error { code: code.clone(), message: message.clone() }
            }
            Part::Plan { entries } => ResponsePart::Plan(entries.clone()),
            Part::Image { media_type, blob, .. } => match self.blobs.get(blob).cloned() {
                Some(bytes) => ResponsePart::Image { media_type: media_type.clone(), bytes },
                None => return,
            },
            // Results follow their calls.
            Part::ToolResult { .. } | Part::Summary { .. } | Part::Record { .. } => return,
        };
        // What the model wrote after a call, it wrote in the next response.
        if self.open.as_ref().is_some_and(|open| !open.calls.is_empty()) {
            self.close();
        }
        self.open(at).parts.push(part);
    }

    fn call(&mut self, id: &str, name: &str, params: &Value, status: ToolStatus, at: Timestamp) {
        let result = self.results.get_mut(id).and_then(VecDeque::pop_front);
        let has_result = result.is_some();
        let is_error = status != ToolStatus::Completed;
        let (output, is_error, ended_at) =
            result.unwrap_or_else(|| (OUTCOME_UNKNOWN.to_owned(), is_error, at));
        let (id, name, params) = (self.ids.unique(id), name.to_owned(), params.clone());
        let call = Call { id, name, params, output, is_error, has_result, ended_at };
        self.open(at).calls.push(call);
    }

    fn open(&mut self, at: Timestamp) -> &mut Response {
        self.open.get_or_insert_with(|| Response {
            at,
            parts: Vec::new(),
            calls: Vec::new(),
            is_last: false,
        })
    }

    fn push(&mut self, entry: Entry) {
        self.close();
        self.entries.push(entry);
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.entries.push(Entry::Response(open));
        }
    }
}

/// The text of a content. What is not UTF-8 is described.
fn content_text(content: &Content, blobs: &Blobs) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blob { blob, bytes } => match blobs.get(blob) {
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => format!("[{} bytes that are not text]", bytes.len()),
            },
            None => format!("[{bytes} bytes that were deleted]"),
        },
        Content::Omitted { bytes, .. } => format!("[{bytes} bytes that were not stored]"),
    }
}
