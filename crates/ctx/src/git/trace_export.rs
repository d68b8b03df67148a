//! Sealed tasks as records of the Agent Trace format (agent-trace.dev, version 0.1), one JSON
//! document per line of `.agent-trace/traces.jsonl`.
//!
//! The id of a record depends only on the task and the git commit, so a record is written once.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;

use ctx_engine::Engine;
use ctx_engine::core::blame::added_lines;
use ctx_engine::core::id::ObjectId;
use serde_json::{Value, json};

use crate::problem::Problem;

use super::repository::Repository;
use super::sealed_tasks::{SealedTask, SealedTasks};

const DIRECTORY: &str = ".agent-trace";
const FILE: &str = "traces.jsonl";
const VERSION: &str = "0.1.0";

/// Appends the records that the file does not have, and returns their number.
///
/// # Errors
/// If the file cannot be read or written, or the store fails.
pub(crate) async fn export_traces(
    engine: &Engine,
    repository: &Repository,
    sealed: &SealedTasks,
) -> Result<usize, Problem> {
    let path = repository.root.join(DIRECTORY).join(FILE);
    let failed = |error: std::io::Error| {
        Problem::failed("output", format!("failed to write {}: {error}", path.display()))
    };
    let here = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let id_of = |line: &str| {
        let record: Value = serde_json::from_str(line).ok()?;
        record.get("id")?.as_str().map(str::to_owned)
    };
    let known: HashSet<String> = here.lines().filter_map(id_of).collect();
    let mut added = String::new();
    let (mut count, mut last_texts) = (0, HashMap::new());
    for task in &sealed.tasks {
        let record = record(engine, task, &last_texts).await?;
        for (path, file) in &task.files {
            last_texts.insert(path.clone(), file.after.clone().unwrap_or_default());
        }
        let is_new = record["id"].as_str().is_some_and(|id| !known.contains(id));
        if is_new && record["files"].as_array().is_some_and(|files| !files.is_empty()) {
            added.push_str(&format!("{record}\n"));
            count += 1;
        }
    }
    if count == 0 {
        return Ok(0);
    }
    if !here.is_empty() && !here.ends_with('\n') {
        added.insert(0, '\n');
    }
    fs::create_dir_all(repository.root.join(DIRECTORY)).map_err(failed)?;
    let file = fs::OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
    (&file).write_all(added.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(count)
}

async fn record(
    engine: &Engine,
    task: &SealedTask,
    last_texts: &HashMap<String, String>,
) -> Result<Value, Problem> {
    let commit = &task.commit;
    let revision = task.git_commits.last();
    let model = match &commit.turns {
        Some(turns) => {
            let turn = engine.messages().turn(turns.last).await.ok();
            turn.and_then(|turn| model_id(turn.header.provider_id, turn.header.model))
        }
        None => None,
    };
    let mut contributor = json!({"type": "ai"});
    if let Some(model) = model {
        contributor["model_id"] = model.into();
    }
    let conversation = |ranges: Vec<Value>| {
        json!({
            "url": format!("ctx://session/{}", commit.session),
            "contributor": contributor,
            "ranges": ranges,
            "related": [
                {"type": "task", "url": format!("ctx://task/{}", commit.task)},
                {"type": "commit", "url": format!("ctx://commit/{}", task.id)},
            ],
        })
    };
    let mut files = Vec::new();
    for (path, file) in &task.files {
        let Some(after) = &file.after else { continue };
        let before = file.before.as_deref().or(last_texts.get(path).map(String::as_str));
        let ranges = ranges(&added_lines(before, after));
        if !ranges.is_empty() {
            files.push(json!({"path": path, "conversations": [conversation(ranges)]}));
        }
    }
    let mut record = json!({
        "version": VERSION,
        "id": uuid(&task.id.to_string(), revision.map_or("", String::as_str)),
        "timestamp": commit.created_at.to_string(),
        "tool": {"name": "ctx", "version": env!("CARGO_PKG_VERSION")},
        "files": files,
        "metadata": {"ctx": {"commit": task.id, "task": commit.task, "message": commit.message}},
    });
    if let Some(revision) = revision {
        record["vcs"] = json!({"type": "git", "revision": revision});
    }
    Ok(record)
}

/// The name of a model as `provider/model`.
fn model_id(provider: Option<String>, model: Option<String>) -> Option<String> {
    let model = model?;
    Some(match provider {
        Some(provider) if !model.contains('/') => format!("{provider}/{model}"),
        _ => model,
    })
}

/// Consecutive lines as ranges.
fn ranges(lines: &[usize]) -> Vec<Value> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for line in lines {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == *line => *end = *line,
            _ => ranges.push((*line, *line)),
        }
    }
    let range = |(start, end): (usize, usize)| json!({"start_line": start, "end_line": end});
    ranges.into_iter().map(range).collect()
}

/// A UUID (version 8) that depends only on its names.
fn uuid(commit: &str, revision: &str) -> String {
    let hash = ObjectId::of(&[b"agent-trace", commit.as_bytes(), revision.as_bytes()]);
    let mut bytes = *hash.as_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_ranges_and_ids_are_stable() {
        let expected =
            [json!({"start_line": 1, "end_line": 3}), json!({"start_line": 7, "end_line": 7})];
        assert_eq!(ranges(&[1, 2, 3, 7]), expected);
        assert_eq!(ranges(&[]), Vec::<Value>::new());
        let id = uuid("a", "b");
        assert_eq!(id, uuid("a", "b"));
        assert_ne!(id, uuid("a", "c"));
        assert_eq!((id.len(), &id[14..15]), (36, "8"));
        let id = |provider: Option<&str>, model: Option<&str>| {
            model_id(provider.map(str::to_owned), model.map(str::to_owned))
        };
        assert_eq!(id(Some("anthropic"), Some("m")).as_deref(), Some("anthropic/m"));
        assert_eq!(id(None, Some("a/m")).as_deref(), Some("a/m"));
        assert_eq!(id(Some("x"), None), None);
    }
}
