//! Sessions: durable conversations, and the three axes of their state.

use serde::{Deserialize, Serialize};

use crate::id::{SessionId, TurnId};
use crate::time::Timestamp;

/// The longest label.
pub const LABEL_MAX_BYTES: usize = 512;

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
    pub head: Option<TurnId>,
    pub turn_count: u64,
    pub created_at: Timestamp,
}

/// Whether a text can be a label: printable, not empty, no white space at its ends.
pub fn label_is_legal(label: &str) -> bool {
    !label.is_empty() && label.len() <= LABEL_MAX_BYTES && label.trim() == label && !label.chars().any(char::is_control)
}
