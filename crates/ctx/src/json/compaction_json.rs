//! A compaction's row as every surface gives it (R173).

use ctx_engine::core::compaction::Compaction as Row;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::talk::name;

/// What a turn of type compaction stands for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Compaction {
    turn_id: String,
    summary: String,
    summarized_through_turn_id: Option<String>,
    /// Null where nothing before the compaction is sent as it is.
    first_kept_turn_id: Option<String>,
    turns_summarized: u64,
    /// `summary`, or `extractive` where no model could be asked
    compaction_type: String,
    model: Option<String>,
    provider: Option<String>,
    tokens_before: u64,
    tokens_after: u64,
    summary_tokens: u64,
    summarization_input_tokens: Option<u64>,
    summarization_output_tokens: Option<u64>,
    duration_ms: u64,
    /// `proactive`, `reactive` or `manual`
    trigger: String,
    /// `ctx`, or `agent` for an agent's own window
    by: String,
    #[schema(value_type = Object)]
    metadata_json: Value,
}

impl Compaction {
    /// The row of a turn.
    pub(crate) fn of(turn: &str, row: &Row) -> Self {
        Self {
            turn_id: turn.to_owned(),
            summary: row.summary.clone(),
            summarized_through_turn_id: row.summarized_through.map(|turn| turn.to_string()),
            first_kept_turn_id: row.first_kept.map(|turn| turn.to_string()),
            turns_summarized: row.turns_summarized,
            compaction_type: name(&row.kind),
            model: row.model.clone(),
            provider: row.provider.clone(),
            tokens_before: row.tokens_before,
            tokens_after: row.tokens_after,
            summary_tokens: row.summary_tokens,
            summarization_input_tokens: row.summarization_input_tokens,
            summarization_output_tokens: row.summarization_output_tokens,
            duration_ms: row.duration_ms,
            trigger: name(&row.trigger),
            by: name(&row.metadata.by),
            metadata_json: serde_json::to_value(&row.metadata).unwrap_or_default(),
        }
    }
}
