//! Sessions: durable conversations, and the three axes of their state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, SessionId, TurnId};
use crate::time::Timestamp;

/// The longest label, in characters.
pub const LABEL_MAX_CHARS: usize = 512;

/// Is it usable and shown?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can take messages.
    Active,
    /// A crash or restart cut a run off; the next message resumes it without asking.
    Suspended,
    /// Put away, readable.
    Archived,
    /// Its stored history failed verification.
    Error,
}

/// What happens now?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Nothing.
    Idle,
    /// A run.
    Running,
    /// It waits for something from outside.
    Suspended,
}

impl Activity {
    /// What a state of older session services means here (R230); nothing where the name is unknown.
    pub fn of_legacy(name: &str) -> Option<Self> {
        match name {
            "idle" | "created" | "starting" | "stopping" | "stopped" | "error" => Some(Self::Idle),
            "running" => Some(Self::Running),
            "paused" | "suspended" => Some(Self::Suspended),
            _ => None,
        }
    }
}

/// What made the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's")]
pub enum Origin {
    Cli,
    Api,
    Inbound,
    Fork,
    Subagent,
    Import,
}

/// What is done with messages that come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// They are delivered.
    #[default]
    Open,
    /// They wait.
    Hold,
    /// They are refused.
    Refuse,
}

/// What a worker was started by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session that started it, by label.
    pub session: String,
    /// In which turn, once that is committed.
    pub turn: Option<TurnId>,
    /// By which call.
    pub tool_call: Option<String>,
}

/// A session's row, as far as rules read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id for ever.
    pub id: SessionId,
    /// What people call it; unique.
    pub label: String,
    /// A line for lists.
    pub title: Option<String>,
    /// Whose commits its tasks become.
    pub project: String,
    /// Where its agent works.
    pub working_dir: Option<String>,
    /// Is it usable and shown?
    pub status: Status,
    /// What happens now?
    pub state: Activity,
    /// The newest turn.
    pub head: Option<TurnId>,
    /// How many turns lead to the head.
    pub turn_count: u64,
    /// The named system prompt.
    pub persona: Option<String>,
    /// The preferred provider.
    pub provider_id: Option<String>,
    /// The preferred model.
    pub model: Option<String>,
    /// What made it.
    pub origin: Origin,
    /// What it was started by, where another session started it.
    pub parent: Option<Parent>,
    /// Settings of its agent: mode, effort and the like.
    pub options: BTreeMap<String, String>,
    /// What is done with messages that come.
    pub delivery: Delivery,
    /// Whether its messages make and move tasks.
    pub track_tasks: bool,
    /// The process that runs it now.
    pub owner: Option<NodeId>,
    /// What became of its last run is still to be told to the session that started it.
    pub untold: bool,
    /// The newest event.
    pub seq: u64,
    /// Who may run it now is decided by this number.
    pub fence: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When anything in its row last changed.
    pub updated_at: Timestamp,
    /// The last durable activity; idle time is counted from here.
    pub last_activity_at: Timestamp,
}

impl Session {
    /// Whether another session started it and waits for what becomes of it.
    pub fn is_worker(&self) -> bool {
        self.origin == Origin::Subagent && self.parent.is_some()
    }
}

/// A session that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Session` under the same names")]
pub struct New {
    pub id: SessionId,
    pub label: String,
    pub title: Option<String>,
    pub project: String,
    pub working_dir: Option<String>,
    pub persona: Option<String>,
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub origin: Origin,
    pub parent: Option<Parent>,
    pub track_tasks: Option<bool>,
    pub head: Option<TurnId>,
    pub turn_count: u64,
    pub created_at: Timestamp,
}

impl New {
    /// An idle session with a label and nothing else.
    pub const fn idle(
        id: SessionId,
        label: String,
        project: String,
        origin: Origin,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            label,
            title: None,
            project,
            working_dir: None,
            persona: None,
            provider_id: None,
            model: None,
            origin,
            parent: None,
            track_tasks: None,
            head: None,
            turn_count: 0,
            created_at,
        }
    }

    /// Sessions that work somewhere track tasks unless told otherwise.
    pub fn tracks_tasks(&self) -> bool {
        self.track_tasks.unwrap_or(self.working_dir.is_some())
    }

    /// The session as it will be.
    pub fn session(&self) -> Session {
        Session {
            id: self.id,
            label: self.label.clone(),
            title: self.title.clone(),
            project: self.project.clone(),
            working_dir: self.working_dir.clone(),
            status: Status::Active,
            state: Activity::Idle,
            head: self.head,
            turn_count: self.turn_count,
            persona: self.persona.clone(),
            provider_id: self.provider_id.clone(),
            model: self.model.clone(),
            origin: self.origin,
            parent: self.parent.clone(),
            options: BTreeMap::new(),
            delivery: Delivery::Open,
            track_tasks: self.tracks_tasks(),
            owner: None,
            untold: false,
            seq: 0,
            fence: 0,
            created_at: self.created_at,
            updated_at: self.created_at,
            last_activity_at: self.created_at,
        }
    }
}

/// Whether a text can be a label: printable, not empty, no white space at its ends.
pub fn label_is_legal(label: &str) -> bool {
    !label.is_empty()
        && label.chars().count() <= LABEL_MAX_CHARS
        && label.trim() == label
        && !label.chars().any(char::is_control)
}

/// Whether a text reads as a session's id. As a label it could never be used: names are taken for ids first.
pub fn reads_as_id(label: &str) -> bool {
    label.parse::<SessionId>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_older_services_have_a_meaning() {
        // R217, R230
        for name in ["created", "starting", "stopping", "stopped", "error", "idle"] {
            assert_eq!(Activity::of_legacy(name), Some(Activity::Idle), "{name}");
        }
        assert_eq!(Activity::of_legacy("paused"), Some(Activity::Suspended));
        assert_eq!(Activity::of_legacy("dreaming"), None);
        for gone in ["paused", "stopping", "stopped", "starting", "created", "error"] {
            assert!(serde_json::from_value::<Activity>(gone.into()).is_err(), "{gone} is no state");
        }
    }

    #[test]
    fn there_are_four_kinds_of_status_and_no_other() {
        // R16, R195
        for name in ["active", "suspended", "archived", "error"] {
            assert!(serde_json::from_value::<Status>(name.into()).is_ok(), "{name}");
        }
        for other in ["completed", "cancelled", "running", "Active", ""] {
            assert!(serde_json::from_value::<Status>(other.into()).is_err(), "{other}");
        }
    }
}
