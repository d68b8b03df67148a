//! The JSON that every surface gives: one shape for each thing, times as RFC 3339.

pub(crate) mod compaction;
pub(crate) mod diff;
pub(crate) mod provider;
pub(crate) mod talk;

use ctx_engine::core::bundle::TaskBundle;
use ctx_engine::core::commit::Commit;
use ctx_engine::core::decide::CommitRecord;
use ctx_engine::core::id::CommitId;
use ctx_engine::core::object::Object;
use ctx_engine::core::prompt::{Choice, Prompt};
use ctx_engine::core::task::{State, Task};
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Hit, Sentence};
use serde_json::{Value, json};

pub(crate) fn task(task: &Task) -> Value {
    json!({
        "id": task.id,
        "session": task.session,
        "description": task.description,
        "state": state(&task.state),
        "steps": task.steps,
        "head": task.head,
        "started_at": time(task.started_at),
        "last_activity_at": time(task.last_activity_at),
        "progress": task.progress.summary(),
        "commit": task.commit,
    })
}

pub(crate) fn state(state: &State) -> Value {
    let mut value = json!(state);
    if let State::AwaitingUser { asked_at, .. } = state {
        value["asked_at"] = time(Timestamp(asked_at.saturating_mul(1000)));
    }
    value
}

pub(crate) fn time(at: Timestamp) -> Value {
    json!(at.to_string())
}

pub(crate) fn prompt(prompt: &Prompt) -> Value {
    json!({
        "id": prompt.id,
        "kind": prompt.kind(),
        "text": prompt.text,
        "choices": prompt.choices().map(Choice::name),
        "opened_at": time(prompt.opened_at),
    })
}

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

pub(crate) fn sealed(record: &CommitRecord) -> Value {
    commit(record.id, &record.commit)
}

pub(crate) fn bundle(bundle: &TaskBundle) -> Value {
    json!({
        "task": bundle.task,
        "task_description": bundle.task_description,
        "state": state(&bundle.state),
        "staging_head": bundle.staging_head,
        "steps": bundle.steps,
        "progress_summary": bundle.progress_summary,
        "last_activity": time(bundle.last_activity),
    })
}

pub(crate) fn sentence(sentence: &Sentence) -> Value {
    let mut value = json!(sentence);
    value["at"] = time(sentence.at);
    value
}

pub(crate) fn hit(hit: &Hit) -> Value {
    let mut value = json!(hit);
    value["at"] = time(hit.at);
    value
}

/// An object as it is stored; a blob's text, or its bytes in hex where it is no text.
pub(crate) fn object(object: &Object) -> Value {
    let content = match serde_json::from_slice::<Value>(&object.bytes) {
        Ok(value) if object.kind.name() != "blob" => value,
        _ => match std::str::from_utf8(&object.bytes) {
            Ok(text) => json!(text),
            Err(_) => {
                json!({"hex": object.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()})
            }
        },
    };
    json!({"id": object.id(), "kind": object.kind.name(), "version": object.version, "size": object.bytes.len(), "content": content})
}
