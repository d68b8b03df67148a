//! A commit: a sealed task.

use ctx_engine::core::commit::Commit;
use ctx_engine::core::decide::CommitRecord;
use ctx_engine::core::id::CommitId;
use serde_json::{Value, json};

use super::task_json::state;
use super::time;

pub(crate) fn commit(id: CommitId, commit: &Commit) -> Value {
    json!({
        "id": id,
        "parents": commit.parents,
        "project": commit.project,
        "session": commit.session,
        "task": commit.task,
        "description": commit.description,
        "message": commit.message,
        "commit_type": commit.commit_type,
        "state": state(&commit.state),
        "steps": commit.steps,
        "turns": commit.turns,
        "files": commit.files,
        "started_at": time(commit.started_at),
        "created_at": time(commit.created_at),
    })
}

pub(crate) fn commit_record(record: &CommitRecord) -> Value {
    commit(record.id, &record.commit)
}
