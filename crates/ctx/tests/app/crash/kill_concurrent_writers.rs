//! Many write at once, their bodies into a file of their own, until the process is killed. What it told is there, in one piece, and
//! the next process goes on in the same file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use super::store_state as state;
use crate::harness::repo::Repo;
use crate::harness::seed::{Random, report, seed};
use crate::harness::{TIMEOUT, kill_after};

const ROUNDS: usize = 20;
/// The kill comes so long after the first turn that was told, in microseconds. Later ones would find no more: they only make more to
/// verify, and all of it is, after every round.
const DELAY_MIN_US: u64 = 50_000;
const DELAY_MAX_US: u64 = 200_000;

/// Every turn of every session, from its head back.
const HISTORIES: &str = "WITH RECURSIVE line(label, id) AS (
        SELECT label, head FROM sessions WHERE head IS NOT NULL
        UNION ALL SELECT line.label, turns.parent FROM line JOIN turns ON turns.id = line.id WHERE turns.parent IS NOT NULL)
    SELECT line.label || ' ' || lower(hex(turns.hash)) FROM line JOIN turns ON turns.id = line.id";

/// Kills a process some time after it told its first turn; all that it told.
fn killed_after(mut child: Child, delay: Duration, here: &str) -> Vec<String> {
    let out = BufReader::new(child.stdout.take().expect("its output"));
    let (first, told_first) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut told = Vec::new();
        for line in out.lines().map_while(Result::ok) {
            if told.is_empty() {
                let _ = first.send(());
            }
            told.push(line);
        }
        told
    });
    let began = told_first.recv_timeout(TIMEOUT);
    let done = kill_after(child, delay);
    assert!(began.is_ok() && done.killed(), "{here}: it ended by itself or told nothing: {done:?}");
    reader.join().expect("its lines")
}

#[test]
fn nothing_acknowledged_is_lost_when_a_crowd_is_killed() {
    // R56, R59
    let repo = Repo::bare();
    let mut random = Random::new(900);
    let mut told: BTreeSet<String> = BTreeSet::new();
    let arguments = serde_json::json!({"dir": repo.data(), "sessions": 64}).to_string();
    for round in 0..ROUNDS {
        let delay = Duration::from_micros(DELAY_MIN_US + random.below(DELAY_MAX_US - DELAY_MIN_US));
        let here = format!("seed {}: round {round}, killed after {delay:?}", seed());
        let child = repo.command(["bench", "crowd", &arguments]).spawn().expect("ctx starts");
        told.extend(killed_after(child, delay, &here));
        repo.verify(&here);
        let connection = state::open(&repo.data());
        let there: BTreeSet<String> =
            state::rows(&connection, HISTORIES).into_iter().flatten().collect();
        let lost: Vec<&String> = told.difference(&there).collect();
        assert!(
            lost.is_empty(),
            "{here}: {} of {} turns are lost: {lost:?}",
            lost.len(),
            told.len()
        );
        let files: Vec<_> = fs::read_dir(repo.data().join("segments"))
            .expect("segments")
            .map(|entry| entry.expect("one").file_name())
            .collect();
        assert_eq!(files, ["1"], "{here}: who died keeps no file from the next");
    }
    let connection = state::open(&repo.data());
    let in_files =
        state::rows(&connection, "SELECT COUNT(*) FROM turns WHERE seg = 1")[0][0].clone();
    report(
        "a crowd",
        ROUNDS,
        &format!(", {} turns acknowledged, {in_files} in a file", told.len()),
    );
    let in_files: usize = in_files.parse().expect("a number");
    assert!(
        told.len() > ROUNDS * 64 && in_files > told.len() / 2,
        "seed {}: hardly anything was done",
        seed()
    );
}
