//! Verbs that checkpoint the write-ahead log, and the first verb that writes the log from its
//! start.

use std::fs;

use super::kill_at_syscall::{Readers, Repeat, Scenario, Tally, Verb};
use super::store_state as state;
use crate::harness::repo::Repo;
use crate::harness::seed::{Random, seed};
use crate::harness::strace::{Point, record_calls};

/// A frame of the log: a page of 4 KiB and its header.
const FRAME_BYTES: u64 = 4096 + 24;
/// Log sizes in pages from which a passive and a restarting checkpoint run: 4 MB and 64 MB.
const PASSIVE_PAGES: u64 = 1024;
const RESTART_PAGES: u64 = 16_384;
/// More observations than are needed to reach that size.
const TRIES_MAX: usize = 200;

const WROTE: &[&str] = &["stage", "observe", "file-write", "big.bin"];

static CROSSES: Verb = Verb {
    name: "file-write that moves the log",
    before: &[],
    arguments: WROTE,
    env: &[],
    repeat: Repeat::WritesAgain,
    commits: 0,
};
static BEGINS: Verb = Verb {
    name: "compact that begins the log anew",
    before: &[],
    arguments: &["stage", "compact"],
    env: &[],
    repeat: Repeat::Refused("no_task"),
    commits: 1,
};
static RESTARTS: Verb = Verb {
    name: "note that starts the log over",
    before: &[],
    arguments: &["stage", "note", "the last straw"],
    env: &[],
    repeat: Repeat::WritesAgain,
    commits: 0,
};

/// Number of pages of a log that was never restarted.
fn pages(repo: &Repo) -> u64 {
    fs::metadata(repo.data().join("ctx.db-wal")).map_or(0, |log| log.len() / FRAME_BYTES)
}

fn observe(repo: &Repo, random: &mut Random, bytes: usize) {
    repo.write("big.bin", random.bytes(bytes));
    repo.ok(WROTE);
}

/// A store whose log is a few pages short of a checkpoint.
fn nearly_full(random: &mut Random) -> Repo {
    let repo = super::repo_with_files();
    repo.ok(["stage", "start", "fill the log"]);
    for n in 0..TRIES_MAX {
        match pages(&repo) {
            0..=960 => observe(&repo, random, 100_000),
            961..=1005 => drop(repo.ok(["stage", "note", &format!("filling {n}")])),
            _ => break,
        }
    }
    assert!(
        (1006..PASSIVE_PAGES).contains(&pages(&repo)),
        "seed {}: the log has {} pages",
        seed(),
        pages(&repo)
    );
    repo.write("big.bin", random.bytes(100_000));
    repo
}

/// A store in which the next verb runs a checkpoint.
pub(crate) fn crossing(random: &mut Random) -> Scenario {
    Scenario::on(nearly_full(random), &CROSSES, &[])
}

/// A checkpoint writes every page with a call of its own; a sample of them is enough.
fn sampled(random: &mut Random, points: Vec<Point>, count: usize) -> Vec<Point> {
    let (moved, others): (Vec<_>, Vec<_>) =
        points.into_iter().partition(|point| point.call == "pwrite64" && point.on("/ctx.db"));
    let (logged, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|point| point.call == "pwrite64");
    [random.sample(moved, count), random.sample(logged, count), others].concat()
}

fn moves(points: &[Point]) -> bool {
    points.iter().any(|point| point.call == "pwrite64" && point.on("/ctx.db"))
}

#[test]
fn a_verb_killed_in_a_checkpoint_loses_nothing() {
    let mut random = Random::new(3);
    let mut tally = Tally::default();
    let scenario = crossing(&mut random);
    for readers in [Readers::None, Readers::One] {
        let points = scenario.points(readers);
        assert!(moves(&points), "seed {}: no checkpoint was seen", seed());
        tally.add(scenario.kill_at(&sampled(&mut random, points, 20), readers));
    }
    // Where a reader keeps the index of the log, the next verb overwrites a log that was
    // checkpointed.
    let scenario = Scenario::on(scenario.stage, &BEGINS, &[WROTE]);
    for readers in [Readers::None, Readers::One] {
        let points = sampled(&mut random, scenario.points(readers), 16);
        tally.add(scenario.kill_at(&points, readers));
    }
    tally.check("checkpoints", 100);
}

#[test]
fn a_verb_does_not_repeat_the_checkpoint_of_the_one_before() {
    // Each verb is a process, and its knowledge of the log ends with it. Unless the log itself is
    // emptied, every later verb writes all of it into the database once more.
    let repo = nearly_full(&mut Random::new(3));
    repo.ok(WROTE);
    let again = record_calls(&repo, &["stage", "note", "a few words"], &[]);
    let written =
        again.iter().filter(|point| point.call == "pwrite64" && point.on("/ctx.db")).count();
    assert_eq!(
        written,
        0,
        "seed {}: a note wrote {written} pages of the database after the checkpoint was done",
        seed()
    );
}

/// A store whose log grew beyond 64 MB because of a reader with an open transaction.
fn overgrown(random: &mut Random) -> Repo {
    let repo = super::repo_with_files();
    repo.ok(["stage", "start", "outgrow the log"]);
    let reader = state::open(&repo.data());
    reader.execute_batch("BEGIN").expect("a read transaction");
    state::rows(&reader, "SELECT COUNT(*) FROM steps");
    for _ in 0..TRIES_MAX {
        if pages(&repo) > RESTART_PAGES {
            break;
        }
        observe(&repo, random, 12 << 20);
    }
    assert!(
        pages(&repo) > RESTART_PAGES,
        "seed {}: the log has only {} pages",
        seed(),
        pages(&repo)
    );
    repo
}

#[test]
fn a_verb_killed_while_it_restarts_a_large_log_loses_nothing() {
    let mut random = Random::new(4);
    let scenario = Scenario::on(overgrown(&mut random), &RESTARTS, &[]);
    let points = scenario.points(Readers::None);
    assert!(moves(&points), "seed {}: no checkpoint was seen", seed());
    let points = sampled(&mut random, points, 4);
    let late: Vec<Point> =
        points.into_iter().filter(|point| !point.on("-shm") && point.call != "openat").collect();
    scenario.kill_at(&late, Readers::None).check("a large log started over", 8);
}
