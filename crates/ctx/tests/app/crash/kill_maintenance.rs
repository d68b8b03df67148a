//! Maintenance verbs, killed at every system call: nothing is lost, and a second run succeeds.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::store_state as state;
use crate::harness::repo::{Outcome, Repo};
use crate::harness::seed::{report, seed};
use crate::harness::strace::{ObjectError, record_calls, run_with_fault};

const ALL: &[&str] = &["search", "walrus"];

/// A store with a sealed task, an open task, blobs of both, and no search index yet.
fn stage() -> Repo {
    let repo = super::repo_with_files();
    for task in ["feed the walrus", "wash the walrus"] {
        repo.ok(["stage", "start", task]);
        for n in 0..6 {
            repo.ok(["stage", "note", &format!("the walrus says {n}")]);
        }
        repo.write("ten.bin", task.repeat(1000).as_bytes());
        repo.ok(["stage", "observe", "file-write", "ten.bin"]);
        if task.starts_with("feed") {
            repo.ok(["stage", "compact"]);
        }
    }
    discard_index(&repo);
    repo
}

fn discard_index(repo: &Repo) {
    for file in ["search.db", "search.db-wal", "search.db-shm"] {
        let _ = fs::remove_file(repo.data().join(file));
    }
}

/// The ids that a search finds, sorted: the order of hits with the same time is not defined.
fn hits(repo: &Repo) -> Vec<String> {
    let found = repo.ok(ALL);
    let mut hits: Vec<String> =
        found["hits"].as_array().expect("hits").iter().map(|hit| hit["id"].to_string()).collect();
    hits.sort();
    hits
}

/// Kills a verb at each of its system calls, each time in a new copy, and checks the copy.
fn kill_everywhere(stage: &Repo, verb: &[&str], kills_min: usize, look: impl Fn(&Repo, &str)) {
    let points = record_calls(&stage.copy(), verb, &[]);
    let mut kills = 0;
    for point in &points {
        let here = format!("seed {}: `{}` killed at {point}", seed(), verb.join(" "));
        let repo = stage.copy();
        let done = run_with_fault(&repo, verb, &[], point, ObjectError::Kill);
        assert!(done.killed() || done.ok(), "{here}: {done:?}");
        kills += usize::from(done.killed());
        repo.verify(&here);
        look(&repo, &here);
        repo.verify(&here);
    }
    report(&verb.join(" "), kills, "");
    assert!(kills >= kills_min, "seed {}: only {kills} kills: {points:?}", seed());
}

#[test]
fn an_index_whose_writer_was_killed_is_filled_by_the_next_search() {
    let stage = stage();
    let wanted = hits(&stage.copy());
    assert!(wanted.len() >= 2, "seed {}: {wanted:?}", seed());
    kill_everywhere(&stage, ALL, 40, |repo, here| assert_eq!(hits(repo), wanted, "{here}"));
}

#[test]
fn a_repair_killed_at_any_call_loses_nothing() {
    let stage = stage();
    let wanted = hits(&stage);
    let before = state::normalize(&state::read(&stage.copy(), None), &Default::default());
    kill_everywhere(&stage, &["verify", "--repair"], 5, |repo, here| {
        assert_eq!(hits(repo), wanted, "{here}");
        repo.ok(["verify", "--repair"]);
        assert_eq!(hits(repo), wanted, "{here}");
        assert_eq!(
            state::normalize(&state::read(repo, None), &Default::default()),
            before,
            "{here}"
        );
    });
}

#[test]
fn a_gc_killed_at_any_call_removed_all_or_nothing() {
    let stage = stage();
    lose_a_blob(&stage);
    let blobs = |repo: &Repo| {
        state::rows(&state::open(&repo.data()), "SELECT lower(hex(hash)) FROM blobs ORDER BY hash")
    };
    let all = blobs(&stage);
    assert_eq!(all.len(), 2, "seed {}: {all:?}", seed());
    let done = stage.copy();
    done.ok(["gc", "--grace", "0s"]);
    let kept = blobs(&done);
    assert_eq!(kept.len(), 1, "seed {}: {kept:?}", seed());
    kill_everywhere(&stage, &["gc", "--grace", "0s"], 20, |repo, here| {
        let left = blobs(repo);
        assert!(left == all || left == kept, "{here}: {left:?}");
        repo.ok(["gc", "--grace", "0s"]);
        assert_eq!(blobs(repo), kept, "{here}");
        assert_eq!(repo.ok(["show", &kept[0][0]])["kind"], "blob", "{here}");
        // The next blob takes the row of the removed one, and must be found there.
        repo.write("new.bin", [b'n'; 9000]);
        repo.ok(["stage", "observe", "file-write", "new.bin"]);
        let now = blobs(repo);
        assert_eq!(now.len(), 2, "{here}: {now:?}");
        now.iter()
            .for_each(|blob| assert_eq!(repo.ok(["show", &blob[0]])["kind"], "blob", "{here}"));
    });
}

/// Removes the last step of the open task, so that nothing refers to the newest blob.
fn lose_a_blob(repo: &Repo) {
    let undo = "DELETE FROM steps WHERE id = (SELECT MAX(id) FROM steps WHERE blobs IS NOT NULL);
                UPDATE tasks SET steps = steps - 1,
                    head = (SELECT MAX(id) FROM steps WHERE task = tasks.row)
                WHERE ended_at IS NULL;";
    state::open(&repo.data()).execute_batch(undo).expect("a step undone");
    repo.ok(["verify", "--repair"]);
}

/// A backup restored in an empty directory.
fn restored(copy: &Path) -> Repo {
    let repo = Repo::bare();
    fs::create_dir(repo.data()).expect("a directory for the store");
    fs::copy(copy, repo.data().join("ctx.db")).expect("the backup");
    repo
}

fn contents(repo: &Repo) -> Value {
    state::normalize(&state::read(repo, None), &Default::default())
}

#[test]
fn a_backup_killed_at_any_call_is_complete_or_absent() {
    let stage = stage();
    let wanted = contents(&stage.copy());
    kill_everywhere(&stage, &["backup", "copy.db"], 40, |repo, here| {
        let copy = repo.dir().join("copy.db");
        if !copy.exists() {
            repo.ok(["backup", "copy.db"]);
        }
        let back = restored(&copy);
        back.verify(here);
        assert_eq!(contents(&back), wanted, "{here}");
    });
}

#[test]
fn a_restored_backup_is_a_working_store() {
    let repo = stage();
    repo.ok(["backup", "copy.db"]);
    let back = restored(&repo.dir().join("copy.db"));
    back.ok(["gc"]);
    back.ok(["stage", "note", "back again"]);
    let mode = state::rows(&state::open(&back.data()), "PRAGMA journal_mode");
    assert_eq!(
        json!(mode),
        json!([["wal"]]),
        "seed {}: COMMIT is durable and readers do not block only with a log",
        seed()
    );
    back.verify("put back");
}

/// Writes the temporary files that killed processes with the next ids would have left. In a
/// container, process ids repeat soon.
fn leave_behind(name: impl Fn(u32) -> PathBuf) -> Range<u32> {
    let mut child = Command::new("true").spawn().expect("a process");
    let next = child.id() + 1;
    child.wait().expect("its end");
    let ids = next..next + 3000;
    ids.clone().for_each(|id| fs::write(name(id), b"left behind").expect("a leftover"));
    ids
}

#[test]
fn files_of_a_killed_backup_do_not_stop_a_process_with_the_same_id() {
    let repo = stage();
    let ids = leave_behind(|id| repo.dir().join(format!("copy.db.{id}.part")));
    let child = repo.json_command(["backup", "copy.db"]).spawn().expect("ctx starts");
    let met = ids.contains(&child.id());
    let done: Outcome = child.wait_with_output().expect("its end").into();
    assert!(done.ok() || !met, "seed {}: {done:?}", seed());
}
