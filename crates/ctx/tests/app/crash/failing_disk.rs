//! The disk fails or is full: a verb says so, never that it is done when it is not, and when the disk is
//! well again so is the store.

use std::fs;

use super::boundaries::{Company, Left, Scene, VERBS};
use super::checkpoints;
use super::lab::{Done, Lab};
use super::seed::{Draw, seed};
use super::strace::{Fate, Point, learn, meet};

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
fn failed_well(done: &Done, here: &str) {
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
        let (lab, _) = scene.enter(Company::Alone);
        let done = meet(&lab, scene.verb.told, scene.verb.env, point, fate);
        let left = scene.left(&lab, None, &here);
        if done.ok() {
            assert!(left == Left::After, "{here}: acknowledged and not there");
            assert!(!essential(point), "{here}: acknowledged what is not surely on the disk");
            done_all_the_same += 1;
        } else {
            failed_well(&done, &here);
            failures += 1;
        }
        scene.finish(&lab, None, left, &here);
    }
    (failures, done_all_the_same)
}

#[test]
fn a_verb_on_a_failing_disk_says_so_and_loses_nothing() {
    let mut all = (0, 0);
    for verb in VERBS.iter().filter(|verb| SOME.contains(&verb.name)) {
        let scene = Scene::set(verb);
        // Frames of the log are alike: some of them are enough.
        let points = Draw::new(5).some(scene.points(Company::Alone), 28);
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
    let scene = checkpoints::crossing(&mut Draw::new(6));
    let (moved, others): (Vec<_>, Vec<_>) =
        scene.points(Company::Alone).into_iter().partition(|point| point.on("/ctx.db"));
    assert!(!moved.is_empty(), "seed {}: no checkpoint was seen", seed());
    let mut points = Draw::new(7).some(moved, 6);
    points.extend(others.into_iter().filter(Point::is_sync));
    fail_at(&scene, &points);
}

#[test]
fn a_failed_backup_leaves_no_copy() {
    let lab = Lab::new();
    lab.must(&["stage", "start", "back up"]);
    lab.must(&["stage", "observe", "file-write", "ten.bin"]);
    for point in Draw::new(8).some(learn(&lab.copy(), &["backup", "copy.db"], &[]), 24) {
        for fate in fates(&point) {
            let here = format!("seed {}: backup: {fate} {point}", seed());
            let lab = lab.copy();
            let done = meet(&lab, &["backup", "copy.db"], &[], &point, *fate);
            if !done.ok() {
                failed_well(&done, &here);
            }
            if lab.dir.join("copy.db").exists() {
                let back = Lab::bare();
                fs::create_dir(back.store()).expect("a directory for the store");
                fs::copy(lab.dir.join("copy.db"), back.store().join("ctx.db")).expect("the backup");
                back.verify(&here);
            } else {
                assert!(!done.ok(), "{here}: acknowledged and not there");
                lab.must(&["backup", "copy.db"]);
            }
            lab.verify(&here);
        }
    }
}

#[test]
fn an_init_on_a_failing_disk_can_be_told_again() {
    let told = |lab: &Lab| ["init".to_owned(), lab.dir.to_string_lossy().into_owned()];
    let learnt = Lab::bare();
    let points = learn(&learnt, &told(&learnt).each_ref().map(String::as_str), &[]);
    for point in Draw::new(9).some(points, 40) {
        for fate in fates(&point) {
            let here = format!("seed {}: init: {fate} {point}", seed());
            let lab = Lab::bare();
            let told = told(&lab);
            let told = told.each_ref().map(String::as_str);
            let done = meet(&lab, &told, &[], &point, *fate);
            if !done.ok() {
                failed_well(&done, &here);
            }
            lab.must(&told);
            lab.must(&["stage", "start", "first work"]);
            lab.must(&["stage", "compact"]);
            lab.verify(&here);
        }
    }
}

#[test]
fn an_error_that_cannot_be_printed_is_still_no_panic() {
    let lab = Lab::new();
    for verb in [
        ["--json", "stage", "compact"].as_slice(),
        &["stage", "compact"],
        &["--json", "no-such-verb"],
        &["no-such-verb"],
    ] {
        let full =
            fs::File::options().write(true).open("/dev/full").expect("a disk that is always full");
        let status =
            lab.command(super::lab::ctx()).args(verb).stderr(full).status().expect("ctx runs");
        assert!(
            matches!(status.code(), Some(1 | 2)),
            "seed {}: `ctx {}` with a full disk behind stderr: {status}",
            seed(),
            verb.join(" ")
        );
    }
}
