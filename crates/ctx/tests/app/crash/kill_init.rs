//! `ctx init`, killed at every call: there is no store or a whole one, and telling it again makes it whole.

use std::fs;

use super::lab::Lab;
use super::seed::{seed, tell};
use super::state;
use super::strace::{Fate, learn, meet};

fn init(lab: &Lab) -> [String; 4] {
    let dir = lab.dir.to_string_lossy().into_owned();
    ["init".to_owned(), "--project".to_owned(), "crash".to_owned(), dir]
}

/// What a store lacks in which work can be recorded, durably and beside others.
fn lacks(lab: &Lab) -> Vec<String> {
    let mut lacks = Vec::new();
    let status = lab.ctx(&["stage", "status"]);
    if !status.ok() {
        lacks.push(format!("`stage status` says {}", status.code()));
    }
    let ignore =
        fs::read_to_string(lab.store().join(".gitignore")).unwrap_or_else(|e| e.to_string());
    if ignore != "*\n" {
        lacks.push(format!(".gitignore: {ignore:?}"));
    }
    if !lab.store().join("write.lock").exists() {
        lacks.push("there is no write.lock".to_owned());
    }
    let connection = state::open(&lab.store());
    for (sql, wanted) in [("PRAGMA journal_mode", "wal"), ("SELECT label FROM sessions", "main")] {
        let found = state::rows(&connection, sql);
        if found != [[wanted]] {
            lacks.push(format!("{sql}: {found:?}"));
        }
    }
    lacks
}

#[test]
fn an_init_killed_at_any_call_is_made_whole_by_the_next() {
    let learnt = Lab::bare();
    let told = init(&learnt);
    let points = learn(&learnt, &told.each_ref().map(String::as_str), &[]);
    assert_eq!(lacks(&learnt), Vec::<String>::new(), "seed {}: nobody disturbed this one", seed());
    let (mut kills, mut broken) = (0, Vec::new());
    for point in points {
        let here = format!("seed {}: init killed at {point}", seed());
        let lab = Lab::bare();
        let told = init(&lab);
        let told = told.each_ref().map(String::as_str);
        let done = meet(&lab, &told, &[], &point, Fate::Kill);
        assert!(done.killed() || done.ok(), "{here}: {done:?}");
        kills += usize::from(done.killed());
        let again = lab.ctx(&told);
        if !again.ok() {
            broken.push(format!("{here}: a second init fails: {}", again.stderr.trim()));
            continue;
        }
        lab.verify(&here);
        let lacks = lacks(&lab);
        if !lacks.is_empty() {
            broken.push(format!("{here}: {}", lacks.join("; ")));
        }
        lab.must(&["stage", "start", "first work"]);
        lab.must(&["stage", "note", "first words"]);
        lab.must(&["stage", "compact"]);
        lab.must(&["gc"]);
        lab.verify(&here);
        assert_eq!(lab.must(&["log"])["commits"].as_array().map(Vec::len), Some(1), "{here}");
    }
    tell("init", kills, "");
    assert!(kills >= 60, "seed {}: only {kills} kills", seed());
    assert!(
        broken.is_empty(),
        "{} of {kills} interrupted inits left a store that is not whole:\n{}",
        broken.len(),
        broken.join("\n")
    );
}
