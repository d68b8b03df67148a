//! `ctx export --git BRANCH`, `--notes` and `--trace`.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// Runs git in the project, with a fixed identity, and returns what it prints.
fn git(repo: &Repo, arguments: &[&str]) -> String {
    git_at(repo, None, arguments)
}

/// As `git`, with the time of a commit.
fn git_at(repo: &Repo, at: Option<&str>, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(repo.dir()).args(arguments);
    command.envs(at.map(|at| ("GIT_COMMITTER_DATE", at)));
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "person").env(format!("GIT_{who}_EMAIL"), "p@q");
    }
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// A git repository with a store, a conversation of two turns and a sealed task.
fn project() -> Repo {
    let repo = Repo::new();
    git(&repo, &["init", "-q", "-b", "main"]);
    repo.write("src/lib.rs", "fn old() {}\n");
    git(&repo, &["add", "src"]);
    git(&repo, &["commit", "-qm", "first"]);
    repo.ok(["session", "new", "--label", "talk"]);
    for text in ["help", "help again"] {
        repo.ok(["session", "send", "talk", text, "--provider", "demo"]);
    }
    repo.ok(["stage", "start", "Add a parser"]);
    repo.ok(["stage", "observe", "file-read", "src/lib.rs"]);
    repo.write("src/lib.rs", "fn old() {}\nfn parse() {}\n");
    repo.ok(["stage", "observe", "file-write", "src/lib.rs"]);
    repo.ok(["stage", "compact", "-m", "Added the parser"]);
    repo
}

#[test]
fn a_branch_has_turns_and_commits_with_stable_ids_and_is_only_extended() {
    let repo = project();
    let before = git(&repo, &["status", "--porcelain"]);
    let exported = repo.ok(["export", "--git", "talks"]);
    assert_eq!((&exported["turns"], &exported["commits"]), (&json!(2), &json!(1)), "{exported}");
    let head = git(&repo, &["rev-parse", "talks"]);
    assert_eq!(exported["head"], head.as_str());
    let subjects = git(&repo, &["log", "--format=%s", "talks"]);
    assert_eq!(subjects, "Added the parser\nhelp again\nhelp");
    let files = git(&repo, &["ls-tree", "-r", "--name-only", "talks"]);
    assert_eq!(files.lines().filter(|file| file.starts_with("sessions/")).count(), 4, "{files}");
    let written = git(&repo, &["show", "talks:files/src/lib.rs"]);
    assert_eq!(written, "fn old() {}\nfn parse() {}");
    // Neither HEAD nor the index nor the work tree has changed, and no other ref is left.
    assert_eq!(git(&repo, &["status", "--porcelain"]), before);
    assert_eq!(git(&repo, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(
        git(&repo, &["for-each-ref", "--format=%(refname)"]),
        "refs/heads/main\nrefs/heads/talks"
    );
    git(&repo, &["fsck", "--strict"]);

    // The same records give the same ids; nothing new adds nothing; a new turn is appended.
    assert_eq!(repo.ok(["export", "--git", "again"])["head"], head.as_str());
    let same = repo.ok(["export", "--git", "talks"]);
    assert_eq!((&same["turns"], &same["head"]), (&json!(0), &json!(head)), "{same}");
    repo.ok(["session", "send", "talk", "third", "--provider", "demo"]);
    let grown = repo.ok(["export", "--git", "talks"]);
    assert_eq!((&grown["turns"], &grown["previous"]), (&json!(1), &json!(head)), "{grown}");
    assert_eq!(git(&repo, &["rev-parse", "talks^"]), head);
    assert_eq!(repo.ok(["export", "--git", "whole"])["head"], grown["head"]);

    // One session alone: the sealed task belongs to another one.
    let alone = repo.ok(["export", "talk", "--git", "alone"]);
    assert_eq!((&alone["turns"], &alone["commits"]), (&json!(3), &json!(0)), "{alone}");
}

#[test]
fn a_branch_that_ctx_did_not_write_is_refused() {
    let repo = project();
    git(&repo, &["branch", "mine"]);
    let mine = git(&repo, &["rev-parse", "mine"]);
    repo.ok(["export", "--git", "talks"]);
    git(&repo, &["branch", "extended", "talks"]);
    let tree = git(&repo, &["rev-parse", "talks^{tree}"]);
    let more = git(&repo, &["commit-tree", &tree, "-p", "extended", "-m", "by hand"]);
    git(&repo, &["update-ref", "refs/heads/extended", &more]);
    for (branch, exit, code) in [
        ("main", 1, "branch_checked_out"),
        ("mine", 1, "branch_not_exported"),
        ("extended", 1, "branch_not_exported"),
        ("bad..name", 2, "bad_branch"),
    ] {
        let (found, error) = repo.refuses(["export", "--git", branch]);
        assert_eq!((found, &error["code"]), (exit, &json!(code)), "{branch}: {error}");
    }
    assert_eq!(git(&repo, &["rev-parse", "mine"]), mine);
    assert_eq!(git(&repo, &["rev-parse", "extended"]), more);
    let outside = Repo::new();
    let (exit, error) = outside.refuses(["export", "--git", "talks"]);
    assert_eq!((exit, &error["code"]), (1, &json!("no_repository")));
    assert_eq!(outside.refuses(["export"]).0, 2);
}

#[test]
fn sealed_tasks_become_notes_and_agent_trace_records_once() {
    let repo = project();
    git(&repo, &["commit", "-qam", "parser"]);
    // A commit after it with another content, later than the task.
    repo.write("src/lib.rs", "fn old() {}\nfn parse() {}\nfn by_hand() {}\n");
    git_at(&repo, Some("2040-01-01T00:00:00Z"), &["commit", "-qam", "by hand"]);
    let exported = repo.ok(["export", "--notes", "--trace"]);
    assert_eq!((&exported["notes"], &exported["traces"]), (&json!(1), &json!(1)), "{exported}");
    let note = git(&repo, &["notes", "--ref=ctx", "show", "HEAD~1"]);
    let commit = repo.ok(["log"])["commits"][0]["id"].as_str().expect("an id").to_owned();
    assert!(note.contains(&format!("ctx-commit: {commit}")), "{note}");
    assert!(note.contains("task: Add a parser\nresult: Added the parser"), "{note}");
    let traces = std::fs::read_to_string(repo.dir().join(".agent-trace/traces.jsonl"));
    let traces = traces.expect("a file");
    let record: Value = serde_json::from_str(traces.trim()).expect("one record");
    assert_eq!((&record["version"], &record["vcs"]["type"]), (&json!("0.1.0"), &json!("git")));
    assert_eq!(record["vcs"]["revision"], git(&repo, &["rev-parse", "HEAD~1"]));
    assert_eq!(record["files"][0]["path"], "src/lib.rs");
    let conversation = &record["files"][0]["conversations"][0];
    assert_eq!(conversation["ranges"], json!([{"start_line": 2, "end_line": 2}]), "{record}");
    assert_eq!(conversation["contributor"]["type"], "ai");
    let again = repo.ok(["export", "--notes", "--trace"]);
    assert_eq!((&again["notes"], &again["traces"]), (&json!(0), &json!(0)), "{again}");
}
