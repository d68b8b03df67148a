//! `ctx hook record`: events of agents outside ctx in the open task.

use std::fs::File;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// Sends an event to the hook, which succeeds silently whatever it is.
#[track_caller]
pub(super) fn hook(repo: &Repo, tool: &str, event: &str, payload: &Value) {
    let output = repo.piped(["hook", "record", tool, event], payload.to_string().as_bytes());
    assert_silent(&output);
}

#[track_caller]
fn assert_silent(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

/// An event of Claude Code in the project.
#[track_caller]
pub(super) fn claude(repo: &Repo, event: &str, fields: Value) {
    let mut payload = json!({"session_id": "s1", "cwd": repo.dir(), "hook_event_name": event});
    payload.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    hook(repo, "claude-code", event, &payload);
}

pub(super) fn prompt(repo: &Repo, text: &str) {
    claude(repo, "UserPromptSubmit", json!({"prompt": text}));
}

fn wrote(repo: &Repo, path: &Path) {
    let fields = json!({"tool_name": "Write", "tool_input": {"file_path": path}});
    claude(repo, "PostToolUse", fields);
}

fn ran(repo: &Repo, line: &str) {
    let fields = json!({"tool_name": "Bash", "tool_input": {"command": line},
                        "tool_response": {"stdout": "out"}});
    claude(repo, "PostToolUse", fields);
}

/// All entries of the steps of the open task.
pub(super) fn entries(repo: &Repo) -> Vec<Value> {
    let payload = |step: Value| step["content"]["payload"].as_array().expect("entries").clone();
    repo.steps().into_iter().flat_map(payload).collect()
}

fn of_type(repo: &Repo, kind: &str) -> Vec<Value> {
    entries(repo).into_iter().filter(|entry| entry["type"] == kind).collect()
}

#[test]
fn a_conversation_is_recorded_in_a_task() {
    let repo = Repo::new();
    prompt(&repo, "Add retry logic to the client");
    assert_eq!(repo.task()["description"], "Add retry logic to the client");
    wrote(&repo, &repo.write("src/client.rs", "fn retry() {}\n"));
    ran(&repo, "cargo test");
    let read = repo.write("notes.txt", "a note");
    // Times of files advance in steps: within one step the next command may have written it.
    let file = File::options().append(true).open(&read).expect("the file");
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("its time");
    let fields = json!({"tool_name": "Read", "tool_input": {"file_path": read}});
    claude(&repo, "PostToolUse", fields);
    let fields = json!({"tool_name": "Bash", "tool_input": {"command": "false"},
                        "error": "Exit code 1\nno"});
    claude(&repo, "PostToolUseFailure", fields);
    let todos = json!([{"content": "write it", "status": "completed"}]);
    let fields = json!({"tool_name": "TodoWrite", "tool_input": {"todos": todos}});
    claude(&repo, "PostToolUse", fields);
    let fields = json!({"tool_name": "Grep", "tool_input": {}, "tool_response": "3 matches"});
    claude(&repo, "PostToolUse", fields);

    let written = &of_type(&repo, "file_write")[0];
    assert_eq!(
        (&written["path"], &written["content"]),
        (&json!("src/client.rs"), &json!("fn retry() {}\n"))
    );
    let commands = of_type(&repo, "command");
    assert_eq!((&commands[0]["argv"], &commands[0]["exit"]), (&json!(["cargo test"]), &json!(0)));
    assert_eq!((&commands[1]["argv"], &commands[1]["exit"]), (&json!(["false"]), &json!(1)));
    assert_eq!((&commands[0]["output"], &commands[1]["output"]), (&json!("out"), &json!("no")));
    assert_eq!(of_type(&repo, "file_read")[0]["path"], "notes.txt");
    assert_eq!(of_type(&repo, "plan")[0]["text"], "[completed] write it");
    assert!(repo.notes().contains(&"Tool Grep: ok: 3 matches".to_owned()), "{:?}", repo.notes());

    // The final text moves the task, and the user's confirmation seals it.
    claude(&repo, "Stop", json!({"last_assistant_message": "Done. All tests pass."}));
    assert_eq!(repo.state(), "pending_complete");
    claude(&repo, "SessionEnd", json!({"reason": "exit"}));
    assert_eq!(repo.state(), "pending_complete", "R3, R11: the end of an agent ends no task");
    assert!(repo.notes().contains(&"Claude Code ended (exit)".to_owned()));
    prompt(&repo, "Perfect, thanks!");
    let commit = &repo.commits()[0];
    assert_eq!(commit["commit_type"]["name"], "normal");
    let files = json!([{"path": "notes.txt", "written": false},
                       {"path": "src/client.rs", "written": true}]);
    assert_eq!(commit["files"], files);
    assert_eq!(repo.task(), Value::Null, "an acknowledgement opens no task");
    assert!(!repo.ok(["search", "retry"])["hits"].as_array().expect("hits").is_empty());
    repo.assert_whole();
}

#[test]
fn work_goes_into_the_task_that_is_open() {
    let repo = Repo::working_on("Add retry logic");
    prompt(&repo, "also add logging");
    ran(&repo, "cargo test");
    let task = repo.task();
    assert_eq!(
        (&task["description"], repo.state().as_str()),
        (&json!("Add retry logic"), "running")
    );
    assert_eq!(of_type(&repo, "command").len(), 1);
    // A question of the user changes nothing and is kept.
    prompt(&repo, "What does that mean?");
    assert_eq!(repo.task()["id"], task["id"]);
    assert!(repo.notes().iter().any(|note| note.contains("What does that mean?")));
    // Another task does not wait for a choice.
    prompt(&repo, "New task: write the release notes");
    assert_eq!(repo.task()["description"], "New task: write the release notes");
    assert_eq!(repo.commits()[0]["commit_type"]["name"], "interrupted_by_new_task");
    assert_eq!(repo.ok(["stage", "status"])["pending_prompt"], Value::Null);
}

#[test]
fn files_that_a_command_changed_are_recorded() {
    let repo = Repo::new();
    repo.write("old.txt", "before");
    let old = std::fs::File::options().append(true).open(repo.dir().join("old.txt"));
    let hour = std::time::Duration::from_secs(3600);
    old.and_then(|it| it.set_modified(std::time::SystemTime::now() - hour)).expect("its time");
    prompt(&repo, "Generate the files");
    repo.write("made/by-command.txt", "content");
    // The times of files advance in steps; within one, a file may be recorded twice.
    std::thread::sleep(std::time::Duration::from_millis(20));
    ran(&repo, "make files");
    let written = of_type(&repo, "file_write");
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(
        (&written[0]["path"], &written[0]["content"]),
        (&json!("made/by-command.txt"), &json!("content"))
    );
    // A file that was not changed again is not recorded again.
    ran(&repo, "true");
    assert_eq!(of_type(&repo, "file_write").len(), 1);
}

#[test]
fn contents_are_bounded_and_secrets_are_left_out() {
    let repo = Repo::working_on("Add retry logic");
    wrote(&repo, &repo.write(".env", "KEY=hunter2"));
    wrote(&repo, &repo.write("large.bin", vec![7; 5 << 20]));
    ran(&repo, &"x".repeat(2_000_000));
    let fields = json!({"tool_name": "Bash", "tool_input": {"command": "yes"},
                        "tool_response": {"stdout": "y\n".repeat(1 << 20)}});
    claude(&repo, "PostToolUse", fields);
    prompt(&repo, &"also add logging. ".repeat(100_000));
    let all = entries(&repo);
    let text = json!(all).to_string();
    assert!(!text.contains("hunter2") && text.contains("\".env\""), "the path is recorded");
    let written = of_type(&repo, "file_write");
    assert_eq!(written[0]["content"]["bytes"], 11);
    assert_eq!(written[1]["content"]["bytes"], 5 << 20);
    assert!(written.iter().all(|entry| !entry["content"]["omitted"].is_null()), "{written:?}");
    assert_eq!(of_type(&repo, "command").len(), 2);
    assert!(text.contains("also add logging."));
    assert!(!repo.data().join("hooks/refused").exists(), "nothing was refused");
}

#[test]
fn without_a_store_nothing_is_made() {
    let repo = Repo::bare();
    if crate::harness::test_store::on_postgres() {
        return; // The environment names a store.
    }
    prompt(&repo, "Add retry logic");
    wrote(&repo, &repo.dir().join("a.rs"));
    let left: Vec<_> = std::fs::read_dir(repo.dir()).expect("the project").collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!repo.home().join("data").exists() && !repo.home().join(".local").exists());
    // The store in the user's data directory is not that of this directory.
    std::fs::create_dir_all(repo.home().join("data/ctx")).expect("a directory");
    std::fs::write(repo.home().join("data/ctx/ctx.toml"), "").expect("a configuration");
    prompt(&repo, "Add retry logic");
    assert!(!repo.home().join("data/ctx/hooks").exists());
}

#[test]
fn the_working_directory_of_the_payload_selects_the_store() {
    let repo = Repo::new();
    let below = repo.dir().join("a/b");
    std::fs::create_dir_all(&below).expect("a directory");
    let payload = json!({"session_id": "s", "cwd": below, "prompt": "Add retry logic"});
    let mut command = repo.command(["hook", "record", "claude-code", "UserPromptSubmit"]);
    command.current_dir("/").stdin(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, payload.to_string().as_bytes()).expect("the payload");
    drop(stdin);
    assert_silent(&child.wait_with_output().expect("the program ends"));
    assert_eq!(repo.task()["description"], "Add retry logic");
    // Relative paths are relative to it, recorded ones to the project.
    repo.write("a/b/file.txt", "x");
    let fields =
        json!({"session_id": "s", "cwd": below, "tool": "write", "input": {"path": "file.txt"}});
    hook(&repo, "pi", "tool", &fields);
    assert_eq!(of_type(&repo, "file_write")[0]["path"], "a/b/file.txt");
}

#[test]
fn an_agent_that_ctx_runs_records_nothing() {
    let mut repo = Repo::new();
    repo.set("CTX_RUN", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    prompt(&repo, "Add retry logic");
    assert_eq!(repo.task(), Value::Null);
    assert!(!repo.data().join("hooks").exists());
    repo.unset("CTX_RUN");
    repo.set("CTX_SESSION", "second");
    prompt(&repo, "Add retry logic");
    assert_eq!(repo.task()["description"], "Add retry logic", "CTX_SESSION selects the session");
}

#[test]
fn an_invalid_event_is_logged_and_breaks_nothing() {
    let repo = Repo::working_on("Add retry logic");
    let before = repo.everything();
    for (arguments, input) in [
        (vec!["hook", "record", "claude-code", "Stop"], &b"not json"[..]),
        (vec!["hook", "record", "claude-code", "Stop"], b""),
        (vec!["hook", "record", "claude-code", "Stop"], b"[1, 2]"),
        (vec!["hook", "record", "claude-code"], b"{\"hook_event_name\": 3}"),
        (vec!["hook", "record", "emacs", "Stop"], b"{}"),
        (vec!["hook", "record"], b"{}"),
        (vec!["hook", "record", "--help"], b"{}"),
        (vec!["hook", "record", "codex", "PostToolUse"], b"\xff\xfe{}"),
        (vec!["hook", "record", "pi", "prompt"], b"{\"prompt\": \"  \"}"),
    ] {
        assert_silent(&repo.piped(arguments, input));
    }
    assert_eq!(repo.everything(), before);
    let log = std::fs::read_to_string(repo.data().join("hooks/hook.log")).expect("a log");
    assert!(log.contains("not valid JSON") && log.contains("no tool `emacs`"), "{log}");
}

#[test]
fn every_tool_reports_prompts_tools_and_ends() {
    let prompt = |repo: &Repo, tool: &str, event: &str| {
        let payload = json!({"session_id": "s", "cwd": repo.dir(), "prompt": "Add retry logic"});
        hook(repo, tool, event, &payload);
    };
    for (tool, start, work, end, fields) in [
        (
            "codex",
            "UserPromptSubmit",
            "PostToolUse",
            ("Stop", "last_assistant_message"),
            json!({"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "out"}),
        ),
        (
            "gemini-cli",
            "BeforeAgent",
            "AfterTool",
            ("AfterAgent", "prompt_response"),
            json!({"tool_name": "run_shell_command", "tool_input": {"command": "make"},
                   "tool_response": {"llmContent": "Exit Code: 2", "returnDisplay": "out"}}),
        ),
        (
            "opencode",
            "prompt",
            "tool",
            ("turn_end", "text"),
            json!({"tool": "bash", "input": {"command": "make"}, "output": "out", "exit": 2}),
        ),
        (
            "pi",
            "prompt",
            "tool",
            ("turn_end", "text"),
            json!({"tool": "bash", "input": {"command": "make"}, "output": "out"}),
        ),
    ] {
        let repo = Repo::new();
        prompt(&repo, tool, start);
        assert_eq!(repo.task()["description"], "Add retry logic", "{tool}");
        let mut payload = json!({"session_id": "s", "cwd": repo.dir()});
        payload
            .as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("fields").clone());
        hook(&repo, tool, work, &payload);
        let command = of_type(&repo, "command")[0].clone();
        assert_eq!((&command["argv"], &command["output"]), (&json!(["make"]), &json!("out")));
        repo.write("late.txt", "x");
        hook(&repo, tool, end.0, &json!({"session_id": "s", end.1: "Which one do you mean?"}));
        assert_eq!(repo.state(), "awaiting_user", "{tool}");
        let found = of_type(&repo, "file_write").len();
        assert_eq!(found, usize::from(tool == "codex"), "Codex does not report every change");
    }
}

#[test]
fn agents_that_ctx_runs_see_their_run() {
    let repo = Repo::new();
    let seen = repo.beside("environment");
    for kind in ["acp", "pi"] {
        let command = json!(["sh", "-c", format!("env > {}", seen.display())]);
        repo.configure(format!(
            "[defaults]\nprovider = \"x\"\n[providers.x]\nkind = \"{kind}\"\ncommand = {command}\n"
        ));
        let mut run = repo.command(["--data", ".ctx", "run", "hello"]);
        // The agent ends at once, so the run fails.
        assert_eq!(run.output().expect("the program runs").status.code(), Some(1));
        let environment = std::fs::read_to_string(&seen).expect("the agent was started");
        let value = |name: &str| {
            let start = format!("{name}=");
            environment.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        assert!(value("CTX_RUN").is_some_and(|run| run.len() == 26), "{environment}");
        assert!(value("CTX_SESSION").is_some_and(|session| session.len() == 26));
        assert_eq!(value("CTX_DATA").as_deref(), repo.data().to_str());
        std::fs::remove_file(&seen).expect("the next case");
    }
}
