//! `ctx import … --watch`: sessions of other tools are followed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::repo::Repo;

const PATIENCE: Duration = Duration::from_secs(20);

/// A process that follows, and the lines that it prints.
struct Follower {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(repo: &Repo, arguments: &[&str]) -> Self {
        let mut all = vec!["--json", "import"];
        all.extend(arguments);
        all.push("--watch");
        let mut child = repo.command(all).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("another line").expect("text");
        serde_json::from_str(&line).expect("a document per line")
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> (Option<i32>, Duration) {
        let used = cpu_time(self.child.id());
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("a signal");
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return (status.code(), used);
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process so far.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

fn exchange(n: usize, text: &str) -> String {
    let at = "2026-01-02T03:04:05.678Z";
    let parent = (n > 0).then(|| format!("a{}", n - 1));
    let user = json!({"type": "user", "uuid": format!("u{n}"), "parentUuid": parent,
                      "sessionId": "s", "timestamp": at, "cwd": "/srv",
                      "message": {"role": "user", "content": text}});
    let answer = json!({"type": "assistant", "uuid": format!("a{n}"),
                        "parentUuid": format!("u{n}"), "sessionId": "s", "timestamp": at,
                        "message": {"role": "assistant", "content": [
                            {"type": "text", "text": format!("answer {n}")}]}});
    format!("{user}\n{answer}\n")
}

fn append(path: &Path, text: &str) {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    file.expect("a file").write_all(text.as_bytes()).expect("it is written");
}

fn claude_home(repo: &Repo) -> PathBuf {
    let home = repo.beside("claude");
    std::fs::create_dir_all(home.join("projects/x")).expect("directories");
    home
}

#[test]
fn a_session_that_grows_is_imported_again_and_vanished_files_are_survived() {
    let repo = Repo::new();
    let home = claude_home(&repo);
    let dir = home.join("projects");
    let file = dir.join("x/s.jsonl");
    append(&file, &exchange(0, "one"));
    let mut follower =
        Follower::start(&repo, &["--from", "claude-code", dir.to_str().expect("a path")]);
    let first = follower.next();
    assert_eq!(
        (&first["imported"][0]["effect"], &first["imported"][0]["turns"]),
        (&json!("created"), &json!(1))
    );
    append(&file, &exchange(1, "two"));
    let grown = follower.next();
    assert_eq!(
        (&grown["imported"][0]["effect"], &grown["imported"][0]["turns"]),
        (&json!("extended"), &json!(1)),
        "{grown}"
    );
    let shown = repo.ok(["session", "show", "claude-code:s", "--full"]).to_string();
    assert!(shown.contains("answer 1"), "{shown}");
    // The tool deletes the file, and another one appears.
    std::fs::remove_file(&file).expect("it is removed");
    append(&dir.join("x/other.jsonl"), &exchange(0, "elsewhere").replace("\"s\"", "\"other\""));
    let other = follower.next();
    assert_eq!(other["imported"][0]["effect"], "created", "{other}");
    // The tool writes the file anew, with a part of the last record.
    append(
        &file,
        &(exchange(0, "one") + &exchange(1, "two") + &exchange(2, "three") + "{\"type\":"),
    );
    let back = follower.next();
    assert_eq!(back["imported"][0]["turns"], 1, "{back}");
    let (exit, _) = follower.end();
    assert_eq!(exit, Some(0));
    assert_eq!(repo.ok(["session", "show", "claude-code:s"])["session"]["turn_count"], 3);
    repo.ok(["verify"]);
}

#[test]
fn all_tools_are_followed_with_little_processor_time() {
    let repo = Repo::new();
    let home = claude_home(&repo);
    let repo = repo.with("CLAUDE_CONFIG_DIR", home.to_str().expect("a path"));
    let mut follower = Follower::start(&repo, &["--all", "--yes"]);
    assert_eq!(follower.next()["imported"], json!([]));
    let before = (Instant::now(), cpu_time(follower.child.id()));
    append(&home.join("projects/x/s.jsonl"), &exchange(0, "one"));
    assert_eq!(follower.next()["imported"][0]["tool"], "claude-code");
    append(&home.join("projects/x/s.jsonl"), &exchange(1, "two"));
    assert_eq!(follower.next()["imported"][0]["effect"], "extended");
    let elapsed = before.0.elapsed();
    let (exit, used) = follower.end();
    assert_eq!(exit, Some(0));
    let used = used - before.1;
    assert!(used < elapsed / 2, "{used:?} of {elapsed:?}");
    let missing = repo.beside("missing");
    let missing = missing.to_str().expect("a path");
    let (exit, error) = repo.refuses(["import", "--from", "codex", missing, "--watch"]);
    assert_eq!((exit, &error["code"]), (1, &json!("source_unreadable")));
}
