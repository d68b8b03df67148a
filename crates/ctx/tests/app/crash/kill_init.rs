//! `ctx init`, killed at every system call: the store does not exist or is complete, and a second
//! `init` completes it.

use std::fs;

use super::store_state as state;
use crate::harness::repo::Repo;
use crate::harness::seed::{report, seed};
use crate::harness::strace::{ObjectError, record_calls, run_with_fault};

fn init(repo: &Repo) -> [String; 4] {
    let dir = repo.dir().to_string_lossy().into_owned();
    ["init".to_owned(), "--project".to_owned(), "crash".to_owned(), dir]
}

/// What a store lacks that durable writes of concurrent processes need.
fn lacks(repo: &Repo) -> Vec<String> {
    let mut lacks = Vec::new();
    let status = repo.outcome(["stage", "status"]);
    if !status.ok() {
        lacks.push(format!("`stage status` says {}", status.code()));
    }
    let ignore =
        fs::read_to_string(repo.data().join(".gitignore")).unwrap_or_else(|e| e.to_string());
    if ignore != "*\n" {
        lacks.push(format!(".gitignore: {ignore:?}"));
    }
    if !repo.data().join("write.lock").exists() {
        lacks.push("there is no write.lock".to_owned());
    }
    let connection = state::open(&repo.data());
    for (sql, wanted) in [("PRAGMA journal_mode", "wal"), ("SELECT label FROM sessions", "main")] {
        let found = state::rows(&connection, sql);
        if found != [[wanted]] {
            lacks.push(format!("{sql}: {found:?}"));
        }
    }
    lacks
}

#[test]
fn an_init_killed_at_any_call_is_completed_by_the_next() {
    let recorded = Repo::bare();
    let arguments = init(&recorded);
    let points = record_calls(&recorded, &arguments.each_ref().map(String::as_str), &[]);
    assert_eq!(
        lacks(&recorded),
        Vec::<String>::new(),
        "seed {}: this one was not disturbed",
        seed()
    );
    let (mut kills, mut broken) = (0, Vec::new());
    for point in points {
        let here = format!("seed {}: init killed at {point}", seed());
        let repo = Repo::bare();
        let arguments = init(&repo);
        let arguments = arguments.each_ref().map(String::as_str);
        let done = run_with_fault(&repo, &arguments, &[], &point, ObjectError::Kill);
        assert!(done.killed() || done.ok(), "{here}: {done:?}");
        kills += usize::from(done.killed());
        let again = repo.outcome(arguments);
        if !again.ok() {
            broken.push(format!("{here}: a second init fails: {}", again.stderr.trim()));
            continue;
        }
        repo.verify(&here);
        let lacks = lacks(&repo);
        if !lacks.is_empty() {
            broken.push(format!("{here}: {}", lacks.join("; ")));
        }
        repo.ok(["stage", "start", "first work"]);
        repo.ok(["stage", "note", "first words"]);
        repo.ok(["stage", "compact"]);
        repo.ok(["gc"]);
        repo.verify(&here);
        assert_eq!(repo.ok(["log"])["commits"].as_array().map(Vec::len), Some(1), "{here}");
    }
    report("init", kills, "");
    assert!(kills >= 60, "seed {}: only {kills} kills", seed());
    assert!(
        broken.is_empty(),
        "{} of {kills} interrupted inits left a store that is not whole:\n{}",
        broken.len(),
        broken.join("\n")
    );
}
