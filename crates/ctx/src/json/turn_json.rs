//! A turn, a turn in the tree, and a move of a session's head.

use ctx_engine::core::pin::Pin;
use ctx_engine::core::turn::Usage as CoreUsage;
use ctx_engine::{HeadMove as EngineHeadMove, StoredTurn, TreeTurn as EngineTreeTurn};
use serde::Serialize;
use utoipa::ToSchema;

use super::compaction_json::Compaction;
use super::message_json::Message;
use super::{optional_string, variant_name};

/// Tokens and cost of a turn; a value that the provider did not report is null
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cost: Option<String>,
    /// What the numbers cover: `turn`, `last_call`, `session` or `unknown`
    scope: String,
}

/// One or more incoming messages and everything the agent answered
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turn {
    id: String,
    parent: Option<String>,
    session: Option<String>,
    /// `normal` or `compaction`
    #[serde(rename = "type")]
    kind: String,
    /// `completed`, `failed`, `interrupted` or `cancelled`
    status: String,
    /// Number of turns from the root, this one included
    depth: u64,
    provider_id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    started_at: String,
    ended_at: String,
    /// Empty if the body was purged
    messages: Vec<Message>,
    /// Set only for turns of type `compaction`
    compaction: Option<Compaction>,
    /// Whether the session includes this turn in every request, even after a compaction
    pinned: bool,
}

impl From<&CoreUsage> for Usage {
    fn from(usage: &CoreUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            cost: usage.cost.clone(),
            scope: usage.scope.clone(),
        }
    }
}

impl Turn {
    pub(crate) fn of(turn: &StoredTurn, session: Option<String>) -> Self {
        let header = &turn.header;
        let messages = turn.messages().ok().flatten().unwrap_or_default();
        let message = |message: ctx_engine::core::message::Message| {
            let delivered_at = message.delivered_after_waiting(header.started_at);
            let (provider_id, model) = (header.provider_id.clone(), header.model.clone());
            Message::of(message, Some(turn.id.to_string()), provider_id, model)
                .with_delivery(delivered_at)
        };
        Self {
            id: turn.id.to_string(),
            parent: optional_string(&header.parent),
            session,
            kind: variant_name(&header.kind),
            status: variant_name(&header.status),
            depth: turn.depth,
            provider_id: header.provider_id.clone(),
            model: header.model.clone(),
            usage: header.usage.as_ref().map(Usage::from),
            started_at: header.started_at.to_string(),
            ended_at: header.ended_at.to_string(),
            messages: messages.into_iter().map(message).collect(),
            compaction: turn
                .compaction
                .as_ref()
                .map(|row| Compaction::of(&turn.id.to_string(), row)),
            pinned: false,
        }
    }

    /// Sets `pinned` if the session's pins include this turn.
    pub(crate) fn with_pins(self, pins: &[Pin]) -> Self {
        let pinned = pins.iter().any(|pin| pin.turn.to_string() == self.id);
        Self { pinned, ..self }
    }
}

/// A turn in the tree
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TreeTurn {
    id: String,
    parent: Option<String>,
    /// Number of turns from the root, this one included
    depth: u64,
    /// Labels of the sessions whose head is this turn
    heads: Vec<String>,
}

impl From<&EngineTreeTurn> for TreeTurn {
    fn from(turn: &EngineTreeTurn) -> Self {
        Self {
            id: turn.id.to_string(),
            parent: optional_string(&turn.parent),
            depth: turn.depth,
            heads: turn.heads.clone(),
        }
    }
}

/// A move of a session's head
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeadMove {
    turn: Option<String>,
    changed_at: String,
}

impl From<&EngineHeadMove> for HeadMove {
    fn from(moved: &EngineHeadMove) -> Self {
        Self { turn: optional_string(&moved.turn), changed_at: moved.at.to_string() }
    }
}
