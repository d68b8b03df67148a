//! Turns: one exchange each, immutable and linked to the parent.
//!
//! The id of a turn is the hash of its header, and the header contains the hash of the body. A
//! header never contains a session, a label or a row number: forks share turns, and after a purge
//! of the body the ids of later turns are still valid. The header lists messages and tool calls
//! without their text, so that queries do not read bodies.

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::compaction::Compaction;
use crate::id::{BlobId, ObjectId, TurnId};
use crate::message::{Message, Part, Role};
use crate::object::{Kind as ObjectKind, Named, Object};
use crate::time::Timestamp;
use crate::usage::Dollars;
use crate::worker;

mod body;
mod header;

pub use body::messages;
pub use header::{Header, MessageHead, ToolCallHead};

/// The kind of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Messages and an answer.
    #[default]
    Normal,
    /// A summary that replaces earlier turns in requests.
    Compaction,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Status {
    #[default]
    Completed,
    Failed,
    Interrupted,
    Cancelled,
}

/// Whether the messages of a turn are only between the user and ctx: a command and its answer, or a
/// notice. Such a turn is part of the transcript and is not sent to a provider.
pub fn is_with_ctx_only(provider_id: Option<&str>, messages: &[Message]) -> bool {
    let has = |role: Role| messages.iter().any(|message| message.role == role);
    let summary = parts(messages).any(|(_, part)| matches!(part, Part::Summary { .. }));
    provider_id.is_none() && has(Role::System) && !has(Role::Assistant) && !summary
}

/// Tokens and cost of a turn. A value that the provider did not report is `None`, never zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Input tokens of the last call of the model, if the other values are sums of several calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_input_tokens: Option<u64>,
    pub scope: String,
}

impl Usage {
    /// The usage of a turn after one more call of its provider.
    #[must_use]
    pub fn after(earlier: Option<&Self>, call: Self) -> Self {
        let Some(earlier) = earlier else { return call };
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        let amount = |usage: &Self| usage.cost.as_deref().and_then(Dollars::of_cost);
        // A cost of some of the calls would pass for the cost of all.
        let cost = match (amount(earlier), amount(&call)) {
            (Some(a), Some(b)) => Some(format!("{} USD", Dollars(a.0.saturating_add(b.0)))),
            _ => None,
        };
        let is_sum = |usage: &Self| matches!(usage.scope.as_str(), "turn" | "last_call");
        Self {
            input_tokens: sum(earlier.input_tokens, call.input_tokens),
            output_tokens: sum(earlier.output_tokens, call.output_tokens),
            cached_tokens: sum(earlier.cached_tokens, call.cached_tokens),
            cost,
            last_input_tokens: call.last_call_input(),
            scope: if is_sum(earlier) && is_sum(&call) { "turn".to_owned() } else { call.scope },
        }
    }

    /// The input tokens of the last call of the model, if they are known.
    pub fn last_call_input(&self) -> Option<u64> {
        if self.scope == "last_call" { self.input_tokens } else { self.last_input_tokens }
    }
}

/// The blobs of all messages, sorted and without duplicates.
pub fn blobs(messages: &[Message]) -> Vec<BlobId> {
    let mut blobs: Vec<BlobId> = parts(messages).filter_map(|(_, part)| part.blob()).collect();
    blobs.sort_unstable();
    blobs.dedup();
    blobs
}

fn parts(messages: &[Message]) -> impl Iterator<Item = (usize, &Part)> {
    messages
        .iter()
        .enumerate()
        .flat_map(|(n, message)| message.content.iter().map(move |part| (n, part)))
}

fn tool_calls(messages: &[Message]) -> Vec<ToolCallHead> {
    let call = |(message, part): (usize, &Part)| match part {
        Part::ToolCall { id, name, status, .. } => Some(ToolCallHead {
            id: id.clone(),
            message,
            name: name.clone(),
            status: *status,
            spawned_session_label: worker::is_dispatch(name)
                .then(|| spawned(messages, id))
                .flatten(),
        }),
        _ => None,
    };
    parts(messages).filter_map(call).collect()
}

/// The label of the worker that a call started, taken from its result.
fn spawned(messages: &[Message], call: &str) -> Option<String> {
    parts(messages).find_map(|(_, part)| match part {
        Part::ToolResult { tool_call_id, content, is_error: false } if tool_call_id == call => {
            worker::find_label(content.text()?)
        }
        _ => None,
    })
}

/// An encoded turn without its parent, which is known only inside the transaction: the canonical
/// bytes of the header before and after the parent.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    before_parent: Vec<u8>,
    after_parent: Vec<u8>,
    body: ObjectId,
    blobs: Vec<BlobId>,
    spawned: Vec<String>,
}

/// The header fields of a turn that do not depend on its messages or its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Header` under the same names")]
pub struct About {
    pub kind: Kind,
    pub status: Status,
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

impl About {
    /// A completed turn that started and ended at `at`.
    pub const fn at(at: Timestamp) -> Self {
        Self {
            kind: Kind::Normal,
            status: Status::Completed,
            provider_id: None,
            model: None,
            usage: None,
            started_at: at,
            ended_at: at,
        }
    }
}

impl Ready {
    /// Encodes the body and the header without its parent.
    ///
    /// # Panics
    /// Never: a header has one field `parent`, and strings in it cannot contain an unescaped quote.
    pub fn new(about: About, messages: Vec<Message>) -> (Self, Named) {
        const ROOT: &[u8] = b"\"parent\":null";
        let (header, body) = encode(about, &messages);
        let bytes = canonical::to_bytes(&header);
        let at = bytes
            .windows(ROOT.len())
            .position(|window| window == ROOT)
            .expect("a header has a field `parent`");
        let cut = at + ROOT.len() - b"null".len();
        let spawned =
            header.tool_calls.into_iter().filter_map(|call| call.spawned_session_label).collect();
        let (before_parent, after_parent) =
            (bytes[..cut].to_vec(), bytes[at + ROOT.len()..].to_vec());
        let ready =
            Self { before_parent, after_parent, body: body.id(), blobs: blobs(&messages), spawned };
        (ready, body)
    }

    /// Completes the turn with its parent.
    pub fn with_parent(&self, parent: Option<TurnId>) -> Record {
        let parent = parent.map_or_else(|| "null".to_owned(), |parent| format!("\"{parent}\""));
        let bytes = [&self.before_parent, parent.as_bytes(), &self.after_parent].concat();
        let object =
            Object { kind: ObjectKind::Turn, version: ObjectKind::Turn.newest_version(), bytes };
        Record {
            id: TurnId(object.id()),
            object,
            body: self.body,
            blobs: self.blobs.clone(),
            spawned: self.spawned.clone(),
            compaction: None,
        }
    }
}

fn encode(about: About, messages: &[Message]) -> (Header, Named) {
    let tool_calls = tool_calls(messages);
    let body = Named::from(body::encode(messages, about.started_at, &tool_calls));
    let header = Header {
        parent: None,
        kind: about.kind,
        status: about.status,
        provider_id: about.provider_id,
        model: about.model,
        usage: about.usage,
        started_at: about.started_at,
        ended_at: about.ended_at,
        messages: messages
            .iter()
            .map(|m| MessageHead { id: m.id, role: m.role, source: m.source })
            .collect(),
        tool_calls,
        body: body.id(),
    };
    (header, body)
}

/// A turn to be stored.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Record {
    pub id: TurnId,
    /// The encoded header.
    pub object: Object,
    /// Id of the body.
    pub body: ObjectId,
    /// The blobs that the body refers to.
    pub blobs: Vec<BlobId>,
    /// Labels of the workers that the turn started.
    pub spawned: Vec<String>,
    /// The compaction record, if the turn is an imported compaction.
    pub compaction: Option<Box<Compaction>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_several_calls_is_their_sum() {
        let call = |input, output, cost: Option<&str>| Usage {
            input_tokens: input,
            output_tokens: output,
            cost: cost.map(str::to_owned),
            scope: "last_call".to_owned(),
            ..Usage::default()
        };
        let first = Usage::after(None, call(Some(100), Some(5), Some("0.1 USD")));
        assert_eq!((first.scope.as_str(), first.last_call_input()), ("last_call", Some(100)));
        let both = Usage::after(Some(&first), call(Some(130), Some(7), Some("0.2 USD")));
        assert_eq!((both.input_tokens, both.output_tokens), (Some(230), Some(12)));
        assert_eq!((both.cost.as_deref(), both.scope.as_str()), (Some("0.3 USD"), "turn"));
        assert_eq!(both.last_call_input(), Some(130), "the size of the last request");
        let third = Usage::after(Some(&both), call(None, Some(1), None));
        assert_eq!((third.input_tokens, third.output_tokens), (Some(230), Some(13)));
        assert_eq!((third.cost, third.last_input_tokens), (None, None));
    }

    use crate::id::MessageId;
    use crate::message::{Role, ToolStatus};
    use ulid::Ulid;

    #[test]
    fn a_prepared_turn_with_a_parent_equals_the_encoded_header() {
        let tricky = Part::Text { text: r#"{"parent":null}"#.to_owned() };
        let call = Part::ToolCall {
            id: "\"parent\":null".to_owned(),
            name: "t".to_owned(),
            params: serde_json::json!({"parent": null}),
            status: ToolStatus::Pending,
        };
        let message = Message {
            id: MessageId(Ulid(1)),
            role: Role::User,
            source: None,
            content: vec![tricky, call],
            created_at: Timestamp(1),
        };
        let (ready, _) = Ready::new(
            About { model: Some("parent".to_owned()), ..About::at(Timestamp(2)) },
            vec![message.clone()],
        );
        let (header, _) = encode(
            About { model: Some("parent".to_owned()), ..About::at(Timestamp(2)) },
            &[message],
        );
        for parent in [None, Some(TurnId(ObjectId::of(&[b"x"])))] {
            let whole = Object::encode(ObjectKind::Turn, &Header { parent, ..header.clone() });
            assert_eq!(ready.with_parent(parent).object, whole);
        }
    }
}
