//! `ctx store copy`, killed at random moments: the target has the whole copy or nothing of it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::kill_after;
use crate::harness::repo::Repo;
use crate::harness::seed::{Random, report, seed};
use crate::harness::test_store::postgres_server::server;

/// A store with tasks, steps and blobs.
fn worked_in() -> Repo {
    let repo = super::repo_with_files();
    for n in 0..5 {
        repo.ok(["stage", "start", &format!("task {n}")]);
        repo.ok(["stage", "note", &format!("note {n}")]);
        repo.write("ten.bin", format!("{n}").repeat(9000).as_bytes());
        repo.ok(["stage", "observe", "file-write", "ten.bin"]);
        repo.ok(["stage", "compact"]);
    }
    repo
}

/// The sum of a count over all tables.
fn sum(copied: &Value, what: &str) -> u64 {
    let tables = copied["tables"].as_object().expect("tables").values();
    tables.map(|rows| rows[what].as_u64().expect("a count")).sum()
}

/// Kills copies to new targets. `random` chooses the moments within the time of a whole copy.
fn kill_copies(repo: &Repo, kills: usize, random: &mut Random, target: impl Fn() -> String) {
    let data = repo.data();
    let data = data.to_str().expect("a path");
    let began = Instant::now();
    let rows = sum(&repo.ok(["store", "copy", data, &target()]), "copied");
    let whole = began.elapsed();
    for _ in 0..kills {
        let (to, delay) = (target(), random.duration(Duration::ZERO, whole));
        let here = format!("seed {}: killed after {delay:?} of {whole:?}", seed());
        let child = repo.command(["store", "copy", data, &to]).spawn().expect("it runs");
        kill_after(child, delay);
        let again = repo.outcome(["store", "copy", data, &to]);
        if again.ok() {
            assert_eq!(sum(&again.json(), "copied"), rows, "{here}");
        } else {
            assert_eq!(again.code(), "not_empty", "{here}");
        }
        let merged = repo.ok(["store", "copy", "--merge", data, &to]);
        assert_eq!((sum(&merged, "copied"), sum(&merged, "skipped")), (0, rows), "{here}");
        assert_eq!(merged["verified"]["ok"], true, "{here}");
    }
}

#[test]
fn a_killed_copy_leaves_all_or_nothing() {
    // R231
    const KILLS: usize = 6;
    let (repo, mut random) = (worked_in(), Random::new(31));
    let targets = std::cell::Cell::new(0);
    kill_copies(&repo, KILLS, &mut random, || {
        targets.set(targets.get() + 1);
        repo.beside(&format!("copy-{}", targets.get())).to_str().expect("a path").to_owned()
    });
    kill_copies(&repo, KILLS, &mut random, || server().url(&server().create_database()));
    report("store copy", 2 * KILLS, "");
}
