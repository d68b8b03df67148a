//! `ctx run`: a conversation from nothing. No provider is configured here, so every run fails, as history must show.

use serde_json::json;

use crate::repo::Repo;

#[test]
fn a_newcomers_first_verb_makes_a_store_and_says_who_is_missing() {
    let repo = Repo::bare();
    let (exit, error) = repo.fails(["run", "Add retry logic", "--label", "first"]);
    assert_eq!((exit, &error["code"], &error["session"]), (1, &json!("unknown_provider"), &json!("first")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("ctx.toml")), "{error}");
    assert!(repo.beside("home/data/ctx/ctx.db").exists(), "the user's own store was made");
    let shown = repo.ok(["session", "show", "first"]);
    assert_eq!(shown["session"]["turn_count"], 1);
    assert_eq!(shown["messages"][0]["content"][0]["text"], "Add retry logic");
}

#[test]
fn a_session_of_a_run_works_here_and_tracks_tasks() {
    let repo = Repo::new();
    let (_, error) = repo.fails(["run", "Add retry logic to the client"]);
    let label = error["session"].as_str().expect("a label");
    let session = repo.ok(["session", "show", label])["session"].clone();
    let here = repo.dir().canonicalize().expect("a directory");
    assert_eq!(session["working_dir"], json!(here));
    assert_eq!((&session["track_tasks"], &session["origin"], &session["state"]), (&json!(true), &json!("cli"), &json!("idle")));
    assert_eq!(session["title"], "Add retry logic to the client");
}

#[test]
fn a_run_that_cannot_begin_leaves_nothing_behind() {
    let repo = Repo::new();
    for (arguments, code, exit) in [
        (["run", "  ", "--label", "x"], "bad_text", 2),
        (["run", "hi", "--dir", "nowhere"], "bad_dir", 2),
        (["run", "hi", "--label", "main"], "label_in_use", 1),
        (["run", "hi", "--provider", "nobody"], "unknown_provider", 1),
    ] {
        let failed = repo.fails(arguments);
        assert_eq!((failed.0, failed.1["code"].as_str()), (exit, Some(code)), "{arguments:?}: {}", failed.1);
    }
    assert_eq!(repo.ok(["session", "list", "--all"])["sessions"].as_array().map(Vec::len), Some(1), "only the one that init made");
}

#[test]
fn a_failed_run_tells_a_person_once() {
    let repo = Repo::new();
    let output = repo.piped(["run", "-"], b"Add retry logic\n");
    let (told, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(told, "", "in a pipe there are the agent's words and nothing else");
    assert_eq!(error.matches("unknown_provider").count(), 1, "{error}");
}

#[test]
fn a_process_that_is_done_is_forgotten() {
    let repo = Repo::new();
    repo.fails(["run", "Add retry logic"]);
    let nodes: i64 = repo.database().query_row("SELECT count(*) FROM nodes", [], |row| row.get(0)).expect("a count");
    assert_eq!(nodes, 0);
    repo.assert_whole();
}
