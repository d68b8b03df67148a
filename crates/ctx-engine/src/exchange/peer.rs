//! [`Peer`]: a store that takes part in an exchange. It may be on another machine, and it may lie:
//! nothing that it sends is stored before it was verified.

use async_trait::async_trait;
use ctx_core::exchange::{PartRequest, PathQuery, Placement, SessionHead, TaskMark};
use ctx_core::id::{SessionId, TaskId, TurnId};
use ctx_core::refusal::Refusal;
use serde::{Deserialize, Serialize};

use crate::engine::Error;
use crate::session_bundles::ImportEffect;

/// Why a peer did not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct PeerError {
    /// A stable code.
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}

impl PeerError {
    /// An error with a code and a message.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None }
    }

    /// Adds a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// An answer that does not fit its request.
    pub fn protocol(why: impl std::fmt::Display) -> Self {
        Self::new("remote_protocol", format!("invalid answer of the remote: {why}"))
    }

    /// Whether only one session is affected, because it is in use or was changed meanwhile.
    pub(crate) fn concerns_one_session(&self) -> bool {
        [Refusal::StaleWriter.code(), "session_busy", "label_in_use"].contains(&&*self.code)
    }

    /// The reason why a session was left for the next transfer.
    pub(crate) fn for_session(self) -> Self {
        if self.code == Refusal::StaleWriter.code() {
            return Self::new(&self.code, "the session was changed during the transfer");
        }
        self
    }
}

impl From<Error> for PeerError {
    fn from(error: Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// The effect of storing a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct PartStored {
    pub session: SessionId,
    /// The label of the session in the store.
    pub label: String,
    pub effect: ImportEffect,
    /// Number of turns that were added.
    pub turns: u64,
    /// Number of tasks that were added.
    pub tasks: usize,
    /// Number of tasks that were not added because another task is open.
    pub tasks_left: usize,
}

/// A store that takes part in an exchange. Lists of answers have the order of the request.
#[async_trait]
pub trait Peer: Send + Sync {
    /// Every session.
    async fn heads(&self) -> Result<Vec<SessionHead>, PeerError>;

    /// The turns at depths of paths.
    async fn paths(&self, queries: &[PathQuery]) -> Result<Vec<Vec<Option<TurnId>>>, PeerError>;

    /// Whether turns are stored.
    async fn have(&self, turns: &[TurnId]) -> Result<Vec<bool>, PeerError>;

    /// The tasks of sessions.
    async fn tasks(&self, sessions: &[SessionId]) -> Result<Vec<Vec<TaskMark>>, PeerError>;

    /// Tasks by their ids.
    async fn task_marks(&self, tasks: &[TaskId]) -> Result<Vec<Option<TaskMark>>, PeerError>;

    /// The next part of each session. At least one part is returned; the last requests may be left
    /// out if the parts would be too large together.
    async fn read(&self, requests: &[PartRequest]) -> Result<Vec<Vec<u8>>, PeerError>;

    /// Verifies parts and stores each in one transaction.
    async fn write(
        &self,
        parts: &[(Placement, Vec<u8>)],
    ) -> Result<Vec<Result<PartStored, PeerError>>, PeerError>;

    /// Makes everything that was written visible to others.
    async fn finish(&self) -> Result<(), PeerError> {
        Ok(())
    }
}
