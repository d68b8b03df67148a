//! Aliases: further labels of a session (R134–R143). An alias names a session, never another alias.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Why an alias was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The sender of a channel became known; the session of the channel goes on.
    IdentityPromotion,
    /// Two entities were merged.
    IdentityMerge,
    /// A user added it.
    Manual,
}

/// Another label of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the API")]
pub struct Alias {
    pub alias: String,
    pub session_label: String,
    pub reason: Reason,
    pub created_at: Timestamp,
}
