//! Commits: sealed tasks, the permanent record of finished or abandoned work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{BlobId, CommitId, SessionId, StepId, TaskId, TurnId};
use crate::object::{Kind as ObjectKind, Object};
use crate::task::State;
use crate::time::Timestamp;

/// Why the task was sealed; what retrieval filters by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum CommitType {
    /// The user confirmed it.
    Normal,
    /// The user gave it up; what there was is kept.
    Abandoned,
    /// Nobody came back to it.
    StaleAutoCompact {
        /// How long it lay.
        idle_duration_secs: u64,
    },
    /// Another task took its place.
    InterruptedByNewTask {
        /// The message that asked for the other one.
        new_task_summary: String,
    },
}

impl CommitType {
    /// As it is written.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Abandoned => "abandoned",
            Self::StaleAutoCompact { .. } => "stale_auto_compact",
            Self::InterruptedByNewTask { .. } => "interrupted_by_new_task",
        }
    }

    /// Every name.
    pub const NAMES: [&'static str; 4] =
        ["normal", "abandoned", "stale_auto_compact", "interrupted_by_new_task"];
}

/// A file that the task touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTouch {
    /// Which.
    pub path: String,
    /// Whether it was written, or only read.
    pub written: bool,
    /// Its last version, where that is a blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
}

/// The files of all steps of a task, by path: written wins over read, a later version over an earlier.
pub fn merge_files(steps: impl IntoIterator<Item = Vec<FileTouch>>) -> Vec<FileTouch> {
    let mut files: BTreeMap<String, FileTouch> = BTreeMap::new();
    for touch in steps.into_iter().flatten() {
        let written = touch.written || files.get(&touch.path).is_some_and(|before| before.written);
        files.insert(touch.path.clone(), FileTouch { written, ..touch });
    }
    files.into_values().collect()
}

/// The steps that were sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRange {
    /// The newest; the others hang off it.
    pub last: StepId,
    /// How many.
    pub count: u64,
}

/// The turns of the session while the task was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRange {
    /// The oldest.
    pub first: TurnId,
    /// The newest.
    pub last: TurnId,
    /// How many.
    pub count: u64,
}

/// A commit as it is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The project's head when it was sealed; the first has none.
    pub parents: Vec<CommitId>,
    /// Whose history it belongs to.
    pub project: String,
    /// The session it was worked on in.
    pub session: SessionId,
    /// The task it seals.
    pub task: TaskId,
    /// What was to be done.
    pub description: String,
    /// What was done, in a sentence.
    pub message: String,
    /// Why it was sealed.
    pub commit_type: CommitType,
    /// The state the task ended in.
    pub state: State,
    /// The work.
    pub steps: StepRange,
    /// The conversation, where there was one.
    pub turns: Option<TurnRange>,
    /// What was touched, by path.
    pub files: Vec<FileTouch>,
    /// When the work began.
    pub started_at: Timestamp,
    /// When it was sealed.
    pub created_at: Timestamp,
}

impl Commit {
    /// The stored object.
    pub fn encode(&self) -> Object {
        Object::encode(ObjectKind::Commit, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_steps_are_merged_by_path() {
        let touch = |path: &str, written: bool, blob: u8| FileTouch {
            path: path.to_owned(),
            written,
            blob: Some(BlobId(crate::id::ObjectId::from_bytes([blob; 32]))),
        };
        let steps =
            vec![vec![touch("b", true, 1), touch("a", false, 2)], vec![touch("b", false, 3)]];
        // Written stays written; the last version counts; paths are sorted.
        assert_eq!(merge_files(steps), [touch("a", false, 2), touch("b", true, 3)]);
        assert_eq!(merge_files(Vec::new()), []);
    }
}
