//! A turn while it is being made: entries that are only ever appended, folded into messages.
//!
//! The same fold makes what a reconnecting client sees, what a crash leaves behind and what the turn becomes, so
//! they cannot differ.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::Content;
use crate::id::MessageId;
use crate::message::{Message, Part, Role, Source, ToolStatus};
use crate::nested::bounded;
use crate::object::Named;
use crate::time::Timestamp;
use crate::turn::Usage;

/// One addition to the open turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of `Message` and `Part`")]
pub enum Entry {
    /// A message begins; what follows is its content.
    Message { id: MessageId, role: Role, source: Option<Source>, at: Timestamp },
    /// More words.
    Text { text: String },
    /// More reasoning.
    Thought { text: String, raw: Option<Value> },
    /// A tool is called.
    ToolCall { id: String, name: String, params: Value },
    /// What a call turned out to be.
    ToolInput { id: String, name: String, params: Value },
    /// How a call stands.
    ToolStatus { id: String, status: ToolStatus },
    /// What a tool answered.
    ToolResult { id: String, content: String, is_error: bool },
    /// The provider failed.
    Error { code: String, message: String, provider_id: Option<String> },
    /// The agent's plan, whole; the newest stands.
    Plan { entries: Value },
    /// What it has cost so far; the newest stands.
    Usage { usage: Usage },
}

impl Entry {
    /// The entry with nothing in it that could not be read back.
    #[must_use]
    pub fn readable(self) -> Self {
        match self {
            Entry::Thought { text, raw } => Entry::Thought { text, raw: raw.map(bounded) },
            Entry::ToolCall { id, name, params } => {
                Entry::ToolCall { id, name, params: bounded(params) }
            }
            Entry::ToolInput { id, name, params } => {
                Entry::ToolInput { id, name, params: bounded(params) }
            }
            Entry::Plan { entries } => Entry::Plan { entries: bounded(entries) },
            entry => entry,
        }
    }

    /// How many bytes of words it adds.
    pub fn weight(&self) -> usize {
        match self {
            Entry::Text { text } | Entry::Thought { text, .. } => text.len(),
            Entry::ToolResult { content, .. } => content.len(),
            _ => 64,
        }
    }
}

/// What the entries amount to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Draft {
    /// The messages so far.
    pub messages: Vec<Message>,
    /// What it has cost so far.
    pub usage: Option<Usage>,
}

impl Draft {
    /// Folds entries.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut draft = Self::default();
        entries.into_iter().for_each(|entry| draft.add(entry));
        draft
    }

    /// Adds one entry. Content before the first message has nowhere to go and is left out.
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
                self.push(Part::ToolCall { id, name, params, status: ToolStatus::Running })
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
                self.push(Part::Error { code, message, provider_id })
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

    /// The newest call of that id: ids are unique within a run only, and a turn may have several.
    fn call(&mut self, wanted: &str) -> Option<&mut Part> {
        let parts =
            self.messages.iter_mut().rev().flat_map(|message| message.content.iter_mut().rev());
        parts.into_iter().find(|part| matches!(part, Part::ToolCall { id, .. } if id == wanted))
    }

    /// The calls that have no result.
    pub fn open_calls(&self) -> Vec<(String, String, Value)> {
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

    /// The last words of the agent.
    pub fn last_words(&self) -> Option<&str> {
        let said = self.messages.iter().rev().filter(|message| message.role == Role::Assistant);
        said.flat_map(|message| message.content.iter().rev()).find_map(|part| match part {
            Part::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
    }

    /// Nobody knows what became of the calls that are still open.
    pub fn cut_off(&mut self) {
        for part in self.messages.iter_mut().flat_map(|message| &mut message.content) {
            if let Part::ToolCall { status, .. } = part
                && matches!(status, ToolStatus::Pending | ToolStatus::Running)
            {
                *status = ToolStatus::Unknown;
            }
        }
    }

    /// What the turn keeps: messages that say something, large results as blobs.
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
    fn cutting_the_text_anywhere_gives_the_same_message() {
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
            draft.open_calls().iter().map(|call| call.0.as_str()).collect::<Vec<_>>(),
            ["b"]
        );
        draft.cut_off();
        assert!(draft.open_calls().is_empty());
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
    fn a_message_that_says_nothing_is_not_kept() {
        let (messages, _) = Draft::of([begin(Role::Assistant)]).finish();
        assert!(messages.is_empty());
    }
}
