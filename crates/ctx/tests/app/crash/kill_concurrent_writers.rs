//! Many concurrent writers, whose bodies go to a segment file, until the process is killed. Every
//! acknowledged turn is there and intact, and the next process continues in the same file.

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
/// Delay between the first acknowledged turn and the kill, in microseconds. A longer delay finds no
/// more faults and makes every verify slower.
const DELAY_MIN_US: u64 = 50_000;
const DELAY_MAX_US: u64 = 200_000;

/// Every turn of every session, from its head to its root.
const HISTORIES: &str = "WITH RECURSIVE line(label, id) AS (
        SELECT label, head FROM sessions WHERE head IS NOT NULL
        UNION ALL SELECT line.label,
            turns.parent FROM line JOIN turns ON turns.id = line.id WHERE turns.parent IS NOT NULL)
    SELECT line.label || ' ' || lower(hex(turns.hash)) FROM line JOIN turns ON turns.id = line.id";

/// Kills a process some time after its first acknowledged turn; returns all acknowledged turns.
fn killed_after(mut child: Child, delay: Duration, here: &str) -> Vec<String> {
    let out = BufReader::new(child.stdout.take().expect("its output"));
    let (first, first_turn) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = Vec::new();
        for line in out.lines().map_while(Result::ok) {
            if acknowledged.is_empty() {
                let _ = first.send(());
            }
            acknowledged.push(line);
        }
        acknowledged
    });
    let began = first_turn.recv_timeout(TIMEOUT);
    let done = kill_after(child, delay);
    assert!(
        began.is_ok() && done.killed(),
        "{here}: it ended early or acknowledged nothing: {done:?}"
    );
    reader.join().expect("its lines")
}

#[test]
fn nothing_acknowledged_is_lost_when_concurrent_writers_are_killed() {
    // R56, R59
    let repo = Repo::bare();
    let mut random = Random::new(900);
    let mut acknowledged: BTreeSet<String> = BTreeSet::new();
    let arguments = serde_json::json!({"dir": repo.data(), "sessions": 64}).to_string();
    for round in 0..ROUNDS {
        let delay = Duration::from_micros(DELAY_MIN_US + random.below(DELAY_MAX_US - DELAY_MIN_US));
        let here = format!("seed {}: round {round}, killed after {delay:?}", seed());
        let child =
            repo.command(["bench", "write_until_killed", &arguments]).spawn().expect("ctx starts");
        acknowledged.extend(killed_after(child, delay, &here));
        repo.verify(&here);
        let connection = state::open(&repo.data());
        let there: BTreeSet<String> =
            state::rows(&connection, HISTORIES).into_iter().flatten().collect();
        let lost: Vec<&String> = acknowledged.difference(&there).collect();
        assert!(
            lost.is_empty(),
            "{here}: {} of {} turns are lost: {lost:?}",
            lost.len(),
            acknowledged.len()
        );
        let files: Vec<_> = fs::read_dir(repo.data().join("segments"))
            .expect("segments")
            .map(|entry| entry.expect("one").file_name())
            .collect();
        assert_eq!(files, ["1"], "{here}: the next process continues in the same file");
    }
    let connection = state::open(&repo.data());
    let in_files =
        state::rows(&connection, "SELECT COUNT(*) FROM turns WHERE seg = 1")[0][0].clone();
    report(
        "concurrent writers",
        ROUNDS,
        &format!(", {} turns acknowledged, {in_files} in a file", acknowledged.len()),
    );
    let in_files: usize = in_files.parse().expect("a number");
    assert!(
        acknowledged.len() > ROUNDS * 64 && in_files > acknowledged.len() / 2,
        "seed {}: hardly anything was done",
        seed()
    );
}
