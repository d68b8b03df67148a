//! `stage note`, `observe` and `relate`: actions of the agent, durable when the verb returns.

use serde_json::{Value, json};

use crate::harness::repo::{Repo, document};

/// The payload of the step that a verb wrote.
fn recorded(repo: &Repo, arguments: &[&str]) -> (Value, Value) {
    let head = repo.ok(arguments)["task"]["head"].clone();
    let step = repo.ok(["show", head.as_str().expect("an id")]);
    (step["content"]["kind"].clone(), step["content"]["payload"].clone())
}

#[test]
fn a_small_file_is_recorded_with_its_content() {
    let repo = Repo::working_on("Add retry logic");
    repo.write("a.rs", "fn a() {}\n");
    for (verb, kind) in [("file-read", "file_read"), ("file-write", "file_write")] {
        let (step, payload) = recorded(&repo, &["stage", "observe", verb, "a.rs"]);
        assert_eq!(
            (step, &payload[0]["type"], &payload[0]["path"]),
            (json!(kind), &json!(kind), &json!("a.rs"))
        );
        assert!(payload[0]["content"].to_string().contains("fn a() {}"), "{payload}");
    }
    let commit = repo.ok(["stage", "compact"])["commit"].clone();
    assert_eq!(commit["files"], json!([{"path": "a.rs", "written": true}]));
}

#[test]
fn a_removed_file_is_recorded_as_removed() {
    let repo = Repo::working_on("Add retry logic");
    let (exit, error) = repo.refuses(["stage", "observe", "file-write", "gone.rs"]);
    assert_eq!((exit, &error["code"]), (1, &json!("not_found")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--deleted")), "{error}");
    let (_, payload) = recorded(&repo, &["stage", "observe", "file-write", "gone.rs", "--deleted"]);
    assert_eq!((&payload[0]["path"], &payload[0]["content"]), (&json!("gone.rs"), &Value::Null));
}

#[test]
fn binary_and_large_files_are_stored_byte_for_byte() {
    let repo = Repo::working_on("Add retry logic");
    let odd: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    repo.write("odd.bin", &odd);
    let (_, payload) = recorded(&repo, &["stage", "observe", "file-write", "odd.bin"]);
    let blob = payload[0]["content"]["blob"].as_str().expect("a blob").to_owned();
    let hex = repo.ok(["show", &blob])["content"]["hex"].as_str().expect("bytes in hex").to_owned();
    assert_eq!(hex, odd.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    // The same content gives the same blob.
    let (_, again) = recorded(&repo, &["stage", "observe", "file-read", "odd.bin"]);
    assert_eq!(again[0]["content"]["blob"], blob);
    assert_eq!(repo.ok(["verify"])["blobs"], 1);
}

#[test]
fn a_file_outside_the_project_has_its_absolute_path() {
    let repo = Repo::working_on("Add retry logic");
    let outside = repo.beside("outside.txt");
    std::fs::write(&outside, "x").expect("a file");
    let (_, payload) = recorded(&repo, &["stage", "observe", "file-read", "../outside.txt"]);
    let path = payload[0]["path"].as_str().expect("a path");
    assert!(
        path.starts_with('/') && path.ends_with("/outside.txt") && !path.contains(".."),
        "{path}"
    );
}

#[test]
fn an_unreadable_file_is_refused() {
    let repo = Repo::working_on("Add retry logic");
    std::fs::create_dir(repo.dir().join("folder")).expect("a directory");
    for (path, code) in [("nothing", "not_found"), ("folder", "unreadable")] {
        let (exit, error) = repo.refuses(["stage", "observe", "file-read", path]);
        assert_eq!((exit, &error["code"]), (1, &json!(code)));
        assert!(error["message"].as_str().is_some_and(|text| text.contains(path)), "{error}");
    }
}

#[test]
fn an_observed_command_is_recorded_and_not_run() {
    let repo = Repo::working_on("Add retry logic");
    let (kind, payload) = recorded(
        &repo,
        &[
            "stage", "observe", "command", "--exit", "-1", "--", "touch", "made", "--json",
            "--exit", "3",
        ],
    );
    assert_eq!(kind, "command_run");
    assert_eq!(payload[0]["argv"], json!(["touch", "made", "--json", "--exit", "3"]));
    assert_eq!(payload[0]["exit"], -1);
    assert!(!repo.dir().join("made").exists());
    let (_, unknown) = recorded(&repo, &["stage", "observe", "command", "--", "sleep", "1"]);
    assert_eq!(unknown[0]["exit"], Value::Null, "how it ended is not known");
    let output = repo.piped(
        ["--json", "stage", "observe", "command", "--exit", "0", "--output", "-", "--", "ls"],
        b"a.rs\nb.rs\n",
    );
    let head = document(&output)["task"]["head"].clone();
    let step = repo.ok(["show", head.as_str().expect("an id")]);
    assert!(step["content"]["payload"][0]["output"].to_string().contains("a.rs\\nb.rs"), "{step}");
}

#[test]
fn a_plan_and_a_note_are_recorded() {
    let repo = Repo::working_on("Add retry logic");
    let (kind, payload) = recorded(&repo, &["stage", "observe", "plan", "1. read\n2. write"]);
    assert_eq!(
        (kind, &payload[0]),
        (json!("plan"), &json!({"type": "plan", "text": "1. read\n2. write"}))
    );
    let (kind, payload) =
        recorded(&repo, &["stage", "note", "--", "--a note that begins with dashes"]);
    assert_eq!(
        (kind, &payload[0]["text"]),
        (json!("note"), &json!("--a note that begins with dashes"))
    );
    let output =
        repo.piped(["--json", "stage", "note", "-"], "from a pipe, with ünïcödé 🚀\n".as_bytes());
    document(&output);
    assert_eq!(repo.notes().last().map(String::as_str), Some("from a pipe, with ünïcödé 🚀"));
}

#[test]
fn a_relation_is_an_edge_between_two_nodes() {
    let repo = Repo::working_on("Add retry logic");
    let (kind, payload) =
        recorded(&repo, &["stage", "relate", "file:src/a.rs", "depends_on", "crate:serde"]);
    assert_eq!(kind, "relations");
    assert_eq!(
        (&payload[0]["from"], &payload[0]["label"], &payload[0]["to"]),
        (&json!("file:src/a.rs"), &json!("depends_on"), &json!("crate:serde"))
    );
    assert!(payload[0]["evidence"]["tool"].is_string(), "{payload}");
    for (from, label, to, named) in [
        ("src/a.rs", "calls", "file:b", "kind:id"),
        ("planet:mars", "calls", "file:b", "package"),
        ("file:a", "frobs", "file:b", "depends_on"),
        ("file:a", "calls", "file:", "kind:id"),
    ] {
        let (exit, error) = repo.refuses(["stage", "relate", from, label, to]);
        assert_eq!(exit, 2, "{error}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains(named)),
            "the message lists what is accepted: {error}"
        );
    }
}

#[test]
fn progress_counts_what_the_agent_did() {
    let repo = Repo::working_on("Add retry logic");
    assert_eq!(repo.task()["progress"], "nothing recorded yet");
    repo.write("a.rs", "x");
    repo.ok(["stage", "observe", "file-write", "a.rs"]);
    repo.ok(["stage", "observe", "command", "--exit", "1", "--", "cargo", "test"]);
    repo.ok(["stage", "note", "It fails"]);
    let progress = repo.task()["progress"].as_str().expect("a text").to_owned();
    for part in [
        "1 file written",
        "1 command run",
        "1 note",
        "wrote a.rs",
        "ran cargo test (exit 1)",
        "It fails",
    ] {
        assert!(progress.contains(part), "{part} is not in {progress}");
    }
    assert!(repo.says(["stage", "status"]).contains("1 file written"));
}
