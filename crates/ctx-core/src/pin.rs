//! Pinned turns: sent as they are, whatever is summarised around them.

use crate::id::TurnId;
use crate::time::Timestamp;

/// A turn that a session has pinned. It is always one of those that lead to the session's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Which.
    pub turn: TurnId,
    /// How many turns lead to it, itself included.
    pub depth: u64,
    /// What it takes.
    pub tokens: u64,
    /// Since when.
    pub at: Timestamp,
}
