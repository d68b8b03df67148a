//! Pinned turns: every request contains them in full, also after a compaction.

use crate::id::TurnId;
use crate::time::Timestamp;

/// A turn that a session has pinned. It is always the head or an ancestor of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Pin {
    pub turn: TurnId,
    /// Number of turns on the path from the root, 1 for the root.
    pub depth: u64,
    /// Tokens of the turn, estimated when it was pinned.
    pub tokens: u64,
    /// When the turn was pinned.
    pub at: Timestamp,
}
