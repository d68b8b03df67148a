//! A run.

use ctx_engine::core::run::Run as CoreRun;
use serde::Serialize;
use utoipa::ToSchema;

use super::{optional_string, variant_name};

/// One attempt of a provider to produce a turn
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Run {
    id: String,
    session: String,
    /// `processing`, `streaming`, `compacting` or `completing`
    phase: String,
    provider_id: String,
    model: Option<String>,
    /// Null while the run is open
    outcome: Option<String>,
    started_at: String,
    ended_at: Option<String>,
}

impl Run {
    pub(crate) fn of(run: &CoreRun, session: String) -> Self {
        Self {
            id: run.id.to_string(),
            session,
            phase: run.phase.name().to_owned(),
            provider_id: run.provider_id.clone(),
            model: run.model.clone(),
            outcome: run.outcome.map(|outcome| variant_name(&outcome)),
            started_at: run.started_at.to_string(),
            ended_at: optional_string(&run.ended_at),
        }
    }
}
