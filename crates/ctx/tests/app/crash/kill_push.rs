//! `ctx push` and `ctx pull`, killed at random moments together with the other side: what arrived
//! is whole, and the next run continues after it.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::fake_ssh::fake_ssh;
use crate::harness::repo::Repo;
use crate::harness::seed::{Random, report, seed};
use crate::harness::test_store::skipped_on_postgres;

/// A store with conversations, one of them long.
fn talked() -> Repo {
    let repo = Repo::new();
    for n in 0..12 {
        repo.ok(["session", "new", "--label", &format!("talk-{n}")]);
        repo.ok(["session", "send", &format!("talk-{n}"), "hello"]);
    }
    // An imported file of many turns takes several parts.
    let mut lines = String::new();
    for n in 0..1500 {
        let noise = format!("{n:x}").repeat(400);
        lines.push_str(&format!("{{\"role\":\"user\",\"content\":\"question {n} {noise}\"}}\n"));
        lines.push_str(&format!("{{\"role\":\"assistant\",\"content\":\"answer {n}\"}}\n"));
    }
    let file = repo.write("long.jsonl", lines);
    repo.ok(["import", "--from", "jsonl", file.to_str().expect("a path")]);
    repo
}

/// Runs a verb in a process group of its own and kills the group after a delay.
fn kill_group(repo: &Repo, verb: &str, delay: Duration) {
    let mut child = repo.command([verb]).process_group(0).spawn().expect("it runs");
    std::thread::sleep(delay);
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
}

#[test]
fn a_killed_push_and_pull_continue_where_they_were() {
    const KILLS: usize = 6;
    if skipped_on_postgres("the other machine has its store in a directory") {
        return;
    }
    let (mut here, mut random) = (talked(), Random::new(47));
    let home = here.beside("other");
    here.set("CTX_SSH", fake_ssh(&home, "").to_str().expect("a path"));
    let mut third = Repo::new();
    third.set("CTX_SSH", home.join("ssh").to_str().expect("a path"));
    let began = Instant::now();
    here.ok(["remote", "add", "whole", &format!("ssh://box{}/whole", home.display())]);
    here.ok(["push", "whole"]);
    let whole = began.elapsed();
    here.ok(["remote", "remove", "whole"]);
    let store = format!("{}/store", home.display());
    for (repo, verb) in [(&here, "push"), (&third, "pull")] {
        repo.ok(["remote", "add", "origin", &format!("ssh://box{store}")]);
        for _ in 0..KILLS {
            kill_group(repo, verb, random.duration(Duration::ZERO, whole));
        }
        let place = format!("seed {}: after {KILLS} killed runs of {verb}", seed());
        let done = repo.outcome([verb]);
        assert!(done.ok(), "{place}: {done:?}");
        assert_eq!(repo.ok([verb])["up_to_date"], true, "{place}");
        repo.verify(&place);
        let other = repo.outcome(["--data", &store, "verify"]);
        assert!(other.ok() && other.json()["ok"] == true, "{place}: {other:?}");
    }
    let heads = |repo: &Repo| {
        let mut heads: Vec<(String, String)> = repo.ok(["session", "list", "--all"])["sessions"]
            .as_array()
            .expect("sessions")
            .iter()
            .filter(|session| session["turn_count"] != 0)
            .map(|session| (session["id"].to_string(), session["head"].to_string()))
            .collect();
        heads.sort();
        heads
    };
    assert_eq!(heads(&third), heads(&here));
    report("push and pull", 2 * KILLS, "");
}
