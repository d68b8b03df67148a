//! Assembles the records of another tool into turns: one exchange each.
//!
//! A prompt starts a turn. Answers and results belong to the turn of the record that they follow.
//! A prompt that follows an earlier turn starts a branch there. Only the open turn is in memory,
//! and for each record the number of its turn.
//!
//! Records without a counterpart here are kept verbatim. Those after the answer of a turn belong to
//! the next turn, so that a finished turn does not change when its source grows.

use std::collections::HashMap;

use ctx_engine::ImportedTurn;
use ctx_engine::NewTurn;
use ctx_engine::core::compaction::{self, Compaction};
use ctx_engine::core::id::{MessageId, ObjectId, derived_ulid};
use ctx_engine::core::message::{Message, Part, Role, Source, ToolStatus};
use ctx_engine::core::object::Named;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::{About, Kind, Status, Usage};

/// The record that another one follows.
#[derive(Clone, Copy)]
pub(super) enum Parent<'a> {
    /// The record before it.
    Previous,
    /// None: the record starts a conversation.
    Root,
    /// The record with this id.
    Record(&'a str),
}

/// Id, parent and time of a record.
#[derive(Clone, Copy)]
pub(super) struct Mark<'a> {
    pub(super) id: &'a str,
    pub(super) parent: Parent<'a>,
    /// The time of the record before it, if unknown.
    pub(super) at: Option<Timestamp>,
}

/// Whether a record without a counterpart must be kept at the end of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbatim {
    /// Bookkeeping of the tool. At the end of a source it waits for the next turn.
    Housekeeping,
    /// A record that this program does not know. It is kept with the last turn.
    Unknown,
}

/// Assembles the turns of one conversation.
pub(super) struct Assembler {
    tool: &'static str,
    /// Identifies the conversation in derived ids.
    key: String,
    open: Option<OpenTurn>,
    /// Number of turns, the open one included.
    count: usize,
    finished: Vec<ImportedTurn>,
    /// For each turn the one that it follows, and whether it is a compaction.
    tree: Vec<(Option<usize>, bool)>,
    /// The turn that the next one follows, if turns were taken back. The inner `None` is the
    /// beginning.
    #[allow(clippy::option_option, reason = "the first turn follows no turn")]
    rewound: Option<Option<usize>>,
    places: HashMap<u64, usize>,
    held: Vec<(Timestamp, Part, Verbatim)>,
    blobs: Vec<Named>,
    last_at: Timestamp,
    /// Number of records that were skipped because their id was used before.
    pub(super) duplicates: u64,
    /// Number of records whose parent is missing.
    pub(super) orphans: u64,
}

struct OpenTurn {
    number: usize,
    parent: Option<usize>,
    messages: Vec<Message>,
    blobs: Vec<Named>,
    answered: bool,
    model: Option<String>,
    usage: Option<Usage>,
    status: Option<Status>,
    compaction: Option<Compaction>,
}

impl Assembler {
    pub(super) fn new(tool: &'static str, key: &str) -> Self {
        Self {
            tool,
            key: key.to_owned(),
            open: None,
            count: 0,
            finished: Vec::new(),
            tree: Vec::new(),
            rewound: None,
            places: HashMap::new(),
            held: Vec::new(),
            blobs: Vec::new(),
            last_at: Timestamp(0),
            duplicates: 0,
            orphans: 0,
        }
    }

    /// Adds a message that starts a turn. Without an answer in between, several prompts are one
    /// turn.
    pub(super) fn prompt(&mut self, mark: Mark<'_>, parts: Vec<Part>, source: Source) {
        let Some(parent) = self.place(mark) else { return };
        let joins = self.open.as_ref().is_some_and(|open| {
            parent == Some(open.number) && !open.answered && open.compaction.is_none()
        });
        if !joins {
            self.start(parent);
        }
        self.release_held();
        self.message(mark, Role::User, Some(source), parts);
    }

    /// Adds a message that the user sent while the agent worked.
    pub(super) fn steer(&mut self, mark: Mark<'_>, parts: Vec<Part>, source: Source) {
        if self.open.as_ref().is_none_or(|open| open.compaction.is_some()) {
            return self.prompt(mark, parts, source);
        }
        if self.place(mark).is_some() {
            self.release_held();
            self.message(mark, Role::User, Some(source), parts);
        }
    }

    /// Adds a message of the agent.
    pub(super) fn answer(&mut self, mark: Mark<'_>, parts: Vec<Part>, model: Option<&str>) {
        let Some(parent) = self.place(mark) else { return };
        if parts.is_empty() {
            return;
        }
        self.continue_turn(parent);
        self.release_held();
        self.message(mark, Role::Assistant, None, parts);
        if let Some(open) = &mut self.open {
            open.answered = true;
            if let Some(model) = model {
                open.model = Some(model.to_owned());
            }
        }
    }

    /// Adds a message of the system.
    pub(super) fn system(&mut self, mark: Mark<'_>, parts: Vec<Part>) {
        let Some(parent) = self.place(mark) else { return };
        self.continue_turn(parent);
        self.release_held();
        self.message(mark, Role::System, None, parts);
    }

    /// Adds the result of a tool call.
    pub(super) fn result(&mut self, mark: Mark<'_>, call: &str, content: Vec<u8>, is_error: bool) {
        let Some(parent) = self.place(mark) else { return };
        let content = self.content(content);
        let part = Part::ToolResult { tool_call_id: call.to_owned(), content, is_error };
        self.continue_turn(parent);
        self.release_held();
        self.message(mark, Role::Tool, None, vec![part]);
        if let Some(open) = &mut self.open {
            open.answered = true;
        }
    }

    /// Adds the summary that replaces everything before it in requests.
    pub(super) fn compaction(&mut self, mark: Mark<'_>, summary: &str, tokens: Option<u64>) {
        let Some(parent) = self.place(mark) else { return };
        self.start(parent);
        let part = Part::Summary { text: summary.to_owned() };
        self.message(mark, Role::System, None, vec![part]);
        if let Some((_, is_compaction)) = self.tree.last_mut() {
            *is_compaction = true;
        }
        if let Some(open) = &mut self.open {
            open.compaction = Some(Compaction {
                summary: summary.to_owned(),
                summarized_through: None,
                first_kept: None,
                turns_summarized: open.number as u64,
                kind: compaction::Type::Summary,
                model: None,
                provider: Some(self.tool.to_owned()),
                tokens_before: tokens.unwrap_or(0),
                tokens_after: 0,
                summary_tokens: 0,
                summarization_input_tokens: None,
                summarization_output_tokens: None,
                duration_ms: 0,
                trigger: compaction::Trigger::ContextLimit,
                metadata: compaction::Metadata {
                    by: compaction::By::Agent,
                    ..compaction::Metadata::default()
                },
            });
        }
    }

    /// Keeps a record that has no counterpart here.
    pub(super) fn verbatim(&mut self, mark: Mark<'_>, kind: &str, raw: &str, how: Verbatim) {
        if self.place(mark).is_none() {
            return;
        }
        let content = self.content(raw.as_bytes().to_vec());
        let part = Part::Record { kind: format!("{}:{kind}", self.tool), content };
        self.held.push((self.last_at, part, how));
        // Within a turn the order of the records is kept.
        if self.open.as_ref().is_some_and(|open| !open.answered && open.compaction.is_none()) {
            self.release_held();
        }
    }

    /// Takes the last turns of the conversation back: the next turn follows the one before them.
    pub(super) fn rewind(&mut self, turns: u64) {
        let mut at = self.previous();
        let mut left = turns;
        while let Some(turn) = at
            && left > 0
        {
            let (parent, is_compaction) = self.tree[turn];
            left -= u64::from(!is_compaction);
            at = parent;
        }
        self.rewound = Some(at);
    }

    /// Takes a prompt and everything after it back: the next turn follows the one before it.
    pub(super) fn rewind_before(&mut self, prompt: &str) {
        let turn = self.places.get(&hash(prompt)).and_then(|turn| self.tree.get(*turn));
        self.rewound = Some(turn.and_then(|(parent, _)| *parent));
    }

    /// Adds the usage of one request to the open turn.
    pub(super) fn usage(&mut self, usage: &Usage) {
        let Some(open) = &mut self.open else { return };
        let sum = open
            .usage
            .get_or_insert_with(|| Usage { scope: "turn".to_owned(), ..Usage::default() });
        let add = |to: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *to = Some(to.unwrap_or(0).saturating_add(more));
            }
        };
        add(&mut sum.input_tokens, usage.input_tokens);
        add(&mut sum.output_tokens, usage.output_tokens);
        add(&mut sum.cached_tokens, usage.cached_tokens);
        if let Some(cost) = usage.cost.as_deref().and_then(|cost| cost.parse::<f64>().ok()) {
            let before = sum.cost.as_deref().and_then(|cost| cost.parse::<f64>().ok());
            sum.cost = Some(decimal(before.unwrap_or(0.0) + cost));
        }
    }

    /// Sets how the open turn ended, if it was not answered to its end.
    pub(super) fn ended(&mut self, status: Status) {
        if let Some(open) = &mut self.open {
            open.status = Some(status);
        }
    }

    /// Content for a part; a large one becomes a blob.
    pub(super) fn content(&mut self, bytes: Vec<u8>) -> Content {
        let (content, blob) = Content::split(bytes);
        self.blobs.extend(blob);
        content
    }

    /// An image for a part.
    pub(super) fn image(&mut self, media_type: &str, bytes: Vec<u8>) -> Part {
        let size = bytes.len() as u64;
        let blob = Named::from(ctx_engine::core::object::Object::blob(bytes));
        let id = ctx_engine::core::id::BlobId(blob.id());
        self.blobs.push(blob);
        Part::Image { media_type: media_type.to_owned(), blob: id, bytes: Some(size) }
    }

    /// The turns that are finished by now.
    pub(super) fn take(&mut self) -> Vec<ImportedTurn> {
        std::mem::take(&mut self.finished)
    }

    /// Ends the last turn.
    pub(super) fn finish(&mut self) -> Vec<ImportedTurn> {
        self.held.retain(|(_, _, how)| *how == Verbatim::Unknown);
        if self.open.is_some() {
            self.release_held();
        }
        self.close();
        self.take()
    }

    /// Number of turns so far.
    pub(super) const fn turns(&self) -> usize {
        self.count
    }

    /// Notes the place of a record. Returns the number of the turn that it follows; the outer
    /// `None` means that the record is a duplicate.
    #[allow(clippy::option_option, reason = "a root follows no turn")]
    fn place(&mut self, mark: Mark<'_>) -> Option<Option<usize>> {
        if let Some(at) = mark.at {
            self.last_at = at;
        }
        let previous = self.previous();
        let parent = match mark.parent {
            Parent::Previous => previous,
            Parent::Root => None,
            Parent::Record(id) => match self.places.get(&hash(id)) {
                Some(&turn) if turn < self.count => Some(turn),
                // The parent was kept for the next turn.
                Some(_) => previous,
                None => {
                    self.orphans += 1;
                    previous
                }
            },
        };
        let key = hash(mark.id);
        if !mark.id.is_empty() && self.places.contains_key(&key) {
            self.duplicates += 1;
            return None;
        }
        // Corrected by `message`, if the record starts a turn.
        self.places.insert(key, parent.unwrap_or(0));
        Some(parent)
    }

    /// The turn that a record follows which names no other.
    fn previous(&self) -> Option<usize> {
        self.rewound.unwrap_or_else(|| self.count.checked_sub(1))
    }

    fn start(&mut self, parent: Option<usize>) {
        self.close();
        self.rewound = None;
        self.tree.push((parent, false));
        self.open = Some(OpenTurn {
            number: self.count,
            parent,
            messages: Vec::new(),
            blobs: Vec::new(),
            answered: false,
            model: None,
            usage: None,
            status: None,
            compaction: None,
        });
        self.count += 1;
    }

    /// Makes the turn of the followed record the open one, if it is not closed.
    fn continue_turn(&mut self, parent: Option<usize>) {
        let open = self.open.as_ref().filter(|open| open.compaction.is_none());
        match (open, parent) {
            (Some(open), Some(parent)) if open.number == parent => {}
            (_, parent) => self.start(parent),
        }
    }

    fn release_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return;
        }
        let at = held[0].0;
        let parts: Vec<Part> = held.into_iter().map(|(_, part, _)| part).collect();
        let Some(open) = &mut self.open else { return };
        match open.messages.last_mut() {
            Some(last) if last.role == Role::System && open.compaction.is_none() => {
                last.content.extend(parts);
            }
            _ => {
                let name = format!("records {} {}", open.number, open.messages.len());
                let id = message_id(self.tool, &self.key, &name, at);
                let message = Message {
                    id,
                    role: Role::System,
                    source: None,
                    content: parts,
                    created_at: at,
                };
                open.messages.push(message);
            }
        }
        open.blobs.append(&mut self.blobs);
    }

    fn message(&mut self, mark: Mark<'_>, role: Role, source: Option<Source>, parts: Vec<Part>) {
        let at = self.last_at;
        let Some(open) = &mut self.open else { return };
        if !mark.id.is_empty() {
            self.places.insert(hash(mark.id), open.number);
        }
        let id = message_id(self.tool, &self.key, mark.id, at);
        open.messages.push(Message { id, role, source, content: parts, created_at: at });
        open.blobs.append(&mut self.blobs);
    }

    fn close(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        settle_calls(&mut open.messages);
        let started_at = open.messages.first().map_or(self.last_at, |first| first.created_at);
        let ended_at = open.messages.last().map_or(started_at, |last| last.created_at);
        let status = open.status.unwrap_or(if open.answered || open.compaction.is_some() {
            Status::Completed
        } else {
            Status::Interrupted
        });
        let about = About {
            kind: if open.compaction.is_some() { Kind::Compaction } else { Kind::Normal },
            status,
            provider_id: Some(self.tool.to_owned()),
            model: open.model,
            usage: open.usage,
            started_at,
            ended_at: ended_at.max(started_at),
        };
        self.finished.push(ImportedTurn {
            parent: open.parent,
            turn: NewTurn { about, messages: open.messages, blobs: open.blobs },
            compaction: open.compaction,
        });
    }
}

/// Sets the status of each call by its result: a call without one has an unknown outcome.
fn settle_calls(messages: &mut [Message]) {
    let mut results: HashMap<String, bool> = HashMap::new();
    for part in messages.iter().flat_map(|message| &message.content) {
        if let Part::ToolResult { tool_call_id, is_error, .. } = part {
            results.insert(tool_call_id.clone(), *is_error);
        }
    }
    for part in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let Part::ToolCall { id, status, .. } = part {
            *status = match results.get(id) {
                Some(true) => ToolStatus::Failed,
                Some(false) => ToolStatus::Completed,
                None => ToolStatus::Unknown,
            };
        }
    }
}

/// The id of a message, derived from the ids of its source.
fn message_id(tool: &str, key: &str, record: &str, at: Timestamp) -> MessageId {
    MessageId(derived_ulid(&[tool, key, record], at.0))
}

fn hash(id: &str) -> u64 {
    let bytes = *ObjectId::of(&[id.as_bytes()]).as_bytes();
    u64::from_le_bytes(bytes[..8].try_into().expect("a hash has more than 8 bytes"))
}

/// An amount without an exponent and without superfluous zeros.
fn decimal(amount: f64) -> String {
    let text = format!("{amount:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}
