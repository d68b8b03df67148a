//! Reading and recording take the same time in a long task as in a short one.

use std::time::{Duration, Instant};

use ctx_engine::{Engine, Options, truncate_log};

use crate::harness::repo::Repo;

/// Adds notes to the open task, a step each, through the library: a process for each note would
/// take minutes.
pub(crate) fn add_notes(repo: &Repo, count: usize) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = Engine::open(&repo.data(), Options::default()).expect("the store");
        let mut work = engine.tasks().existing_recorder("main");
        // Consecutive entries of one kind share a step, so notes and plans alternate. One flush is
        // one transaction.
        for n in 0..count {
            match n % 2 {
                0 => work.observe_note(format!("note {n}")),
                _ => work.observe_plan(format!("plan {n}")),
            }
            if n % 500 == 499 {
                work.flush().await.expect("the task is open");
            }
        }
        work.flush().await.expect("the task is open");
    });
}

fn timed(repo: &Repo, arguments: &[&str]) -> Duration {
    let started = Instant::now();
    assert!(repo.run(arguments).status.success());
    started.elapsed()
}

/// The fastest of many runs in each project, which is the time of the work itself. The runs
/// alternate, so that other load on the machine slows both.
fn quickest(one: &Repo, other: &Repo, arguments: &[&str]) -> (Duration, Duration) {
    let runs: Vec<(Duration, Duration)> =
        (0..20).map(|_| (timed(one, arguments), timed(other, arguments))).collect();
    let least =
        |of: fn(&(Duration, Duration)) -> Duration| runs.iter().map(of).min().expect("twenty runs");
    (least(|run| run.0), least(|run| run.1))
}

#[test]
fn reading_and_recording_do_not_walk_the_chain_of_steps() {
    let short = Repo::working_on("Short");
    add_notes(&short, 9);
    let long = Repo::working_on("Long");
    add_notes(&long, 9_999);
    // A process that opens a store reads its log, whose length does not depend on the task's.
    for repo in [&short, &long] {
        truncate_log(&repo.data().join("ctx.db")).expect("the log is empty");
    }
    assert_eq!(
        (short.task()["steps"].as_u64(), long.task()["steps"].as_u64()),
        (Some(10), Some(10_000))
    );
    for verb in
        [&["stage", "status"][..], &["status"], &["stage", "flush"], &["stage", "note", "one more"]]
    {
        let (little, much) = quickest(&short, &long, verb);
        assert!(
            much < 2 * little,
            "{verb:?} took {little:?} with 10 steps and {much:?} with 10,000"
        );
    }
    long.assert_whole();
}

#[test]
fn a_long_task_is_exported_and_sealed_completely() {
    let repo = Repo::working_on("Long");
    add_notes(&repo, 2_500);
    let file = repo.beside("long.bundle");
    repo.ok(["stage", "export", "-o", file.to_str().expect("a path")]);
    let other = Repo::new();
    other.ok(["stage", "import", file.to_str().expect("a path")]);
    assert_eq!(other.task()["head"], repo.task()["head"]);
    assert_eq!(other.ok(["stage", "compact"])["commit"]["steps"]["count"], 2_503);
    other.assert_whole();
}
