//! Sessions: durable conversations, with status, state and preferences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{EntityId, NodeId, SessionId, TurnId};
use crate::identity::Envelope;
use crate::policy::ToolRights;
use crate::time::Timestamp;

#[allow(missing_docs, reason = "the name is self-explanatory")]
pub const LABEL_MAX_CHARS: usize = 512;

/// Whether a session is usable and listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The session accepts messages.
    Active,
    /// Interrupted by a restart: a run ended with its process. The next message resumes the
    /// session.
    Suspended,
    /// Hidden from lists, but readable. The next message makes the session active.
    Archived,
    /// The stored history failed verification, or an older session server had this status.
    /// Failures of a provider never set this status.
    Error,
}

impl Status {
    /// Maps a status of an older session server (R212). `completed` is the status that a completed
    /// session gets (R213); an unknown status is [`Status::Active`].
    pub fn from_legacy_name(name: &str, completed: Self) -> Self {
        match name.trim().to_ascii_lowercase().as_str() {
            "completed" => completed,
            "cancelled" | "canceled" | "archived" => Self::Archived,
            "suspended" => Self::Suspended,
            "error" => Self::Error,
            _ => Self::Active,
        }
    }
}

/// What a session does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// No run is open and nothing is awaited.
    Idle,
    /// A run is open.
    Running,
    /// At least one suspension is open.
    Suspended,
}

impl Activity {
    /// Maps a state name of older session services (R230). `None` if the name is unknown.
    pub fn from_legacy_name(name: &str) -> Option<Self> {
        match name {
            "idle" | "created" | "starting" | "stopping" | "stopped" | "error" => Some(Self::Idle),
            "running" => Some(Self::Running),
            "paused" | "suspended" => Some(Self::Suspended),
            _ => None,
        }
    }
}

/// How a session was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are those of the API")]
pub enum Origin {
    Cli,
    Api,
    Inbound,
    Fork,
    Subagent,
    Import,
}

/// What happens to incoming messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Messages are delivered.
    #[default]
    Open,
    /// Messages wait in the inbox.
    Hold,
    /// Messages are refused.
    Refuse,
}

/// The origin of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Label of the manager.
    pub session: String,
    /// The turn of the manager that started the worker, once it is stored.
    pub turn: Option<TurnId>,
    /// The tool call that started the worker.
    pub tool_call: Option<String>,
}

/// How messages from channels reach a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Routing {
    /// The key of the sender's address, if the session belongs to direct messages of one sender.
    pub key: Option<String>,
    /// The entity whose direct messages the session receives.
    pub entity: Option<EntityId>,
    /// The policy that created the session.
    pub policy: Option<String>,
    /// The label of the session that receives the messages of the entity instead of this one.
    pub merged_into: Option<String>,
}

/// A session row, as far as rules read it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Session {
    pub id: SessionId,
    /// The unique name of the session.
    pub label: String,
    /// One line for lists, by default the start of the first message.
    pub title: Option<String>,
    /// The project that receives the commits of this session.
    pub project: String,
    pub working_dir: Option<String>,
    pub status: Status,
    pub state: Activity,
    /// The newest turn.
    pub head: Option<TurnId>,
    /// Number of turns from the root to the head.
    pub turn_count: u64,
    pub persona: Option<String>,
    /// The preferred provider. `None` for the default provider.
    pub provider_id: Option<String>,
    /// The preferred model. `None` if the provider chooses it.
    pub model: Option<String>,
    pub origin: Origin,
    /// The session that started this one, or the session and turn that it was forked from.
    pub parent: Option<Parent>,
    pub routing: Routing,
    /// The tools that the sender of the newest message with rights permits. They apply to runs
    /// that no person started.
    pub tool_rights: Vec<ToolRights>,
    /// The envelope of the newest message of a person, if it came from a channel. Answers to
    /// reports of workers go there.
    pub envelope: Option<Envelope>,
    /// Settings of the agent, such as mode or effort.
    pub options: BTreeMap<String, String>,
    pub delivery: Delivery,
    /// Whether messages of users start tasks and change their state.
    pub track_tasks: bool,
    /// The process that runs the session now.
    pub owner: Option<NodeId>,
    /// Whether the manager has not received the report of the last run yet.
    pub unreported: bool,
    /// Sequence number of the newest event.
    pub seq: u64,
    /// The fence of the newest run. Writes with a lower fence are rejected.
    pub fence: u64,
    pub created_at: Timestamp,
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// The last stored activity. Idle time is counted from here.
    pub last_activity_at: Timestamp,
}

impl Session {
    /// The session that started this one. The origin of a fork does not manage it.
    pub fn manager(&self) -> Option<&Parent> {
        self.parent.as_ref().filter(|_| self.origin != Origin::Fork)
    }

    /// Whether another session started this one and receives its reports.
    pub fn is_worker(&self) -> bool {
        self.origin == Origin::Subagent && self.parent.is_some()
    }

    /// Whether the stored history failed verification. An imported session has the status
    /// [`Status::Error`] because its source had it; it becomes active with the next message.
    pub fn is_damaged(&self) -> bool {
        self.status == Status::Error && self.origin != Origin::Import
    }
}

/// A session to be created.
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
    pub routing: Routing,
    pub track_tasks: Option<bool>,
    pub head: Option<TurnId>,
    pub turn_count: u64,
    pub created_at: Timestamp,
    /// The time of creation, if absent.
    pub last_activity_at: Option<Timestamp>,
}

impl New {
    /// A session with a label and no preferences.
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
            routing: Routing { key: None, entity: None, policy: None, merged_into: None },
            track_tasks: None,
            head: None,
            turn_count: 0,
            created_at,
            last_activity_at: None,
        }
    }

    /// By default, sessions with a working directory track tasks.
    pub fn tracks_tasks(&self) -> bool {
        self.track_tasks.unwrap_or(self.working_dir.is_some())
    }

    /// The session row after creation.
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
            routing: self.routing.clone(),
            tool_rights: Vec::new(),
            envelope: None,
            options: BTreeMap::new(),
            delivery: Delivery::Open,
            track_tasks: self.tracks_tasks(),
            owner: None,
            unreported: false,
            seq: 0,
            fence: 0,
            created_at: self.created_at,
            updated_at: self.created_at,
            last_activity_at: self.last_activity_at.unwrap_or(self.created_at),
        }
    }
}

/// Whether a text is a valid label: printable, not empty, at most [`LABEL_MAX_CHARS`] long and
/// without white space at its ends.
pub fn is_valid_label(label: &str) -> bool {
    !label.is_empty()
        && label.chars().count() <= LABEL_MAX_CHARS
        && label.trim() == label
        && !label.chars().any(char::is_control)
}

/// Whether a text has the form of a session id. Such a label could not be used, because sessions
/// are looked up by id first.
pub fn is_session_id(label: &str) -> bool {
    label.parse::<SessionId>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_older_services_are_mapped() {
        // R217, R230
        for name in ["created", "starting", "stopping", "stopped", "error", "idle"] {
            assert_eq!(Activity::from_legacy_name(name), Some(Activity::Idle), "{name}");
        }
        assert_eq!(Activity::from_legacy_name("paused"), Some(Activity::Suspended));
        assert_eq!(Activity::from_legacy_name("dreaming"), None);
        for removed in ["paused", "stopping", "stopped", "starting", "created", "error"] {
            assert!(
                serde_json::from_value::<Activity>(removed.into()).is_err(),
                "{removed} is not a state"
            );
        }
    }

    #[test]
    fn statuses_of_older_servers_are_mapped() {
        // R212, R213
        for (name, expected) in [
            ("active", Status::Active),
            ("suspended", Status::Suspended),
            ("cancelled", Status::Archived),
            ("archived", Status::Archived),
            ("error", Status::Error),
            ("ERROR", Status::Error),
            ("something else", Status::Active),
            ("", Status::Active),
            ("completed", Status::Active),
        ] {
            assert_eq!(Status::from_legacy_name(name, Status::Active), expected, "{name}");
        }
        assert_eq!(Status::from_legacy_name("completed", Status::Archived), Status::Archived);
    }

    #[test]
    fn status_has_exactly_four_values() {
        // R16, R195
        for name in ["active", "suspended", "archived", "error"] {
            assert!(serde_json::from_value::<Status>(name.into()).is_ok(), "{name}");
        }
        for other in ["completed", "cancelled", "running", "Active", ""] {
            assert!(serde_json::from_value::<Status>(other.into()).is_err(), "{other}");
        }
    }
}
