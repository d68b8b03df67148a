//! `ctx run`: a new conversation with the demo agent, and with an agent that cannot be started.

use serde_json::json;

use crate::harness::repo::{AGENTLESS, Repo};
use crate::harness::test_store::skipped_on_postgres;

#[test]
fn the_first_run_creates_a_store_and_gets_an_answer() {
    if skipped_on_postgres("CTX_STORE goes before the user's own store") {
        return;
    }
    let repo = Repo::bare();
    let done = repo.ok(["run", "Add retry logic", "--label", "first"]);
    assert_eq!(done["session"]["label"], "first");
    assert!(repo.beside("home/data/ctx/ctx.db").exists(), "the user's own store was made");
    let shown = repo.ok(["session", "show", "first"]);
    assert_eq!(shown["session"]["turn_count"], 1);
    assert_eq!(shown["messages"][0]["content"][0]["text"], "Add retry logic");
    let told =
        shown["messages"][1]["content"][0]["text"].as_str().unwrap_or_default().to_lowercase();
    assert!(told.contains("demo"), "the text names the agent: {told}");
}

#[test]
fn in_a_pipe_the_answer_is_streamed_as_plain_text() {
    let repo = Repo::new();
    let output = repo.run(["run", "think about it"]);
    let (told, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    assert!(told.to_lowercase().contains("demo") && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn a_suspension_is_answered_from_the_command_line() {
    // R219, R220, R249
    let repo = Repo::new();
    let waits = repo.ok(["run", "permission please", "--label", "ask"]);
    assert_eq!(waits["session"]["state"], "suspended");
    assert_eq!(waits["session"]["suspension"]["kind"], "permission");
    let wrong = repo.fails(["session", "answer", "ask", "perhaps"]);
    assert_eq!(wrong.1["code"], "bad_answer");
    let done = repo.ok(["session", "answer", "ask", "allow_once"]);
    assert_eq!(
        (&done["session"]["state"], &done["session"]["turn_count"]),
        (&serde_json::json!("idle"), &serde_json::json!(1))
    );
}

#[test]
fn the_session_of_a_run_has_this_working_directory_and_tracks_tasks() {
    let repo = Repo::new();
    let done = repo.ok(["run", "Add retry logic to the client"]);
    let label = done["session"]["label"].as_str().expect("a label");
    let session = repo.ok(["session", "show", label])["session"].clone();
    let here = repo.dir().canonicalize().expect("a directory");
    assert_eq!(session["working_dir"], json!(here));
    assert_eq!(
        (&session["track_tasks"], &session["origin"], &session["state"]),
        (&json!(true), &json!("cli"), &json!("idle"))
    );
    assert_eq!(session["title"], "Add retry logic to the client");
}

#[test]
fn a_run_that_cannot_start_leaves_no_session() {
    let repo = Repo::new();
    for (arguments, code, exit) in [
        (["run", "  ", "--label", "x"], "bad_text", 2),
        (["run", "hi", "--dir", "nowhere"], "bad_dir", 2),
        (["run", "hi", "--label", "main"], "label_in_use", 1),
        (["run", "hi", "--provider", "nobody"], "unknown_provider", 1),
    ] {
        let failed = repo.fails(arguments);
        assert_eq!(
            (failed.0, failed.1["code"].as_str()),
            (exit, Some(code)),
            "{arguments:?}: {}",
            failed.1
        );
    }
    assert_eq!(
        repo.ok(["session", "list", "--all"])["sessions"].as_array().map(Vec::len),
        Some(1),
        "only the one that init made"
    );
}

#[test]
fn a_failed_run_prints_its_error_once() {
    let repo = Repo::new();
    repo.configure(AGENTLESS);
    let output = repo.piped(["run", "-"], b"Add retry logic\n");
    let (told, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(told, "", "in a pipe there are the agent's words and nothing else");
    assert_eq!(error.matches("agent_missing").count(), 1, "{error}");
}

#[test]
fn a_finished_process_is_removed_from_the_store() {
    let repo = Repo::new();
    repo.ok(["run", "Add retry logic"]);
    assert_eq!(repo.sql().number("SELECT count(*) FROM nodes"), 0);
    repo.assert_whole();
}
