//! Records of hooks while the store is not available: kept in order, and stored exactly once.

use std::fs::File;
use std::time::{Duration, Instant};

use serde_json::json;

use super::hook_record::{claude, entries, prompt};
use crate::harness::repo::Repo;
use crate::harness::server::Server;
use crate::harness::test_store::on_postgres;
use crate::harness::wait_until;

/// Longest time of a hook while the store is locked, with room for a debug build on a busy machine.
const LOCKED_MAX: Duration = Duration::from_millis(1000);

fn spooled(repo: &Repo) -> usize {
    let entries = std::fs::read_dir(repo.data().join("hooks/spool")).into_iter().flatten();
    entries.filter(|entry| entry.as_ref().is_ok_and(|it| it.path().extension().is_some())).count()
}

fn ran(repo: &Repo, line: &str) {
    let fields = json!({"tool_name": "Bash", "tool_input": {"command": line},
                        "tool_response": {"stdout": ""}});
    claude(repo, "PostToolUse", fields);
}

fn commands(repo: &Repo) -> Vec<String> {
    let entries = entries(repo);
    let commands = entries.iter().filter(|entry| entry["type"] == "command");
    commands.map(|entry| entry["argv"][0].as_str().expect("a command").to_owned()).collect()
}

/// Locks the store as a process does that writes.
fn locked(repo: &Repo) -> File {
    let file = File::options().write(true).open(repo.data().join("write.lock")).expect("a lock");
    file.lock().expect("locked");
    file
}

#[test]
fn a_locked_store_delays_no_agent_and_loses_nothing() {
    if on_postgres() {
        return; // The lock is a file of the embedded store.
    }
    let repo = Repo::new();
    let lock = locked(&repo);
    let began = Instant::now();
    prompt(&repo, "Add retry logic");
    assert!(began.elapsed() < LOCKED_MAX, "{:?}", began.elapsed());
    for number in 0..5 {
        ran(&repo, &format!("step {number}"));
    }
    assert_eq!(spooled(&repo), 6);
    assert_eq!(repo.ok(["hook", "list"])["waiting"], 6, "a verb waits for the store only shortly");
    drop(lock);
    // The next verb stores them, in order.
    assert_eq!(repo.task()["description"], "Add retry logic");
    let expected: Vec<String> = (0..5).map(|number| format!("step {number}")).collect();
    assert_eq!(commands(&repo), expected);
    assert_eq!(spooled(&repo), 0);
    // The next hook does, too.
    let lock = locked(&repo);
    ran(&repo, "late");
    drop(lock);
    ran(&repo, "later");
    wait_until("the records are stored", || spooled(&repo) == 0);
    assert_eq!(commands(&repo)[5..], ["late", "later"]);
    repo.assert_whole();
}

#[test]
fn a_record_that_is_found_again_is_stored_once() {
    let repo = Repo::working_on("Add retry logic");
    let name = "00000000000000000001-01ARZ3NDEKTSV4RRFFQ69G5FAV.json";
    let event = json!({"type": "work", "task": "x", "entries": [
        {"type": "command", "argv": ["make"], "exit": 0, "output": null}]});
    let record = json!({"session": "main", "event": event}).to_string();
    let dir = repo.data().join("hooks/spool");
    std::fs::create_dir_all(&dir).expect("the spool");
    // As after a crash between the transaction and the removal of the file.
    for _ in 0..3 {
        std::fs::write(dir.join(name), &record).expect("a record");
        assert_eq!(commands(&repo), ["make"]);
        assert_eq!(spooled(&repo), 0);
    }
}

#[test]
fn a_damaged_record_does_not_stop_the_others() {
    let repo = Repo::working_on("Add retry logic");
    let dir = repo.data().join("hooks/spool");
    std::fs::create_dir_all(&dir).expect("the spool");
    std::fs::write(dir.join("00000000000000000001-X.json"), "{\"session\"").expect("a record");
    let bad = json!({"session": "main", "event": {"type": "prompt", "text": "a\0b"}});
    std::fs::write(dir.join("00000000000000000002-X.json"), bad.to_string()).expect("a record");
    ran(&repo, "make");
    assert_eq!(commands(&repo), ["make"]);
    let aside = std::fs::read_dir(repo.data().join("hooks/refused")).expect("set aside").count();
    assert_eq!((spooled(&repo), aside), (0, 2));
}

#[test]
fn parallel_hooks_lose_no_record() {
    let repo = Repo::working_on("Add retry logic");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let repo = &repo;
            scope.spawn(move || {
                for number in 0..5 {
                    ran(repo, &format!("{thread}-{number}"));
                }
            });
        }
    });
    let found = commands(&repo);
    assert_eq!(found.len(), 20, "{found:?}");
    for thread in 0..4 {
        let own: Vec<&String> =
            found.iter().filter(|it| it.starts_with(&format!("{thread}-"))).collect();
        let expected: Vec<String> = (0..5).map(|number| format!("{thread}-{number}")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
    repo.assert_whole();
}

#[test]
fn uninstalling_removes_what_hooks_keep_beside_the_store() {
    let repo = Repo::new();
    repo.ok(["hook", "install", "claude-code", "--yes"]);
    prompt(&repo, "Add retry logic");
    assert!(repo.data().join("hooks").exists());
    repo.ok(["hook", "uninstall", "claude-code"]);
    assert!(!repo.data().join("hooks").exists());
    assert_eq!(repo.task()["description"], "Add retry logic");
}

#[test]
fn a_server_stores_the_records_that_wait() {
    let server = Server::start();
    let spool = server.dir.path().join("data/hooks/spool");
    std::fs::create_dir_all(&spool).expect("the spool");
    let event = json!({"type": "prompt", "text": "Add retry logic"});
    let record = json!({"session": "main", "event": event}).to_string();
    std::fs::write(spool.join("00000000000000000001-X.json"), record).expect("a record");
    wait_until("the server stores the record", || {
        let session = server.get("/api/sessions/main");
        session.status == 200 && session.json()["task"]["description"] == "Add retry logic"
    });
}
