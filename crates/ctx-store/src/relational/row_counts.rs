//! Numbers of stored rows.

use crate::Error;
use crate::driver::{Db, args};

/// Number of rows of each table that a health report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowCounts {
    pub(crate) sessions: u64,
    pub(crate) turns: u64,
    pub(crate) steps: u64,
    pub(crate) commits: u64,
    pub(crate) blobs: u64,
}

impl RowCounts {
    pub(crate) fn read(db: &dyn Db) -> Result<Self, Error> {
        let count = |sql| Ok::<_, Error>(db.int(sql, args![])?.unwrap_or(0).unsigned_abs());
        Ok(Self {
            sessions: count("SELECT COUNT(*) FROM sessions")?,
            turns: count("SELECT COUNT(*) FROM turns")?,
            steps: count("SELECT COUNT(*) FROM steps")?,
            commits: count("SELECT COUNT(*) FROM commits")?,
            blobs: count("SELECT COUNT(*) FROM blobs")?,
        })
    }

    /// Number of objects that have a hash.
    pub(crate) const fn objects(&self) -> u64 {
        self.turns + self.steps + self.commits + self.blobs
    }
}
