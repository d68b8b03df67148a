//! Reading and recording transfer as many bytes in a long task as in a short one.

use ctx_engine::{Engine, Options, truncate_log};

use crate::harness::PROGRAM;
use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

/// More than the deeper indexes of a long task, and far less than its 10,000 steps.
const STEPS_NOT_READ: u64 = 256 * 1024;

/// Adds notes to the open task, a step each, through the library: a process for each note would
/// take minutes.
pub(crate) fn add_notes(repo: &Repo, count: usize) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = Engine::open(repo.location(), Options::default()).expect("the store");
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
        engine.maintenance().update_indexes().await.expect("indexes");
    });
}

/// The bytes that a verb reads and writes. The kernel adds the counters of an ended child to those
/// of the shell that waited for it.
fn transferred(repo: &Repo, arguments: &[&str]) -> u64 {
    let mut shell = repo.foreign("sh");
    shell.args(["-c", r#""$@" > verb.out || exit 1; cat /proc/$$/io"#, "sh", PROGRAM]);
    let output = shell.args(arguments).output().expect("a shell");
    let counters = String::from_utf8(output.stdout).expect("counters");
    assert!(output.status.success(), "{arguments:?}: {counters}");
    let counter = |name: &str| -> u64 {
        let line = counters.lines().find_map(|line| line.strip_prefix(name)).expect("a counter");
        line.trim().parse().expect("a number")
    };
    counter("rchar:") + counter("wchar:")
}

#[test]
fn reading_and_recording_do_not_walk_the_chain_of_steps() {
    if skipped_on_postgres("it counts the bytes that files transfer") {
        return;
    }
    let short = Repo::working_on("Short");
    add_notes(&short, 9);
    let long = Repo::working_on("Long");
    add_notes(&long, 9_999);
    // A process that opens a store reads its log, whose length does not depend on the task's.
    for repo in [&short, &long] {
        for database in ["ctx.db", "search.db"] {
            let database = repo.data().join(database);
            if database.exists() {
                truncate_log(&database).expect("the log is empty");
            }
        }
    }
    assert_eq!(
        (short.task()["steps"].as_u64(), long.task()["steps"].as_u64()),
        (Some(10), Some(10_000))
    );
    for verb in
        [&["stage", "status"][..], &["status"], &["stage", "flush"], &["stage", "note", "one more"]]
    {
        let (little, much) = (transferred(&short, verb), transferred(&long, verb));
        assert!(
            much < little + STEPS_NOT_READ,
            "{verb:?} transfers {little} bytes with 10 steps and {much} with 10,000"
        );
    }
    // The counters would show a walk: an export reads every step.
    let file = long.beside("all.bundle");
    let export = ["stage", "export", "-o", file.to_str().expect("a path")];
    assert!(transferred(&long, &export) > 4 * STEPS_NOT_READ);
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
