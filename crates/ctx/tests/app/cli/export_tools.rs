//! `ctx export SESSION --to TOOL`: sessions for other tools, read back by `ctx import`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::repo::Repo;

const TOOLS: [&str; 4] = ["claude-code", "codex", "opencode", "pi"];
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+\
                   XDSwAAAABJRU5ErkJggg==";

/// A session in the generic format: an image, reasoning, two calls at once of which one failed, a
/// call that repeats an id, a compaction, an error.
pub(super) fn records(dir: &str) -> Vec<Value> {
    let url = format!("data:image/png;base64,{PNG}");
    let call = |id: &str, cmd: &str| json!({"id": id, "name": "shell", "arguments": {"cmd": cmd}});
    let at = |second: u32| format!("2026-01-02T03:04:{second:02}.000Z");
    vec![
        json!({"type": "session", "id": "s", "title": "Two files", "working_dir": dir,
               "timestamp": at(0)}),
        json!({"role": "user", "timestamp": at(1), "content": [
            {"type": "text", "text": "List the files"},
            {"type": "image_url", "image_url": {"url": url}}]}),
        json!({"role": "assistant", "timestamp": at(2), "model": "model-a", "reasoning": "hm",
               "content": "I look.", "tool_calls": [call("c1", "ls"), call("c2", "cat x")]}),
        json!({"role": "tool", "timestamp": at(3), "tool_call_id": "c1", "content": "a.rs\nb.rs"}),
        json!({"role": "tool", "timestamp": at(4), "tool_call_id": "c2", "content": "no x",
               "is_error": true}),
        json!({"role": "assistant", "timestamp": at(5), "model": "model-a", "content": "Two files",
               "usage": {"input_tokens": 10, "output_tokens": 4, "cached_tokens": 2}}),
        json!({"role": "summary", "timestamp": at(6), "content": "There are two files."}),
        json!({"role": "user", "timestamp": at(7), "content": "Again"}),
        json!({"role": "assistant", "timestamp": at(8), "content": "",
               "tool_calls": [call("c1", "ls -l")]}),
        json!({"role": "tool", "timestamp": at(9), "tool_call_id": "c1", "content": "-rw a.rs"}),
        json!({"role": "assistant", "timestamp": at(10), "content": "Still two"}),
    ]
}

/// A store with the session, continued by one turn of ctx.
pub(super) fn continued(records: &[Value]) -> (Repo, String) {
    let repo = Repo::new();
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let file = repo.beside("s.jsonl");
    std::fs::write(&file, text).expect("a file");
    let path = file.to_str().expect("a path");
    let imported = repo.ok(["import", "--from", "jsonl", path])["imported"][0].clone();
    let session = imported["session"].as_str().expect("a session").to_owned();
    repo.ok(["session", "send", &session, "Thanks"]);
    (repo, session)
}

/// The history as lines: what a person or a model would see.
pub(super) fn history(repo: &Repo, session: &str) -> Vec<String> {
    let shown = repo.ok(["session", "show", session, "--full"]);
    let mut lines = Vec::new();
    for message in shown["messages"].as_array().expect("messages") {
        let role = message["role"].as_str().expect("a role");
        for part in message["content"].as_array().expect("content") {
            let text = |field: &str| part[field].as_str().unwrap_or_default().to_owned();
            lines.push(match part["type"].as_str().expect("a type") {
                "text" => format!("{role}: {}", text("text")),
                "summary" => format!("summary: {}", text("text")),
                "thought" => format!("thought: {}", text("text")),
                "tool_call" => format!("call: {} {}", text("name"), part["params"]),
                "tool_result" => format!("result: {}", text("content")),
                "image" => format!("image: {}", text("media_type")),
                _ => continue,
            });
        }
    }
    lines
}

fn export(repo: &Repo, session: &str, tool: &str, dir: &Path) -> Value {
    let dir = dir.to_str().expect("a path");
    repo.ok(["export", session, "--to", tool, "-o", dir])
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

/// The error of a verb that must fail with this code and change nothing.
#[track_caller]
fn refused(repo: &Repo, arguments: &[&str], code: &str) -> Value {
    let (exit, error) = repo.refuses(arguments);
    assert_eq!((exit, error["code"].as_str()), (1, Some(code)), "{error}");
    error
}

#[test]
fn a_continued_session_is_read_back_whole_from_every_tool() {
    let dir = std::env::temp_dir().join("a project");
    let dir = dir.to_str().expect("a path");
    let (repo, session) = continued(&records(dir));
    let expected = history(&repo, &session);
    assert!(expected.len() >= 14, "{expected:?}");
    for tool in TOOLS {
        let home = repo.beside(tool);
        let exported = export(&repo, &session, tool, &home);
        let id = exported["id"].as_str().expect("an id");
        let command = exported["resume_command"].as_str().expect("a command");
        assert!(
            command.ends_with(id) && command.starts_with(&format!("cd '{dir}' && ")),
            "{command}"
        );
        assert_eq!((&exported["turn_count"], &exported["to"]), (&json!(4), &json!(tool)));
        assert!(Path::new(exported["file"].as_str().expect("a file")).exists(), "{exported}");

        let other = Repo::new();
        let home = home.to_str().expect("a path");
        let imported = other.ok(["import", "--from", tool, home])["imported"][0].clone();
        assert_eq!(imported["problems"], json!([]), "{tool}: {imported}");
        let name = imported["session"].as_str().expect("a session");
        let mut back = history(&other, name);
        // Reasoning without a signature is not sent to these APIs, so their sessions have none.
        let mut wanted = expected.clone();
        if ["claude-code", "codex"].contains(&tool) {
            wanted.retain(|line| !line.starts_with("thought: "));
            back.retain(|line| !line.starts_with("thought: "));
        }
        if tool == "opencode" {
            // A call of OpenCode contains its result, so two calls at once are not in this order.
            wanted.sort();
            back.sort();
        }
        assert_eq!(back, wanted, "{tool}");
        let session = &other.ok(["session", "show", name])["session"];
        assert_eq!(
            (&session["title"], &session["working_dir"]),
            (&json!("Two files"), &json!(dir))
        );
        let models: Vec<Value> = other.ok(["session", "show", name, "--full"])["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|message| message["model"].clone())
            .collect();
        assert!(models.contains(&json!("model-a")), "{tool}: {models:?}");
        other.ok(["verify"]);
    }
}

#[test]
fn a_session_that_is_there_is_never_touched() {
    let (repo, session) = continued(&records("/project"));
    for tool in TOOLS {
        let home = repo.beside(tool);
        export(&repo, &session, tool, &home);
        let before = files(&home);
        let dir = home.to_str().expect("a path");
        let error = refused(&repo, &["export", &session, "--to", tool, "-o", dir], "target_exists");
        assert!(error["hint"].is_string(), "{error}");
        assert_eq!(files(&home), before, "{tool}");
        // A session that went on is another export beside the first.
        repo.ok(["session", "send", &session, &format!("More for {tool}")]);
        let second = export(&repo, &session, tool, &home);
        let after = files(&home);
        if tool != "opencode" {
            assert_eq!(after.len(), before.len() + 1, "{tool}");
            assert!(before.iter().all(|file| after.contains(file)), "{tool}");
        }
        let listed = repo.ok(["import", "--from", tool, dir])["imported"].clone();
        assert_eq!(listed.as_array().expect("a list").len(), 2, "{tool}: {listed} {second}");
    }
}

#[test]
fn the_variables_of_a_tool_name_its_home() {
    let (mut repo, session) = continued(&records("/project"));
    let places = [
        ("claude-code", "CLAUDE_CONFIG_DIR", "projects/-project"),
        ("codex", "CODEX_HOME", "sessions/2026/01/02"),
        ("opencode", "XDG_DATA_HOME", "opencode/opencode.db"),
        ("pi", "PI_CODING_AGENT_DIR", "sessions/--project--"),
    ];
    for (tool, variable, path) in places {
        let home = repo.beside(&format!("home of {tool}"));
        repo.set(variable, home.to_str().expect("a path"));
        let exported = repo.ok(["export", &session, "--to", tool]);
        let file = exported["file"].as_str().expect("a file");
        assert!(Path::new(file).starts_with(home.join(path)), "{file}");
        assert!(!exported["resume_command"].as_str().expect("a command").contains(variable));
        // The tool's own directory is where `ctx import` reads.
        let imported = repo.ok(["import", "--from", tool])["imported"].clone();
        assert_eq!(imported[0]["effect"], "created", "{tool}: {imported}");
    }
}

#[test]
fn a_home_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let (repo, session) = continued(&records("/project"));
    let file = repo.beside("a file");
    std::fs::write(&file, "x").expect("a file");
    let place = file.to_str().expect("a path");
    for tool in TOOLS {
        refused(&repo, &["export", &session, "--to", tool, "-o", place], "output");
    }
    assert_eq!(std::fs::read(&file).expect("the file"), b"x");
    // A database of another version is not changed.
    let home = repo.beside("other");
    let database = home.join("opencode/opencode.db");
    std::fs::create_dir_all(database.parent().expect("a directory")).expect("directories");
    let connection = rusqlite::Connection::open(&database).expect("a database");
    let tables = "CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT);
                  CREATE TABLE message (id TEXT, data TEXT, session_id TEXT, time_created INT);
                  CREATE TABLE session (id TEXT PRIMARY KEY, model TEXT, time_updated INT,
                                        needed TEXT NOT NULL)";
    connection.execute_batch(tables).expect("tables");
    drop(connection);
    let before = files(&home);
    let place = home.to_str().expect("a path");
    refused(&repo, &["export", &session, "--to", "opencode", "-o", place], "unsupported_version");
    assert_eq!(files(&home), before);
    let (code, error) = repo.fails(["export", "nothing", "--to", "pi"]);
    assert_eq!((code, &error["code"]), (1, &json!("no_session")));
}
