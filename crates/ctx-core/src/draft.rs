//! Drafts: the unfinished turn, stored as append-only entries that are folded into messages.
//!
//! One function folds the entries for reconnecting clients, for recovery after a crash and for the
//! finished turn, so these three cannot differ.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::MessageId;
use crate::json_depth::limit_depth;
use crate::message::{Message, Part, Role, Source, ToolStatus};
use crate::object::Named;
use crate::stored_content::Content;
use crate::time::Timestamp;
use crate::turn::Usage;

/// One addition to the unfinished turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of `Message` and `Part`")]
pub enum Entry {
    /// Starts a message. The following entries are its content.
    Message { id: MessageId, role: Role, source: Option<Source>, at: Timestamp },
    /// Appends to the current text part.
    Text { text: String },
    /// Appends to the current thought part.
    Thought { text: String, raw: Option<Value> },
    /// Adds a tool call.
    ToolCall { id: String, name: String, params: Value },
    /// Replaces the name and the parameters of a tool call.
    ToolInput { id: String, name: String, params: Value },
    /// Sets the status of a tool call.
    ToolStatus { id: String, status: ToolStatus },
    /// Adds the result of a tool call and sets its status.
    ToolResult { id: String, content: String, is_error: bool },
    /// Adds an error of the provider.
    Error { code: String, message: String, provider_id: Option<String> },
    /// Replaces the plan of the agent.
    Plan { entries: Value },
    /// Replaces the usage of the turn.
    Usage { usage: Usage },
}

impl Entry {
    /// Converts JSON that is nested too deeply to text, so that the stored entry can be parsed.
    #[must_use]
    pub fn readable(self) -> Self {
        match self {
            Entry::Thought { text, raw } => Entry::Thought { text, raw: raw.map(limit_depth) },
            Entry::ToolCall { id, name, params } => {
                Entry::ToolCall { id, name, params: limit_depth(params) }
            }
            Entry::ToolInput { id, name, params } => {
                Entry::ToolInput { id, name, params: limit_depth(params) }
            }
            Entry::Plan { entries } => Entry::Plan { entries: limit_depth(entries) },
            entry => entry,
        }
    }

    /// Approximate size in bytes. Entries without text count 64.
    pub fn approximate_bytes(&self) -> usize {
        match self {
            Entry::Text { text } | Entry::Thought { text, .. } => text.len(),
            Entry::ToolResult { content, .. } => content.len(),
            _ => 64,
        }
    }
}

/// The messages that the entries produce.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Draft {
    pub messages: Vec<Message>,
    pub usage: Option<Usage>,
}

impl Draft {
    /// Folds entries, oldest first.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut draft = Self::default();
        entries.into_iter().for_each(|entry| draft.add(entry));
        draft
    }

    /// Adds one entry. Content before the first message is dropped.
    pub fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Message { id, role, source, at } => {
                self.messages.push(Message {
                    id,
                    role,
                    source,
                    content: Vec::new(),
                    created_at: at,
                });
            }
            Entry::Usage { usage } => self.usage = Some(usage),
            Entry::ToolStatus { id, status } => {
                if let Some(Part::ToolCall { status: known, .. }) = self.call(&id) {
                    *known = status;
                }
            }
            Entry::ToolInput { id, name, params } => {
                if let Some(Part::ToolCall { name: known, params: input, .. }) = self.call(&id) {
                    (*known, *input) = (name, params);
                }
            }
            Entry::Text { text } => match self.last_part() {
                Some(Part::Text { text: before }) => before.push_str(&text),
                _ => self.push(Part::Text { text }),
            },
            Entry::Thought { text, raw } => match self.last_part() {
                Some(Part::Thought { text: before, raw: known }) if known.is_none() => {
                    before.push_str(&text);
                    *known = raw;
                }
                _ => self.push(Part::Thought { text, raw }),
            },
            Entry::ToolCall { id, name, params } => {
                self.push(Part::ToolCall { id, name, params, status: ToolStatus::Running });
            }
            Entry::ToolResult { id, content, is_error } => {
                if let Some(Part::ToolCall { status, .. }) = self.call(&id) {
                    *status = if is_error { ToolStatus::Failed } else { ToolStatus::Completed };
                }
                self.push(Part::ToolResult {
                    tool_call_id: id,
                    content: Content::Text(content),
                    is_error,
                });
            }
            Entry::Error { code, message, provider_id } => {
                self.push(Part::Error { code, message, provider_id });
            }
            Entry::Plan { entries } => {
                let plan = |part: &&mut Part| matches!(part, Part::Plan { .. });
                match self.messages.iter_mut().flat_map(|message| &mut message.content).find(plan) {
                    Some(Part::Plan { entries: before }) => *before = entries,
                    _ => self.push(Part::Plan { entries }),
                }
            }
        }
    }

    fn last_part(&mut self) -> Option<&mut Part> {
        self.messages.last_mut()?.content.last_mut()
    }

    fn push(&mut self, part: Part) {
        if let Some(message) = self.messages.last_mut() {
            message.content.push(part);
        }
    }

    /// The newest call with this id. Ids are unique within a run, and a turn may have several runs.
    fn call(&mut self, wanted: &str) -> Option<&mut Part> {
        let parts =
            self.messages.iter_mut().rev().flat_map(|message| message.content.iter_mut().rev());
        parts.into_iter().find(|part| matches!(part, Part::ToolCall { id, .. } if id == wanted))
    }

    /// The name of the tool that a call names; the id of the call if it is unknown.
    pub fn tool_name<'a>(&'a self, wanted: &'a str) -> &'a str {
        let parts = self.messages.iter().rev().flat_map(|message| message.content.iter().rev());
        let name = |part: &'a Part| match part {
            Part::ToolCall { id, name, .. } if id == wanted => Some(name.as_str()),
            _ => None,
        };
        parts.into_iter().find_map(name).unwrap_or(wanted)
    }

    /// The calls without a result, as id, name and parameters.
    pub fn unanswered_calls(&self) -> Vec<(String, String, Value)> {
        let parts = self.messages.iter().flat_map(|message| &message.content);
        let open = |part: &Part| match part {
            Part::ToolCall {
                id,
                name,
                params,
                status: ToolStatus::Pending | ToolStatus::Running,
            } => Some((id.clone(), name.clone(), params.clone())),
            _ => None,
        };
        parts.filter_map(open).collect()
    }

    /// The last text of the agent that is not empty.
    pub fn last_text(&self) -> Option<&str> {
        let answers = self.messages.iter().rev().filter(|message| message.role == Role::Assistant);
        answers.flat_map(|message| message.content.iter().rev()).find_map(|part| match part {
            Part::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
    }

    /// Sets the status of calls without a result to unknown, because the run was interrupted.
    pub fn cut_off(&mut self) {
        for part in self.messages.iter_mut().flat_map(|message| &mut message.content) {
            if let Part::ToolCall { status, .. } = part
                && matches!(status, ToolStatus::Pending | ToolStatus::Running)
            {
                *status = ToolStatus::Unknown;
            }
        }
    }

    /// Returns the messages of the turn without empty ones, and the blobs for large results.
    pub fn finish(self) -> (Vec<Message>, Vec<Named>) {
        let mut blobs = Vec::new();
        let mut messages = self.messages;
        messages.retain(|message| !message.content.is_empty());
        for part in messages.iter_mut().flat_map(|message| &mut message.content) {
            if let Part::ToolResult { content, .. } = part
                && let Content::Text(text) = content
            {
                let (split, blob) = Content::split(std::mem::take(text).into_bytes());
                *content = split;
                blobs.extend(blob);
            }
        }
        (messages, blobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn begin(role: Role) -> Entry {
        Entry::Message { id: MessageId(Ulid(1)), role, source: None, at: Timestamp(1) }
    }

    #[test]
    fn text_split_at_any_position_gives_the_same_message() {
        let words = "héllo wörld";
        let whole = Draft::of([begin(Role::Assistant), Entry::Text { text: words.to_owned() }]);
        for at in (0..words.len()).filter(|at| words.is_char_boundary(*at)) {
            let (a, b) = words.split_at(at);
            let cut = Draft::of([
                begin(Role::Assistant),
                Entry::Text { text: a.to_owned() },
                Entry::Text { text: b.to_owned() },
            ]);
            assert_eq!(cut, whole);
        }
    }

    #[test]
    fn a_call_is_open_until_its_result() {
        let call = |id: &str| Entry::ToolCall {
            id: id.to_owned(),
            name: "t".to_owned(),
            params: Value::Null,
        };
        let result =
            Entry::ToolResult { id: "a".to_owned(), content: "x".repeat(5000), is_error: false };
        let mut draft =
            Draft::of([begin(Role::Assistant), call("a"), call("b"), begin(Role::Tool), result]);
        assert_eq!(
            draft.unanswered_calls().iter().map(|call| call.0.as_str()).collect::<Vec<_>>(),
            ["b"]
        );
        draft.cut_off();
        assert!(draft.unanswered_calls().is_empty());
        let statuses: Vec<_> = draft.messages[0]
            .content
            .iter()
            .map(|part| matches!(part, Part::ToolCall { status: ToolStatus::Unknown, .. }))
            .collect();
        assert_eq!(statuses, [false, true]);
        let (messages, blobs) = draft.finish();
        assert_eq!((messages.len(), blobs.len()), (2, 1), "a large result is a blob");
    }

    #[test]
    fn an_empty_message_is_dropped() {
        let (messages, _) = Draft::of([begin(Role::Assistant)]).finish();
        assert!(messages.is_empty());
    }
}
