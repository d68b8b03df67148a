//! Eight concurrent processes on one store: nothing is lost or written twice, and the chain of
//! steps is intact.

use std::collections::BTreeSet;
use std::process::Child;

use crate::harness::PROGRAM;
use crate::harness::repo::Repo;
use crate::harness::test_store::on_postgres;

const WORKERS: usize = 8;

/// A process takes four times as long to connect to a server as to open a directory.
fn notes_each() -> usize {
    if on_postgres() { 100 } else { 500 }
}

const LOOP: &str = r#"i=1; while [ $i -le $N ]; do "$CTX" stage note "w$W n$i" >/dev/null || exit 1; i=$((i+1)); done"#;

fn worker(repo: &Repo, number: usize) -> Child {
    let mut command = repo.foreign("sh");
    command.args(["-c", LOOP]).env("CTX", PROGRAM);
    command.env("W", number.to_string()).env("N", notes_each().to_string());
    command.spawn().expect("a shell")
}

#[test]
fn eight_processes_record_every_note_exactly_once() {
    // R50, R56, R59
    let repo = Repo::working_on("Many hands");
    let workers: Vec<Child> = (0..WORKERS).map(|number| worker(&repo, number)).collect();
    for worker in workers {
        let output = worker.wait_with_output().expect("a worker ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(repo.task()["steps"], 1 + WORKERS * notes_each());
    let notes = repo.notes();
    let expected: BTreeSet<String> =
        (0..WORKERS).flat_map(|w| (1..=notes_each()).map(move |n| format!("w{w} n{n}"))).collect();
    assert_eq!(notes.len(), expected.len(), "every note once");
    assert_eq!(notes.iter().cloned().collect::<BTreeSet<_>>(), expected);
    for w in 0..WORKERS {
        let own = notes.iter().filter_map(|note| note.strip_prefix(&format!("w{w} n")));
        assert!(
            own.map(|n| n.parse::<usize>().expect("a number")).is_sorted(),
            "a worker's notes are in its order"
        );
    }
    assert_chain(&repo);
    repo.assert_whole();
    assert_eq!(repo.ok(["search", "w3", "n77"])["hits"].as_array().map(Vec::len), Some(1));
}

/// Each step's parent is the previous step, in the rows and, for a sample, in the hashed object.
fn assert_chain(repo: &Repo) {
    let database = repo.sql();
    let hash = database.hex("hash");
    let steps: Vec<_> = database
        .rows(&format!("SELECT id, seq, parent, {hash} FROM steps ORDER BY seq"))
        .into_iter()
        .map(|row| {
            let number = |at: usize| row[at].parse::<i64>().ok();
            let seq = number(1).and_then(|seq| usize::try_from(seq).ok());
            (number(0).expect("a row"), seq.expect("a number"), number(2), row[3].clone())
        })
        .collect();
    assert_eq!(steps.len(), 1 + WORKERS * notes_each());
    let mut before: Option<&(i64, usize, Option<i64>, String)> = None;
    for (at, step) in steps.iter().enumerate() {
        assert_eq!((step.1, step.2), (at + 1, before.map(|step| step.0)), "step {at}");
        if at % 400 == 0 {
            let shown = repo.ok(["show", &step.3]);
            assert_eq!(
                shown["content"]["parent"].as_str(),
                before.map(|step| step.3.as_str()),
                "step {at}"
            );
        }
        before = Some(step);
    }
    assert_eq!(before.map(|step| step.3.clone()), repo.task()["head"].as_str().map(str::to_owned));
}

#[test]
fn of_two_processes_that_seal_one_task_one_succeeds() {
    // R57, R114
    let repo = Repo::working_on("Many hands");
    let children: Vec<Child> = (0..6)
        .map(|_| repo.command(["--json", "stage", "compact"]).spawn().expect("the program runs"))
        .collect();
    let outputs: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect();
    let (won, lost): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| output.status.success());
    assert_eq!(won.len(), 1);
    assert!(lost.iter().all(|output| crate::harness::repo::failure(output).1["code"] == "no_task"));
    assert_eq!(repo.commits().len(), 1);
    repo.assert_whole();
}

#[test]
fn concurrent_inits_create_one_store_and_all_succeed() {
    let repo = Repo::bare();
    let children: Vec<Child> = (0..6)
        .map(|_| repo.command(["--json", "init"]).spawn().expect("the program runs"))
        .collect();
    let made = children
        .into_iter()
        .map(|child| crate::harness::repo::document(&child.wait_with_output().expect("it ends")));
    assert_eq!(made.filter(|told| told["created"] == true).count(), 1);
    let listed = repo.ok(["session", "list", "--all"]);
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    let left: Vec<_> = std::fs::read_dir(repo.data())
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left.is_empty(), on_postgres());
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{left:?}");
    repo.assert_whole();
}
