//! What verbs do beside their task: names, words, directories, completions, help, logs.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::harness::repo::Repo;
use crate::harness::server::Server;
use crate::harness::test_store::on_postgres;

#[test]
fn words_are_joined() {
    let repo = Repo::new();
    let ran = repo.ok(["run", "hello", "big", "world"]);
    assert_eq!(ran["session"]["title"], "hello big world");
    assert_eq!(ran["messages"][0]["content"][0]["text"], "hello big world");
    let id = ran["session"]["id"].as_str().expect("an id");
    let sent = repo.ok(["session", "send", id, "and", "more"]);
    assert_eq!(sent["messages"][0]["content"][0]["text"], "and more");
}

#[test]
fn a_session_is_renamed() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "old"]);
    let named = repo.ok(["session", "rename", "old", "A", "new", "title"]);
    assert_eq!(named["session"]["title"], "A new title");
    let named = repo.ok(["session", "rename", "old", "--label", "new"]);
    assert_eq!(
        (&named["session"]["label"], &named["session"]["title"]),
        (&json!("new"), &json!("A new title"))
    );
    // The old label still works.
    assert_eq!(repo.ok(["session", "show", "old"])["session"]["label"], "new");
    repo.ok(["session", "new", "--label", "other"]);
    let (_, error) = repo.fails(["session", "rename", "other", "--label", "new"]);
    assert_eq!(error["code"], "label_in_use");
    assert_eq!(repo.fails(["session", "rename", "other"]).0, 2);
}

#[test]
fn cancel_says_what_it_did() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    assert!(repo.says(["session", "cancel", "s"]).starts_with("Nothing was running."));
    repo.ok(["session", "send", "s", "permission please"]);
    let said = repo.says(["session", "cancel", "s"]);
    assert!(said.starts_with("Released the permission request"), "{said}");
    assert_eq!(repo.ok(["session", "cancel", "s"])["cancelled"], "nothing");
}

#[test]
fn resume_takes_the_newest_session_of_the_directory() {
    let repo = Repo::new();
    assert_eq!(repo.fails(["session", "resume"]).1["code"], "no_session");
    let first = repo.ok(["run", "first"])["session"]["id"].clone();
    std::fs::create_dir(repo.dir().join("other")).expect("a directory");
    repo.ok(["run", "elsewhere", "--dir", "other"]);
    repo.ok(["session", "new", "--label", "empty"]);
    let resumed = repo.ok(["session", "resume"]);
    assert_eq!(resumed["session"]["title"], "elsewhere", "it works inside the project");
    repo.ok(["session", "send", first.as_str().expect("an id"), "again"]);
    assert_eq!(repo.ok(["session", "resume"])["session"]["id"], first);
}

#[test]
fn status_covers_the_sessions_of_the_directory() {
    let repo = Repo::new();
    repo.ok(["run", "remember the milk", "--label", "milk"]);
    repo.ok(["session", "new", "--label", "tea"]);
    repo.ok(["session", "send", "tea", "permission please"]);
    repo.ok(["--session", "milk", "stage", "start", "Buy milk"]);
    let status = repo.ok(["status"]);
    let labels: Vec<&str> = status["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|session| session["label"].as_str().expect("a label"))
        .collect();
    assert!(labels.contains(&"milk") && labels.contains(&"tea"), "{labels:?}");
    let said = repo.says(["status"]);
    assert!(said.contains("Buy milk in milk"), "the task of each session: {said}");
    assert!(said.contains("waiting for an answer"), "{said}");
    assert!(!said.contains("No task is open"), "a task of another session is open: {said}");
    assert!(Repo::new().says(["status"]).contains("No task is open"));
}

#[test]
fn init_offers_to_move_the_conversations_of_the_directory() {
    if on_postgres() {
        return;
    }
    let repo = Repo::bare();
    repo.ok(["run", "first"]);
    repo.ok(["run", "second", "--label", "second"]);
    let waiting = repo.ok(["run", "permission please", "--label", "busy"]);
    assert_eq!(waiting["session"]["state"], "suspended");
    let said = repo.says(["init"]);
    assert!(said.contains("3 conversations of this directory are in "), "{said}");
    assert!(said.contains("`ctx init --move`"), "{said}");
    assert!(repo.ok(["session", "list"])["sessions"].as_array().expect("a list").is_empty());
    let moved = repo.ok(["init", "--move"]);
    let total = moved["moved"]["sessions"].as_u64().expect("a count")
        + moved["moved"]["left"].as_u64().expect("a count");
    assert_eq!((total, moved["created"].as_bool()), (3, Some(false)), "{moved}");
    let shown = repo.ok(["session", "show", "second"]);
    assert_eq!(shown["messages"][0]["content"][0]["text"], "second");
    assert_eq!(repo.fails(["session", "show", "busy"]).1["code"], "no_session", "it runs there");
    repo.assert_whole();
}

/// The candidates of a command line whose last word is completed.
fn completed(repo: &Repo, words: &[&str]) -> String {
    let mut command = repo.command(["--"]);
    command.args(words).env("COMPLETE", "fish");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn sessions_turns_providers_models_and_files_are_completed() {
    let repo = Repo::new();
    let session = repo.ok(["session", "new", "--label", "talk", "--title", "A title"]);
    repo.ok(["session", "send", "talk", "hello"]);
    let id = session["session"]["id"].as_str().expect("an id");
    let sessions = completed(&repo, &["ctx", "session", "show", ""]);
    assert!(sessions.contains("talk\tA title") && sessions.contains(&id[10..14]), "{sessions}");
    let turn = repo.ok(["session", "tree", "talk"])["turns"][0]["id"].clone();
    let turns = completed(&repo, &["ctx", "session", "rewind", "talk", ""]);
    assert!(turns.contains(&turn.as_str().expect("an id")[..4]), "{turns}");
    assert!(turns.contains("hello"), "{turns}");
    assert!(completed(&repo, &["ctx", "run", "--provider", ""]).contains("demo"));
    assert!(completed(&repo, &["ctx", "run", "--model", ""]).contains("demo"));
    repo.write("talk.bundle", "");
    repo.write("notes.txt", "");
    let files = completed(&repo, &["ctx", "import", ""]);
    assert!(files.contains("talk.bundle") && !files.contains("notes.txt"), "{files}");
    let script = repo.says(["completions", "bash"]);
    assert!(script.contains("COMPLETE="), "the script asks the program");
    let mut bash = repo.foreign("bash");
    let mut child = bash.arg("-n").stdin(Stdio::piped()).spawn().expect("bash");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("written");
    assert!(child.wait().expect("its end").success());
}

#[test]
fn global_flags_have_a_section_of_their_own() {
    let repo = Repo::bare();
    let help = repo.says(["session", "list", "--help"]);
    let (own, global) = help.split_once("Global options:").expect("a section");
    assert!(own.contains("--archived") && !own.contains("--data"), "{help}");
    for flag in ["--data", "--store", "--json", "--utc", "--color", "--no-pager"] {
        assert!(global.contains(flag), "{flag}: {help}");
    }
    // One line each, at the end, in a terminal of 80 columns.
    for verb in [&[][..], &["session", "list"], &["session", "answer"], &["usage"], &["serve"]] {
        let mut command = repo.command([verb, &["--help"]].concat());
        let output = command.env("COLUMNS", "80").output().expect("it runs");
        let help = String::from_utf8(output.stdout).expect("text");
        let (_, global) = help.split_once("Global options:\n").expect("a section");
        let section: Vec<&str> = global.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(section.len(), 8, "{verb:?}: {help}");
        for line in section {
            assert!(line.trim_start().starts_with("--") && line.len() <= 80, "{verb:?}: {line}");
        }
        assert!(!global.contains("Options:"), "{help}");
    }
}

#[test]
fn a_server_logs_requests_at_debug() {
    let requests = |level: &str| {
        let home = crate::harness::server::home();
        let log = home.path().join("log");
        let file = std::fs::File::create(&log).expect("a file");
        let server = Server::spawn(home, "127.0.0.1:0", |command| {
            command.env("CTX_LOG", level).stderr(file)
        });
        server.get("/healthz").is(200);
        let (_, _, home) = server.end();
        let text = std::fs::read_to_string(log).expect("a log");
        drop(home);
        text.matches("request finished").count()
    };
    assert_eq!((requests("info"), requests("debug")), (0, 1));
}
