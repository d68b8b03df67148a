//! Commits: sealed tasks, the permanent record of finished or abandoned work. A commit never
//! changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{BlobId, CommitId, SessionId, StepId, TaskId, TurnId};
use crate::object::{Kind as ObjectKind, Object};
use crate::task::State;
use crate::time::Timestamp;

/// Why the task was sealed. Queries filter by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum CommitType {
    /// The user confirmed the task.
    Normal,
    /// The user abandoned the task. The recorded work is kept.
    Abandoned,
    /// The task was idle for longer than the limit.
    StaleAutoCompact {
        /// Idle time in seconds.
        idle_duration_secs: u64,
    },
    /// The user started another task.
    InterruptedByNewTask {
        /// First line of the message that started the other task.
        new_task_summary: String,
    },
}

impl CommitType {
    /// The name in JSON and in the database.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Abandoned => "abandoned",
            Self::StaleAutoCompact { .. } => "stale_auto_compact",
            Self::InterruptedByNewTask { .. } => "interrupted_by_new_task",
        }
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const NAMES: [&'static str; 4] =
        ["normal", "abandoned", "stale_auto_compact", "interrupted_by_new_task"];
}

/// A file that the task read or wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct FileTouch {
    pub path: String,
    /// Whether the task wrote the file. False if it only read it.
    pub written: bool,
    /// The last version of the file, if it is stored as a blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
}

/// The files of all steps of a task, by path: written wins over read, a later version over an
/// earlier.
pub fn merge_files(steps: impl IntoIterator<Item = Vec<FileTouch>>) -> Vec<FileTouch> {
    let mut files: BTreeMap<String, FileTouch> = BTreeMap::new();
    for touch in steps.into_iter().flatten() {
        let written = touch.written || files.get(&touch.path).is_some_and(|before| before.written);
        files.insert(touch.path.clone(), FileTouch { written, ..touch });
    }
    files.into_values().collect()
}

/// The steps of the task. The newest step links to all others through its parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct StepRange {
    pub last: StepId,
    pub count: u64,
}

/// The turns that the session added while the task was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct TurnRange {
    pub first: TurnId,
    pub last: TurnId,
    pub count: u64,
}

/// The content of a commit. Its canonical encoding is hashed to give the commit id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Commit {
    /// The newest commit of the project at the time of sealing. Empty for the first commit.
    pub parents: Vec<CommitId>,
    pub project: String,
    pub session: SessionId,
    pub task: TaskId,
    /// The description of the task.
    pub description: String,
    /// One sentence about the result.
    pub message: String,
    pub commit_type: CommitType,
    /// The final state of the task.
    pub state: State,
    pub steps: StepRange,
    /// `None` if the session added no turn while the task was open.
    pub turns: Option<TurnRange>,
    /// The files that the task read or wrote, sorted by path.
    pub files: Vec<FileTouch>,
    /// When the task was started.
    pub started_at: Timestamp,
    /// When the task was sealed.
    pub created_at: Timestamp,
}

impl Commit {
    /// Encodes the commit as an object.
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
