//! `ctx blame FILE[:LINE]`: which conversation wrote a line.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

fn blame(repo: &Repo, file: &str) -> Vec<Value> {
    repo.ok(["blame", file])["lines"].as_array().expect("lines").clone()
}

/// Writes a file as the agent of the open task does.
fn write(repo: &Repo, session: &str, text: &str) {
    repo.write("src/a.rs", text);
    repo.ok(["--session", session, "stage", "observe", "file-write", "src/a.rs"]);
}

#[test]
fn each_line_names_the_session_and_the_commit_that_wrote_it() {
    let repo = Repo::new();
    repo.write("src/a.rs", "fn before() {}\n");
    repo.ok(["--session", "one", "stage", "start", "First"]);
    repo.ok(["--session", "one", "stage", "observe", "file-read", "src/a.rs"]);
    write(&repo, "one", "fn before() {}\nfn first() {}\n");
    let sealed = repo.ok(["--session", "one", "stage", "compact", "-m", "first done"]);
    repo.ok(["--session", "two", "stage", "start", "Second"]);
    write(&repo, "two", "fn before() {}\nfn first() {}\nfn second() {}\n");
    // A person moves the lines, indents one and adds one.
    repo.write(
        "src/a.rs",
        "  fn second() {}\r\nfn by_hand() {}\r\nfn first() {}\r\nfn before() {}\r\n",
    );
    let lines = blame(&repo, "src/a.rs");
    let labels: Vec<&Value> = lines.iter().map(|line| &line["session_label"]).collect();
    assert_eq!(labels, [&json!("two"), &Value::Null, &json!("one"), &Value::Null], "{lines:?}");
    let id = |label: &str| repo.ok(["session", "show", label])["session"]["id"].clone();
    assert_eq!((&lines[0]["session"], &lines[2]["session"]), (&id("two"), &id("one")));
    assert_eq!(lines[2]["commit"], sealed["commit"]["id"]);
    assert_eq!((&lines[0]["commit"], &lines[0]["turn"]), (&Value::Null, &Value::Null));
    assert!(lines[0]["task"].is_string() && lines[0]["at"].is_string(), "{lines:?}");
    assert_eq!((&lines[1]["line"], &lines[1]["text"]), (&json!(2), &json!("fn by_hand() {}")));
    let one = repo.ok(["blame", "src/a.rs:3"]);
    assert_eq!(
        (&one["file"], one["lines"].as_array().map(Vec::len)),
        (&json!("src/a.rs"), Some(1))
    );
    assert_eq!(one["lines"][0]["session_label"], "one");
    let shown = repo.run(["--no-pager", "blame", "src/a.rs"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("not recorded") && shown.contains("two"), "{shown}");
}

#[test]
fn lines_of_imported_sessions_are_found_by_their_tool_calls() {
    let repo = Repo::new();
    let dir = repo.dir().to_str().expect("a path").to_owned();
    let path = format!("{dir}/src/a.rs");
    let at = "2026-01-02T03:04:05.678Z";
    let call = |n: usize, name: &str, input: Value| {
        json!({"type": "assistant", "uuid": format!("a{n}"), "parentUuid": format!("p{n}"),
               "sessionId": "s", "timestamp": at, "cwd": dir,
               "message": {"role": "assistant", "model": "model-a", "content": [
                   {"type": "tool_use", "id": format!("t{n}"), "name": name, "input": input}]}})
    };
    let records = [
        json!({"type": "user", "uuid": "p1", "parentUuid": null, "sessionId": "s",
               "timestamp": at, "cwd": dir, "message": {"role": "user", "content": "Write it"}}),
        call(1, "Write", json!({"file_path": path, "content": "fn one() {}\nfn two() {}\n"})),
        call(
            2,
            "Edit",
            json!({"file_path": path, "old_string": "fn two() {}",
                               "new_string": "fn second() {}"}),
        ),
    ];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let file = repo.write("s.jsonl", text);
    repo.ok(["import", "--from", "claude-code", file.to_str().expect("a path")]);
    repo.write("src/a.rs", "fn by_hand() {}\nfn second() {}\nfn one() {}\n");
    let lines = blame(&repo, "src/a.rs");
    let labels: Vec<&Value> = lines.iter().map(|line| &line["session_label"]).collect();
    let session = json!("claude-code:s");
    assert_eq!(labels, [&Value::Null, &session, &session], "{lines:?}");
    assert_eq!(
        (&lines[1]["model"], &lines[1]["provider_id"]),
        (&json!("model-a"), &json!("claude-code"))
    );
    assert!(lines[1]["turn"].is_string() && lines[1]["task"].is_null(), "{lines:?}");
}

#[test]
fn bad_files_and_lines_are_refused() {
    let repo = Repo::new();
    repo.write("a.txt", "one\n");
    repo.write("b.bin", b"a\0b");
    repo.write("big.txt", "x".repeat(5 << 20));
    for (file, code) in [
        ("missing.txt", "not_found"),
        ("a.txt:9", "not_found"),
        ("a.txt:0", "not_found"),
        ("b.bin", "not_text"),
        ("big.txt", "too_large"),
        (".", "unreadable"),
    ] {
        let (exit, error) = repo.refuses(["blame", file]);
        assert_eq!((exit, &error["code"]), (1, &json!(code)), "{file}: {error}");
    }
    let nothing = blame(&repo, "a.txt");
    assert_eq!((nothing.len(), &nothing[0]["session"]), (1, &Value::Null));
}
