//! What verbs do beside their task: names, words, directories, completions, help, logs.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::server::Server;
use crate::harness::test_store::{on_postgres, skipped_on_postgres};
use crate::harness::wait_until;

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

/// A session with a sealed task that wrote a file of the directory.
fn work_in(repo: &Repo, label: &str, file: &str, text: &str) {
    repo.ok(["run", "Add retry logic to the client", "--label", label]);
    repo.write(file, text);
    repo.ok(["stage", "observe", "file-write", file, "--session", label]);
    repo.ok(["stage", "seal", "-m", &format!("Wrote {file}"), "--session", label]);
}

#[test]
fn conversations_move_with_their_tasks_and_commits() {
    if skipped_on_postgres("it moves conversations between directories") {
        return;
    }
    let repo = Repo::bare();
    // The newest activity is not that of the newest commit.
    work_in(&repo, "old", "a.txt", "one\n");
    work_in(&repo, "new", "b.txt", "two\n");
    repo.ok(["session", "send", "old", "hello"]);
    repo.ok(["run", "Add a timeout to the client", "--label", "open"]);
    let before = repo.ok(["log"])["commits"].clone();
    let messages = |log: &Value| -> Vec<String> {
        let commits = log.as_array().expect("commits").iter();
        commits.map(|it| it["message"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(messages(&before), ["Wrote b.txt", "Wrote a.txt"]);
    let moved = repo.ok(["init", "--move"]);
    assert_eq!(moved["moved"], json!({"sessions": 3, "tasks": 3, "left": 0}));
    let after = repo.ok(["log"])["commits"].clone();
    assert_eq!(messages(&after), messages(&before));
    let (newest, oldest) = (&after[0], &after[1]);
    assert_eq!((&newest["project"], &newest["parents"][0]), (&json!("project"), &oldest["id"]));
    assert_eq!(newest["task"], before[0]["task"]);
    let shown = repo.says(["show", "HEAD"]);
    assert!(shown.contains("Session:  new") && shown.contains("diff b.txt"), "{shown}");
    let blamed = repo.ok(["blame", "a.txt"]);
    assert_eq!(blamed["lines"][0]["session_label"], "old", "{blamed}");
    assert_eq!(blamed["lines"][0]["commit"], oldest["id"], "{blamed}");
    // An open task is continued here.
    let open = repo.ok(["session", "show", "open"])["session"]["task"].clone();
    assert_eq!(open["description"], "Add a timeout to the client");
    repo.ok(["stage", "seal", "--session", "open"]);
    assert_eq!(repo.commits()[0]["parents"][0], newest["id"]);
    repo.assert_whole();
    // What was moved is gone from the store of the user, and nothing is moved twice.
    assert_eq!(repo.ok(["init", "--move"])["moved"], Value::Null);
}

#[test]
fn a_move_that_was_interrupted_is_completed_by_the_next_one() {
    if skipped_on_postgres("it moves conversations between directories") {
        return;
    }
    let repo = Repo::bare();
    work_in(&repo, "work", "a.txt", "one\n");
    let user_store = repo.home().join("data/ctx");
    let copy = repo.beside("copy");
    copy_directory(&user_store, &copy);
    repo.ok(["init", "--move"]);
    // As if the process had ended before the conversation was deleted in the store of the user.
    std::fs::remove_dir_all(&user_store).expect("removed");
    copy_directory(&copy, &user_store);
    assert_eq!(repo.ok(["init", "--move"])["moved"], json!({"sessions": 1, "tasks": 0, "left": 0}));
    let sessions = repo.ok(["session", "list"])["sessions"].as_array().expect("a list").len();
    assert_eq!((repo.commits().len(), sessions), (1, 1));
    repo.assert_whole();
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

#[test]
fn directories_that_share_a_store_are_projects_of_their_own() {
    if skipped_on_postgres("the store of the user is a directory") {
        return;
    }
    let repo = Repo::bare();
    let other = repo.beside("other");
    std::fs::create_dir(&other).expect("a directory");
    let there = |arguments: &[&str]| {
        let mut command = repo.command(arguments.iter().chain(&["--json"]));
        let output = command.current_dir(&other).output().expect("it runs");
        serde_json::from_slice::<Value>(&output.stdout).expect("a document")
    };
    work_in(&repo, "here", "a.txt", "one\n");
    let here = repo.ok(["status"]);
    assert_eq!(here["project"], json!(repo.dir()));
    assert_eq!(repo.ok(["session", "show", "here"])["session"]["project"], here["project"]);
    assert_eq!(there(&["status"])["head"], Value::Null);
    assert_eq!(there(&["log"])["commits"], json!([]));
    std::fs::write(other.join("a.txt"), "one\n").expect("written");
    there(&["run", "Add a timeout to the client", "--label", "there"]);
    there(&["stage", "seal", "--session", "there"]);
    // The default session is one of each directory, too, and not listed while it is empty.
    repo.fails(["stage", "seal"]);
    assert_eq!(repo.ok(["session", "list"])["sessions"].as_array().expect("a list").len(), 2);
    repo.ok(["stage", "start", "Buy milk"]);
    there(&["stage", "start", "Buy tea"]);
    assert_eq!(repo.ok(["status"])["task"]["description"], "Buy milk");
    let milk = repo.ok(["stage", "seal", "-m", "Milk"])["commit"].clone();
    assert_eq!(milk["project"], json!(repo.dir()));
    there(&["stage", "seal", "-m", "Tea"]);
    let projects: Vec<Value> = there(&["log"])["commits"].as_array().expect("commits").clone();
    assert_eq!(projects.len(), 2, "{projects:?}");
    assert!(projects.iter().all(|it| it["project"] == json!(other)), "{projects:?}");
    assert_eq!(repo.commits().len(), 2);
    assert_eq!(repo.ok(["blame", "a.txt"])["lines"][0]["session_label"], "here");
    assert_eq!(there(&["blame", "a.txt"])["lines"][0]["session_label"], Value::Null);
    assert_eq!(there(&["log", "--all"])["commits"].as_array().expect("commits").len(), 4);
}

#[test]
fn a_store_of_the_user_with_a_project_name_keeps_it() {
    if skipped_on_postgres("the store of the user is a directory") {
        return;
    }
    let repo = Repo::bare();
    let user_store = repo.home().join("data/ctx");
    repo.ok(["init", "--project", "first", "--data", user_store.to_str().expect("a path")]);
    repo.ok(["run", "Add retry logic to the client", "--label", "work"]);
    assert_eq!(repo.ok(["session", "show", "work"])["session"]["project"], "first");
    repo.ok(["stage", "seal", "--session", "work"]);
    repo.ok(["stage", "start", "Buy milk"]);
    repo.ok(["stage", "seal", "--session", "main"]);
    assert_eq!((&repo.ok(["status"])["project"], repo.commits().len()), (&json!("first"), 2));
    // The directory becomes a project of its own with its conversations.
    assert_eq!(repo.ok(["init", "--move"])["moved"]["sessions"], 1);
    assert_eq!(repo.commits()[0]["project"], "project");
    assert_eq!(repo.commits().len(), 1, "the default session of the other store stays there");
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
fn every_argument_is_completed_with_values_of_its_kind() {
    // `continue` once offered commits, and `fz` did not complete to the id FZWF.
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "seal"]);
    let session = repo.ok(["session", "new", "--label", "talk"]);
    let id = session["session"]["id"].as_str().expect("an id");
    let offered = |words: &[&str], value: &str| {
        let candidates = completed(&repo, words);
        candidates.lines().any(|line| line.split('\t').any(|part| part == value))
    };
    for verb in [&["ctx", "continue"][..], &["ctx", "session", "show"]] {
        let all = [verb, &[""]].concat();
        assert!(offered(&all, "talk") && offered(&all, &id[10..14]), "{verb:?}");
        assert!(!offered(&all, "HEAD"), "no commits: {verb:?}");
        assert!(!offered(&all, "main"), "the default session has no turns: {verb:?}");
        let lower_case = id[10..12].to_ascii_lowercase();
        let beginning = [verb, &[lower_case.as_str()]].concat();
        assert!(offered(&beginning, &id[10..14]), "{beginning:?}");
    }
    assert!(offered(&["ctx", "show", ""], "HEAD"));
    assert!(!offered(&["ctx", "outbox", "show", ""], "HEAD"), "deliveries are no commits");
    assert!(offered(&["ctx", "provider", "test", ""], "demo"));
    for key in ["day", "model", "project", "session", "provider", "tool"] {
        assert!(offered(&["ctx", "usage", "--by", ""], key), "{key}");
    }
    assert!(offered(&["ctx", "usage", "--by", "day,m"], "day,model"), "a second key");
    assert!(!offered(&["ctx", "usage", "--by", "tool,"], "tool,model"), "no such report");
    for mode in ["interrupt", "steer", "followup", "collect", "steer-backlog", "queue"] {
        assert!(offered(&["ctx", "session", "send", "talk", "--mode", ""], mode), "{mode}");
    }
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

#[test]
fn the_newest_session_may_wait_for_its_first_answer() {
    let repo = Repo::new();
    repo.ok(["run", "hello", "--label", "older"]);
    repo.ok(["run", "permission please", "--label", "newer"]);
    assert_eq!(repo.ok(["session", "resume"])["session"]["label"], "newer");
}

#[test]
fn a_session_of_a_killed_process_is_not_listed_as_running() {
    if skipped_on_postgres("the death of a process is seen when its lease has expired") {
        return;
    }
    let repo = Repo::new();
    let mut running = repo.command(["run", "slow 600", "--label", "killed"]);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let listed = || repo.ok(["session", "list"])["sessions"][0].clone();
    wait_until("it runs", || listed()["state"] == "running");
    running.kill().expect("killed");
    running.wait().expect("it has ended");
    let killed = listed();
    assert_eq!((&killed["status"], &killed["state"]), (&json!("suspended"), &json!("idle")));
    assert_eq!(repo.ok(["session", "show", "killed"])["session"]["state"], "idle");
    let text = repo.says(["session", "list"]);
    assert!(text.contains("interrupted by a restart") && !text.contains("running"), "{text}");
}

#[test]
fn lists_have_limits_and_count_what_is_left() {
    let repo = Repo::new();
    for n in 0..3 {
        repo.ok(["stage", "start", &format!("Count the apples {n}")]);
        repo.ok(["stage", "note", "apples"]);
        repo.ok(["stage", "seal"]);
    }
    let narrative = repo.says(["narrative", "--limit", "1"]);
    assert!(narrative.contains("2 more tasks; show more with `--limit N`"), "{narrative}");
    let found = repo.says(["search", "apples", "--limit", "2"]);
    let last = found.lines().last().expect("a line");
    assert!(last.contains(" more result") && last.contains("`--limit N`"), "{found}");
    repo.ok(["run", "hello", "--label", "s"]);
    repo.ok(["session", "send", "s", "again"]);
    assert_eq!(
        repo.ok(["session", "tree", "s", "-n", "1"])["turns"].as_array().map(Vec::len),
        Some(1)
    );
    repo.configure("[providers.a]\nkind = \"demo\"\n[providers.b]\nkind = \"demo\"\n");
    let providers = repo.says(["provider", "list", "--limit", "1"]);
    assert!(providers.contains("more provider"), "{providers}");
}

#[test]
fn titles_are_cut_at_the_width_and_times_are_local() {
    let repo = Repo::new();
    let title = "日本語 and a very long description of a task that does not fit into sixty columns";
    repo.ok(["stage", "start", title]);
    repo.ok(["stage", "note", &"words ".repeat(40)]);
    let narrow = |arguments: &[&str]| {
        let mut command = repo.command(arguments);
        command.env("COLUMNS", "60").env("TZ", "Asia/Kolkata");
        String::from_utf8(command.output().expect("it runs").stdout).expect("text")
    };
    for verb in ["narrative", "status"] {
        let text = narrow(&[verb]);
        let wide = text.lines().find(|line| unicode_width::UnicodeWidthStr::width(*line) > 60);
        assert!(text.contains('…') && wide.is_none(), "{verb}: {wide:?}\n{text}");
    }
    repo.ok(["run", "hello", "--label", "s"]);
    let utc = narrow(&["session", "show", "s", "--utc"]);
    let heading = utc.lines().next().expect("a line");
    assert!(heading.starts_with("s hello ") && heading.ends_with('Z'), "{heading}");
    let local = narrow(&["session", "show", "s"]);
    assert!(!local.lines().next().expect("a line").contains('T'), "{local}");
}
