//! The disk fails or is full: a verb says so, never that it is done when it is not, and when the disk is
//! well again so is the store.

use std::fs;

use super::kill_at_syscall::{Company, Left, Scene, VERBS};
use super::kill_in_checkpoint as checkpoints;
use crate::harness::repo::{Outcome, Repo};
use crate::harness::seed::{Random, seed};
use crate::harness::strace::{Fate, Point, learn, meet};

/// What an error of the disk may be called.
const CODES: [&str; 4] = ["unavailable", "disk_full", "read_only", "output"];
/// Verbs that stand for the others.
const SOME: [&str; 4] = ["note", "file-write", "compact", "new task that seals the old"];

/// How a call can fail.
fn fates(point: &Point) -> &'static [Fate] {
    match point.call.as_str() {
        "pwrite64" | "pwritev" | "write" => {
            &[Fate::Fail("ENOSPC"), Fate::Fail("EIO"), Fate::FailFrom("ENOSPC")]
        }
        "fsync" | "fdatasync" => &[Fate::Fail("EIO"), Fate::FailFrom("EIO")],
        "openat" | "mkdir" => &[Fate::Fail("ENOSPC"), Fate::Fail("EROFS")],
        "flock" => &[Fate::Fail("ENOLCK"), Fate::Fail("EINTR")],
        _ => &[Fate::Fail("EIO")],
    }
}

/// It failed in a way that a program can read.
fn failed_well(done: &Outcome, here: &str) {
    assert!(!done.stderr.contains("panicked"), "{here}: {done:?}");
    let code = done.code();
    assert!(CODES.contains(&code.as_str()), "{here}: {done:?}");
}

/// Whether nothing can be acknowledged without this call: a frame of the log, or the sync that commits it.
/// Later syncs belong to a checkpoint, which may wait.
fn essential(point: &Point) -> bool {
    point.on("/ctx.db-wal") && (point.call == "pwrite64" || (point.is_sync() && point.nth == 1))
}

fn fail_at(scene: &Scene, points: &[Point]) -> (usize, usize) {
    let (mut failures, mut done_all_the_same) = (0, 0);
    let told = points.iter().flat_map(|point| fates(point).iter().map(move |fate| (point, *fate)));
    for (point, fate) in told {
        let here = format!("seed {}: {}: {fate} {point}", seed(), scene.verb.name);
        let (repo, _) = scene.enter(Company::Alone);
        let done = meet(&repo, scene.verb.told, scene.verb.env, point, fate);
        let left = scene.left(&repo, None, &here);
        if done.ok() {
            assert!(left == Left::After, "{here}: acknowledged and not there");
            assert!(!essential(point), "{here}: acknowledged what is not surely on the disk");
            done_all_the_same += 1;
        } else {
            failed_well(&done, &here);
            failures += 1;
        }
        scene.finish(&repo, None, left, &here);
    }
    (failures, done_all_the_same)
}

#[test]
fn a_verb_on_a_failing_disk_says_so_and_loses_nothing() {
    let mut all = (0, 0);
    for verb in VERBS.iter().filter(|verb| SOME.contains(&verb.name)) {
        let scene = Scene::set(verb);
        // Frames of the log are alike: some of them are enough.
        let points = Random::new(5).sample(scene.points(Company::Alone), 28);
        let (failures, fine) = fail_at(&scene, &points);
        all = (all.0 + failures, all.1 + fine);
    }
    println!(
        "crash: seed {}, {} verbs failed by the disk, {} done in spite of it",
        seed(),
        all.0,
        all.1
    );
    assert!(all.0 >= 100, "seed {}: only {all:?} failures", seed());
}

#[test]
fn a_checkpoint_on_a_failing_disk_loses_nothing() {
    let scene = checkpoints::crossing(&mut Random::new(6));
    let (moved, others): (Vec<_>, Vec<_>) =
        scene.points(Company::Alone).into_iter().partition(|point| point.on("/ctx.db"));
    assert!(!moved.is_empty(), "seed {}: no checkpoint was seen", seed());
    let mut points = Random::new(7).sample(moved, 6);
    points.extend(others.into_iter().filter(Point::is_sync));
    fail_at(&scene, &points);
}

#[test]
fn a_failed_backup_leaves_no_copy() {
    let repo = super::repo_with_files();
    repo.ok(["stage", "start", "back up"]);
    repo.ok(["stage", "observe", "file-write", "ten.bin"]);
    for point in Random::new(8).sample(learn(&repo.copy(), &["backup", "copy.db"], &[]), 24) {
        for fate in fates(&point) {
            let here = format!("seed {}: backup: {fate} {point}", seed());
            let repo = repo.copy();
            let done = meet(&repo, &["backup", "copy.db"], &[], &point, *fate);
            if !done.ok() {
                failed_well(&done, &here);
            }
            if repo.dir().join("copy.db").exists() {
                let back = Repo::bare();
                fs::create_dir(back.data()).expect("a directory for the store");
                fs::copy(repo.dir().join("copy.db"), back.data().join("ctx.db"))
                    .expect("the backup");
                back.verify(&here);
            } else {
                assert!(!done.ok(), "{here}: acknowledged and not there");
                repo.ok(["backup", "copy.db"]);
            }
            repo.verify(&here);
        }
    }
}

#[test]
fn an_init_on_a_failing_disk_can_be_told_again() {
    let told = |repo: &Repo| ["init".to_owned(), repo.dir().to_string_lossy().into_owned()];
    let learnt = Repo::bare();
    let points = learn(&learnt, &told(&learnt).each_ref().map(String::as_str), &[]);
    for point in Random::new(9).sample(points, 40) {
        for fate in fates(&point) {
            let here = format!("seed {}: init: {fate} {point}", seed());
            let repo = Repo::bare();
            let told = told(&repo);
            let told = told.each_ref().map(String::as_str);
            let done = meet(&repo, &told, &[], &point, *fate);
            if !done.ok() {
                failed_well(&done, &here);
            }
            repo.ok(&told);
            repo.ok(["stage", "start", "first work"]);
            repo.ok(["stage", "compact"]);
            repo.verify(&here);
        }
    }
}

#[test]
fn an_error_that_cannot_be_printed_is_still_no_panic() {
    let repo = super::repo_with_files();
    for verb in [
        ["--json", "stage", "compact"].as_slice(),
        &["stage", "compact"],
        &["--json", "no-such-verb"],
        &["no-such-verb"],
    ] {
        let full =
            fs::File::options().write(true).open("/dev/full").expect("a disk that is always full");
        let status = repo.command([""; 0]).args(verb).stderr(full).status().expect("ctx runs");
        assert!(
            matches!(status.code(), Some(1 | 2)),
            "seed {}: `ctx {}` with a full disk behind stderr: {status}",
            seed(),
            verb.join(" ")
        );
    }
}
