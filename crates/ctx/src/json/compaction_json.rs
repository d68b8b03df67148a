//! A compaction row (R173): the field `compaction` of a turn.

use ctx_engine::core::compaction::Compaction as CoreCompaction;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::variant_name;

/// The summary that replaces earlier turns in the context window
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Compaction {
    turn_id: String,
    summary: String,
    summarized_through_turn_id: Option<String>,
    /// Null if no earlier turn is kept in the context unchanged
    first_kept_turn_id: Option<String>,
    turns_summarized: u64,
    /// `summary`, `sliding_window` (no model wrote the summary: the newest lines are kept) or
    /// `selective`
    compaction_type: String,
    model: Option<String>,
    provider: Option<String>,
    tokens_before: u64,
    tokens_after: u64,
    summary_tokens: u64,
    summarization_input_tokens: Option<u64>,
    summarization_output_tokens: Option<u64>,
    duration_ms: u64,
    /// `context_limit` (before a request that was too large), `overflow_recovery` (the provider
    /// rejected the request as too large), `manual` or `periodic`
    trigger: String,
    /// `ctx`, or `agent` if the agent shortened its own context
    by: String,
    #[schema(value_type = Object)]
    metadata_json: Value,
}

impl Compaction {
    pub(crate) fn of(turn: &str, row: &CoreCompaction) -> Self {
        Self {
            turn_id: turn.to_owned(),
            summary: row.summary.clone(),
            summarized_through_turn_id: row.summarized_through.map(|turn| turn.to_string()),
            first_kept_turn_id: row.first_kept.map(|turn| turn.to_string()),
            turns_summarized: row.turns_summarized,
            compaction_type: variant_name(&row.kind),
            model: row.model.clone(),
            provider: row.provider.clone(),
            tokens_before: row.tokens_before,
            tokens_after: row.tokens_after,
            summary_tokens: row.summary_tokens,
            summarization_input_tokens: row.summarization_input_tokens,
            summarization_output_tokens: row.summarization_output_tokens,
            duration_ms: row.duration_ms,
            trigger: variant_name(&row.trigger),
            by: variant_name(&row.metadata.by),
            metadata_json: serde_json::to_value(&row.metadata).unwrap_or_default(),
        }
    }
}
