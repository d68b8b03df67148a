//! The verbs that keep a store well, killed at every call: they lose nothing, and told again they work.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::lab::{Done, Lab};
use super::seed::{seed, tell};
use super::state;
use super::strace::{Fate, learn, meet};

const ALL: &[&str] = &["search", "walrus"];

/// A store with a sealed task, an open one, contents of both, and no index yet.
fn stage() -> Lab {
    let lab = Lab::new();
    for task in ["feed the walrus", "wash the walrus"] {
        lab.must(&["stage", "start", task]);
        for n in 0..6 {
            lab.must(&["stage", "note", &format!("the walrus says {n}")]);
        }
        lab.file("ten.bin", task.repeat(1000).as_bytes());
        lab.must(&["stage", "observe", "file-write", "ten.bin"]);
        if task.starts_with("feed") {
            lab.must(&["stage", "compact"]);
        }
    }
    discard_index(&lab);
    lab
}

fn discard_index(lab: &Lab) {
    for file in ["search.db", "search.db-wal", "search.db-shm"] {
        let _ = fs::remove_file(lab.store().join(file));
    }
}

/// What a search finds, without its order among hits of one moment.
fn hits(lab: &Lab) -> Vec<String> {
    let found = lab.must(ALL);
    let mut hits: Vec<String> =
        found["hits"].as_array().expect("hits").iter().map(|hit| hit["id"].to_string()).collect();
    hits.sort();
    hits
}

/// Kills a verb at each of its points in a copy of its own, and has a look at what is left.
fn kill_everywhere(stage: &Lab, verb: &[&str], kills_min: usize, look: impl Fn(&Lab, &str)) {
    let points = learn(&stage.copy(), verb, &[]);
    let mut kills = 0;
    for point in &points {
        let here = format!("seed {}: `{}` killed at {point}", seed(), verb.join(" "));
        let lab = stage.copy();
        let done = meet(&lab, verb, &[], point, Fate::Kill);
        assert!(done.killed() || done.ok(), "{here}: {done:?}");
        kills += usize::from(done.killed());
        lab.verify(&here);
        look(&lab, &here);
        lab.verify(&here);
    }
    tell(&verb.join(" "), kills, "");
    assert!(kills >= kills_min, "seed {}: only {kills} kills: {points:?}", seed());
}

#[test]
fn a_search_killed_while_it_fills_the_index_is_filled_by_the_next() {
    let stage = stage();
    let wanted = hits(&stage.copy());
    assert!(wanted.len() >= 12, "seed {}: {wanted:?}", seed());
    kill_everywhere(&stage, ALL, 40, |lab, here| assert_eq!(hits(lab), wanted, "{here}"));
}

#[test]
fn a_repair_killed_at_any_call_loses_nothing() {
    let stage = stage();
    let wanted = hits(&stage);
    let before = state::plain(&state::of(&stage.copy(), None), &Default::default());
    kill_everywhere(&stage, &["verify", "--repair"], 5, |lab, here| {
        assert_eq!(hits(lab), wanted, "{here}");
        lab.must(&["verify", "--repair"]);
        assert_eq!(hits(lab), wanted, "{here}");
        assert_eq!(state::plain(&state::of(lab, None), &Default::default()), before, "{here}");
    });
}

#[test]
fn a_gc_killed_at_any_call_removed_all_or_nothing() {
    let stage = stage();
    lose_a_blob(&stage);
    let blobs = |lab: &Lab| {
        state::rows(&state::open(&lab.store()), "SELECT lower(hex(hash)) FROM blobs ORDER BY hash")
    };
    let all = blobs(&stage);
    assert_eq!(all.len(), 2, "seed {}: {all:?}", seed());
    let done = stage.copy();
    done.must(&["gc", "--grace", "0s"]);
    let kept = blobs(&done);
    assert_eq!(kept.len(), 1, "seed {}: {kept:?}", seed());
    kill_everywhere(&stage, &["gc", "--grace", "0s"], 20, |lab, here| {
        let left = blobs(lab);
        assert!(left == all || left == kept, "{here}: {left:?}");
        lab.must(&["gc", "--grace", "0s"]);
        assert_eq!(blobs(lab), kept, "{here}");
        assert_eq!(lab.must(&["show", &kept[0][0]])["kind"], "blob", "{here}");
        // What comes after takes the removed one's row, and must be found there.
        lab.file("new.bin", &[b'n'; 9000]);
        lab.must(&["stage", "observe", "file-write", "new.bin"]);
        let now = blobs(lab);
        assert_eq!(now.len(), 2, "{here}: {now:?}");
        now.iter()
            .for_each(|blob| assert_eq!(lab.must(&["show", &blob[0]])["kind"], "blob", "{here}"));
    });
}

/// Makes the newest blob one that nothing refers to: the open task's last step goes, as if it had never been.
fn lose_a_blob(lab: &Lab) {
    let undo = "DELETE FROM steps WHERE id = (SELECT MAX(id) FROM steps WHERE blobs IS NOT NULL);
                UPDATE tasks SET steps = steps - 1, head = (SELECT MAX(id) FROM steps WHERE task = tasks.row) WHERE ended_at IS NULL;";
    state::open(&lab.store()).execute_batch(undo).expect("a step undone");
    lab.must(&["verify", "--repair"]);
}

/// A backup put back in an empty directory.
fn restored(copy: &Path) -> Lab {
    let lab = Lab::bare();
    fs::create_dir(lab.store()).expect("a directory for the store");
    fs::copy(copy, lab.store().join("ctx.db")).expect("the backup");
    lab
}

fn contents(lab: &Lab) -> Value {
    state::plain(&state::of(lab, None), &Default::default())
}

#[test]
fn a_backup_killed_at_any_call_is_whole_or_not_there() {
    let stage = stage();
    let wanted = contents(&stage.copy());
    kill_everywhere(&stage, &["backup", "copy.db"], 40, |lab, here| {
        let copy = lab.dir.join("copy.db");
        if !copy.exists() {
            lab.must(&["backup", "copy.db"]);
        }
        let back = restored(&copy);
        back.verify(here);
        assert_eq!(contents(&back), wanted, "{here}");
    });
}

#[test]
fn a_backup_put_back_is_a_store_like_any_other() {
    let lab = stage();
    lab.must(&["backup", "copy.db"]);
    let back = restored(&lab.dir.join("copy.db"));
    back.must(&["gc"]);
    back.must(&["stage", "note", "back again"]);
    let mode = state::rows(&state::open(&back.store()), "PRAGMA journal_mode");
    assert_eq!(
        json!(mode),
        json!([["wal"]]),
        "seed {}: COMMIT is durable and readers do not block only with a log",
        seed()
    );
    back.verify("put back");
}

/// Writes what processes to come would have left under their names, had they been killed before: in a
/// container, ids repeat soon.
fn leave_behind(name: impl Fn(u32) -> PathBuf) -> Range<u32> {
    let mut child = Command::new("true").spawn().expect("a process");
    let next = child.id() + 1;
    child.wait().expect("its end");
    let ids = next..next + 3000;
    ids.clone().for_each(|id| fs::write(name(id), b"left behind").expect("a leftover"));
    ids
}

#[test]
fn what_a_killed_backup_left_does_not_stop_the_next_with_its_id() {
    let lab = stage();
    let ids = leave_behind(|id| lab.dir.join(format!("copy.db.{id}.part")));
    let child = lab.ctx_command(&["backup", "copy.db"]).spawn().expect("ctx starts");
    let met = ids.contains(&child.id());
    let done: Done = child.wait_with_output().expect("its end").into();
    assert!(done.ok() || !met, "seed {}: {done:?}", seed());
}
