//! Aliases: further labels of a session (R134–R143). An alias names a session, never another alias.

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::session::is_valid_label;
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

impl Alias {
    /// An alias that a user adds. `is_taken`: whether a session or another alias has the name.
    ///
    /// Fails if the name is not a valid label or is taken.
    pub fn manual(
        alias: &str,
        session_label: &str,
        is_taken: bool,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        if !is_valid_label(alias) {
            return Err(Refusal::BadLabel { label: alias.chars().take(80).collect() });
        }
        if is_taken {
            return Err(Refusal::LabelInUse { label: alias.to_owned() });
        }
        Ok(Self {
            alias: alias.to_owned(),
            session_label: session_label.to_owned(),
            reason: Reason::Manual,
            created_at: now,
        })
    }
}
