//! The result of importing a session.

use ctx_engine::{ImportEffect, Imported as EngineImported};
use serde::Serialize;
use utoipa::ToSchema;

use super::session_json::Session;

/// The result of importing a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Imported {
    session: Session,
    /// `created`: the session is new here. `extended`: it existed and received the missing turns.
    /// `unchanged`: it existed with all turns of the bundle.
    arrival: &'static str,
    /// The label in the bundle, if another session already has that label here
    renamed_from: Option<String>,
    /// Number of turns that were added
    turns_added: u64,
    tasks_added: usize,
    /// Number of tasks that were skipped because another task is open here
    tasks_left: usize,
}

impl Imported {
    pub(crate) fn of(imported: &EngineImported, session: Session) -> Self {
        Self {
            session,
            arrival: Self::arrival_name(imported.arrival),
            renamed_from: imported.renamed_from.clone(),
            turns_added: imported.turns,
            tasks_added: imported.tasks,
            tasks_left: imported.tasks_left,
        }
    }

    const fn arrival_name(arrival: ImportEffect) -> &'static str {
        match arrival {
            ImportEffect::Created => "created",
            ImportEffect::Extended => "extended",
            ImportEffect::Unchanged => "unchanged",
        }
    }
}
