//! `init`, and which store a verb finds.

use std::os::unix::fs::PermissionsExt;

use ctx_engine::sqlite;
use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

#[test]
fn init_creates_a_store_once() {
    let repo = Repo::bare();
    let made = repo.ok(["init"]);
    assert_eq!((&made["created"], &made["project"]), (&json!(true), &json!("project")));
    repo.ok(["stage", "start", "Add retry logic"]);
    let before = repo.everything();
    let again = repo.ok(["init", "--project", "another name"]);
    assert_eq!(
        (&again["created"], &again["project"]),
        (&json!(false), &json!("project")),
        "the existing store stays"
    );
    assert_eq!(repo.everything(), before);
}

#[test]
fn a_store_is_private_to_its_owner_and_ignored_by_git() {
    // The design requires mode 0700 for the directory and 0600 for the database.
    if skipped_on_postgres("it is about the files of a store") {
        return;
    }
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["search", "retry"]);
    let mode = |name: &str| {
        std::fs::metadata(repo.data().join(name)).expect(name).permissions().mode() & 0o777
    };
    assert_eq!(mode("."), 0o700);
    for name in ["ctx.db", "ctx.db-wal", "search.db", "write.lock"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(
        std::fs::read_to_string(repo.data().join(".gitignore")).expect("a file").trim(),
        "*"
    );
}

#[test]
fn a_project_can_have_a_name_and_another_directory() {
    if skipped_on_postgres("CTX_STORE goes before the store of a directory") {
        return;
    }
    let repo = Repo::bare();
    let made = repo.ok(["init", "inner/deep", "--project", "Apollo"]);
    assert_eq!(made["project"], "Apollo");
    assert!(repo.dir().join("inner/deep/.ctx/ctx.db").is_file());
    assert_eq!(repo.ok(["--data", "inner/deep/.ctx", "status"])["project"], "Apollo");
}

#[test]
fn a_verb_finds_the_nearest_store_above_it() {
    // R53
    if skipped_on_postgres("CTX_STORE goes before the nearest store") {
        return;
    }
    let mut repo = Repo::working_on("Add retry logic");
    let below = repo.dir().join("src/deep");
    std::fs::create_dir_all(&below).expect("a directory");
    let inside = |repo: &Repo, arguments: &[&str]| -> Value {
        let output = repo
            .command([&["--json"], arguments].concat())
            .current_dir(&below)
            .output()
            .expect("the program runs");
        crate::harness::repo::document(&output)
    };
    assert_eq!(inside(&repo, &["stage", "status"])["task"], repo.task());
    std::fs::write(below.join("a.rs"), "fn a() {}").expect("a file");
    let head = inside(&repo, &["stage", "observe", "file-read", "a.rs"])["task"]["head"].clone();
    let step = repo.ok(["show", head.as_str().expect("an id")]);
    assert_eq!(step["content"]["payload"][0]["path"], "src/deep/a.rs", "paths are the project's");

    assert_eq!(inside(&repo, &["init"])["created"], true, "a project inside a project");
    assert_eq!(inside(&repo, &["stage", "status"])["task"], Value::Null);
    assert_eq!(repo.task()["description"], "Add retry logic");
    repo.set("CTX_DATA", below.join(".ctx").to_str().expect("a path"));
    assert_eq!(repo.task(), Value::Null, "CTX_DATA goes before the nearest one");
    let outer = repo.data();
    let named = repo.ok(["--data", outer.to_str().expect("a path"), "stage", "status"]);
    assert_eq!(named["task"]["description"], "Add retry logic", "--data goes before CTX_DATA");
}

#[test]
fn init_creates_a_store_in_the_given_directory() {
    if skipped_on_postgres("CTX_STORE goes before the given directory") {
        return;
    }
    let mut repo = Repo::bare();
    let flag = repo.beside("by-flag");
    let made = repo.ok(["--data", flag.to_str().expect("a path"), "init"]);
    assert!(flag.join("ctx.db").is_file(), "{made}");
    let variable = repo.beside("by-variable");
    repo.set("CTX_DATA", variable.to_str().expect("a path"));
    repo.ok(["init"]);
    assert!(variable.join("ctx.db").is_file());
    assert!(!repo.data().exists(), "nothing was made in the working directory");
    repo.ok(["stage", "start", "Add retry logic"]);
    assert_eq!(repo.state(), "running");
}

#[test]
fn without_a_store_a_verb_fails_and_creates_none() {
    if skipped_on_postgres("CTX_STORE goes before the given directory") {
        return;
    }
    let repo = Repo::bare();
    let nowhere = repo.beside("nowhere");
    for arguments in [
        vec!["stage", "status"],
        vec!["session", "show", "s"],
        vec!["stage", "note", "x"],
        vec!["verify"],
    ] {
        let (exit, error) = repo.fails(&arguments);
        assert_eq!((exit, &error["code"]), (1, &json!("no_store")), "{arguments:?}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("ctx init")), "{error}");
        let named = [vec!["--data", nowhere.to_str().expect("a path")], arguments].concat();
        let (_, error) = repo.fails(&named);
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("nowhere")),
            "the message has the searched directory: {error}"
        );
    }
    assert!(!nowhere.exists() && !repo.data().exists() && !repo.beside("home").exists());
}

#[test]
fn an_empty_environment_variable_counts_as_unset() {
    let repo = Repo::working_on("Add retry logic").with("CTX_DATA", "");
    assert_eq!(repo.state(), "running");
}

#[test]
fn a_store_whose_creation_was_interrupted_works() {
    // The process died after it created the database and before it created the session.
    if skipped_on_postgres("it is about the files of a store") {
        return;
    }
    let repo = Repo::bare();
    sqlite::create(&repo.data(), "project").expect("an empty directory takes a store");
    assert_eq!(repo.ok(["stage", "status"])["task"], Value::Null);
    repo.ok(["init"]);
    repo.ok(["stage", "start", "Add retry logic"]);
    assert_eq!(repo.state(), "running");
}

#[test]
fn only_a_verb_that_starts_work_creates_a_session() {
    let mut repo = Repo::working_on("Add retry logic");
    let session = repo.task()["session"].as_str().expect("an id").to_owned();
    repo.set("CTX_SESSION", "second");
    for verb in [
        vec!["stage", "status"],
        vec!["stage", "note", "x"],
        vec!["stage", "done", "y"],
        vec!["stage", "message", "z"],
    ] {
        let (exit, error) = repo.fails(&verb);
        assert_eq!((exit, &error["code"]), (1, &json!("no_session")), "{verb:?}");
    }
    assert_eq!(repo.ok(["status"])["sessions"].as_array().map(Vec::len), Some(1), "none was made");
    repo.ok(["stage", "start", "Paint the bikeshed"]);
    assert_eq!(
        repo.task()["description"],
        "Paint the bikeshed",
        "two agents, two tasks, one store"
    );
    repo.set("CTX_SESSION", &session);
    assert_eq!(repo.task()["description"], "Add retry logic", "by its id");
    assert_eq!(
        repo.ok(["--session", "main", "stage", "status"])["task"],
        repo.task(),
        "by its label"
    );
}
