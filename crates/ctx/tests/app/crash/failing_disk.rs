//! A failing or full disk: a verb reports the error and never acknowledges what is not stored, and
//! the store works again once the disk does.

use std::fs;

use super::kill_at_syscall::{Left, Readers, Scenario, VERBS};
use super::kill_in_checkpoint as checkpoints;
use crate::harness::repo::{Outcome, Repo};
use crate::harness::seed::{Random, seed};
use crate::harness::strace::{ObjectError, Point, record_calls, run_with_fault};

/// Error codes that a disk failure may have.
const CODES: [&str; 4] = ["unavailable", "disk_full", "read_only", "output"];
/// A sample of the verbs.
const SOME: [&str; 4] = ["note", "file-write", "compact", "new task that seals the old"];

/// The faults that a system call can have.
fn faults(point: &Point) -> &'static [ObjectError] {
    match point.call.as_str() {
        "pwrite64" | "pwritev" | "write" => &[
            ObjectError::Fail("ENOSPC"),
            ObjectError::Fail("EIO"),
            ObjectError::FailFrom("ENOSPC"),
        ],
        "fsync" | "fdatasync" => &[ObjectError::Fail("EIO"), ObjectError::FailFrom("EIO")],
        "openat" | "mkdir" => &[ObjectError::Fail("ENOSPC"), ObjectError::Fail("EROFS")],
        "flock" => &[ObjectError::Fail("ENOLCK"), ObjectError::Fail("EINTR")],
        _ => &[ObjectError::Fail("EIO")],
    }
}

/// Asserts that the failure is a JSON error with a known code.
fn failed_well(done: &Outcome, here: &str) {
    assert!(!done.stderr.contains("panicked"), "{here}: {done:?}");
    let code = done.code();
    assert!(CODES.contains(&code.as_str()), "{here}: {done:?}");
}

/// Whether nothing can be acknowledged without this call: a frame of the log, or the sync that
/// makes the transaction durable. Later syncs belong to a checkpoint, which may fail.
fn essential(point: &Point) -> bool {
    point.on("/ctx.db-wal") && (point.call == "pwrite64" || (point.is_sync() && point.nth == 1))
}

fn fail_at(scenario: &Scenario, points: &[Point]) -> (usize, usize) {
    let (mut failures, mut done_all_the_same) = (0, 0);
    let all =
        points.iter().flat_map(|point| faults(point).iter().map(move |fault| (point, *fault)));
    for (point, fault) in all {
        let here = format!("seed {}: {}: {fault} {point}", seed(), scenario.verb.name);
        let (repo, _) = scenario.enter(Readers::None);
        let done = run_with_fault(&repo, scenario.verb.arguments, scenario.verb.env, point, fault);
        let left = scenario.left(&repo, None, &here);
        if done.ok() {
            assert!(left == Left::After, "{here}: acknowledged and not there");
            assert!(!essential(point), "{here}: acknowledged what is not surely on the disk");
            done_all_the_same += 1;
        } else {
            failed_well(&done, &here);
            failures += 1;
        }
        scenario.finish(&repo, None, left, &here);
    }
    (failures, done_all_the_same)
}

#[test]
fn a_verb_on_a_failing_disk_reports_it_and_loses_nothing() {
    let mut all = (0, 0);
    for verb in VERBS.iter().filter(|verb| SOME.contains(&verb.name)) {
        let scenario = Scenario::set(verb);
        // Frames of the log are alike: a sample of them is enough.
        let points = Random::new(5).sample(scenario.points(Readers::None), 28);
        let (failures, fine) = fail_at(&scenario, &points);
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
    let scenario = checkpoints::crossing(&mut Random::new(6));
    let (moved, others): (Vec<_>, Vec<_>) =
        scenario.points(Readers::None).into_iter().partition(|point| point.on("/ctx.db"));
    assert!(!moved.is_empty(), "seed {}: no checkpoint was seen", seed());
    let mut points = Random::new(7).sample(moved, 6);
    points.extend(others.into_iter().filter(Point::is_sync));
    fail_at(&scenario, &points);
}

#[test]
fn a_failed_backup_leaves_no_copy() {
    let repo = super::repo_with_files();
    repo.ok(["stage", "start", "back up"]);
    repo.ok(["stage", "observe", "file-write", "ten.bin"]);
    for point in Random::new(8).sample(record_calls(&repo.copy(), &["backup", "copy.db"], &[]), 24)
    {
        for fault in faults(&point) {
            let here = format!("seed {}: backup: {fault} {point}", seed());
            let repo = repo.copy();
            let done = run_with_fault(&repo, &["backup", "copy.db"], &[], &point, *fault);
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
fn an_init_on_a_failing_disk_can_be_repeated() {
    let arguments = |repo: &Repo| ["init".to_owned(), repo.dir().to_string_lossy().into_owned()];
    let recorded = Repo::bare();
    let points = record_calls(&recorded, &arguments(&recorded).each_ref().map(String::as_str), &[]);
    for point in Random::new(9).sample(points, 40) {
        for fault in faults(&point) {
            let here = format!("seed {}: init: {fault} {point}", seed());
            let repo = Repo::bare();
            let arguments = arguments(&repo);
            let arguments = arguments.each_ref().map(String::as_str);
            let done = run_with_fault(&repo, &arguments, &[], &point, *fault);
            if !done.ok() {
                failed_well(&done, &here);
            }
            repo.ok(arguments);
            repo.ok(["stage", "start", "first work"]);
            repo.ok(["stage", "compact"]);
            repo.verify(&here);
        }
    }
}

#[test]
fn an_error_that_cannot_be_printed_does_not_panic() {
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
