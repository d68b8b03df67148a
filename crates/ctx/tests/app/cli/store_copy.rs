//! `ctx store copy`: between directories and PostgreSQL databases.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::repo::{AGENTLESS, Repo};
use crate::harness::test_store::postgres_server::{PASSWORD, server};
use crate::harness::test_store::skipped_on_postgres;

/// A sealed and an open task with a file that is a blob, and a conversation.
fn worked_in() -> Repo {
    let repo = Repo::new();
    repo.configure(AGENTLESS);
    repo.ok(["stage", "start", "feed the walrus"]);
    repo.write("a.rs", "fn a() {}\n".repeat(1000));
    repo.ok(["stage", "observe", "file-write", "a.rs"]);
    repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "wash the walrus"]);
    repo.ok(["session", "new", "--label", "talk"]);
    repo.fails(["session", "send", "talk", "a walrus?"]);
    repo
}

/// What a user sees, apart from what depends on the time.
fn seen(repo: &Repo) -> Value {
    let mut found = repo.ok(["search", "walrus"]);
    found["hits"].as_array_mut().expect("hits").sort_by_key(|hit| hit["id"].to_string());
    for hit in found["hits"].as_array_mut().expect("hits") {
        hit["score"] = Value::Null;
    }
    assert!(found["hits"].as_array().is_some_and(|hits| hits.len() >= 3), "{found}");
    let mut verified = repo.ok(["verify"]);
    verified["bytes"] = Value::Null;
    json!([
        repo.ok(["session", "show", "talk"]),
        repo.ok(["session", "list", "--all"]),
        repo.ok(["log"]),
        repo.task(),
        found,
        verified,
    ])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn a_store_goes_to_postgresql_and_back() {
    if skipped_on_postgres("it begins with a store in a directory") {
        return;
    }
    // R231
    let repo = worked_in();
    let before = seen(&repo);
    let database = server().create_database();
    let url = server().url(&database);
    let there = repo.ok(["store", "copy", text(&repo.data()), &url]);
    assert_eq!((&there["created"], &there["verified"]["ok"]), (&json!(true), &json!(true)));
    assert_eq!(there["tables"]["sessions"], json!({"copied": 2, "skipped": 0}));
    assert_eq!(there["renamed"], json!([]));
    assert!(!there.to_string().contains("ss w"), "no password: {there}");

    let other = Repo::bare();
    let back = other.says(["store", "copy", &url, text(&other.data())]);
    assert!(back.contains("2 sessions") && back.contains("no damage found"), "{back}");
    assert!(!back.contains(PASSWORD) && !back.contains('\u{1b}'), "{back}");
    other.configure(AGENTLESS);
    assert_eq!(seen(&other), before);
    assert_eq!(seen(&repo), before, "the source is not changed");
    other.ok(["stage", "note", "the walrus goes on"]);
    other.ok(["stage", "compact"]);
    other.assert_whole();

    // The copy is refused where something is, and a merge adds what is missing.
    let (exit, error) = other.fails(["store", "copy", text(&repo.data()), &url]);
    assert_eq!((exit, &error["code"]), (1, &json!("not_empty")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--merge")), "{error}");
    repo.ok(["session", "new", "--label", "later"]);
    let merged = repo.ok(["store", "copy", "--merge", text(&repo.data()), &url]);
    assert_eq!(merged["tables"]["sessions"], json!({"copied": 1, "skipped": 2}));
    let again = repo.ok(["store", "copy", "--merge", text(&repo.data()), &url]);
    let rows = again["tables"].as_object().expect("tables").values();
    assert!(rows.clone().all(|rows| rows["copied"] == 0), "{again}");
    server().drop_database(&database);
}

#[test]
fn what_cannot_be_copied_is_said() {
    let repo = worked_in();
    let data = repo.data();
    let empty = repo.beside("empty");
    for (arguments, exit, code) in [
        ([text(&data), text(&data)], 2, "same_store"),
        ([text(&data), "mysql://u@h/d"], 2, "bad_location"),
        ([text(&empty), text(&data)], 1, "no_store"),
        (["postgres://u:s3cret@127.0.0.1:1/d", text(&empty)], 1, "unavailable"),
    ] {
        let (failed, error) = repo.fails([["store", "copy"], arguments].concat());
        assert_eq!((failed, &error["code"]), (exit, &json!(code)), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert!(!empty.exists(), "{error}");
    }
    let url = "postgres://u:s3cret@127.0.0.1:1/d";
    let (_, error) = repo.fails(["store", "copy", url, &url.replace("u:s3cret@", "other@")]);
    assert_eq!(error["code"], "same_store");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}
