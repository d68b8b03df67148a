//! A store that is damaged, truncated, empty or newer than the program: reported, and not changed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

/// A project with sealed work and an open task.
fn worked_in() -> Repo {
    let repo = Repo::working_on("First");
    repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "Add retry logic"]);
    for n in 0..5 {
        repo.ok(["stage", "note", &format!("note {n}")]);
    }
    // Move the write-ahead log into the database, so that the damage below cannot be undone from
    // it.
    let emptied: i64 = repo
        .database()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .expect("a checkpoint");
    assert_eq!(emptied, 0);
    repo
}

const VERBS: [&[&str]; 6] = [
    &["stage", "status"],
    &["stage", "note", "x"],
    &["log"],
    &["verify"],
    &["init"],
    &["stage", "message", "stop"],
];

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir)
        .expect("the store's directory")
        .map(|entry| entry.expect("an entry").path());
    let database = entries.filter(|path| path.file_name().is_some_and(|name| name == "ctx.db"));
    database.map(|path| (path.display().to_string(), fs::read(&path).expect("a file"))).collect()
}

#[track_caller]
fn all_refuse(repo: &Repo, code: &str) {
    let before = files(&repo.data());
    for verb in VERBS {
        let (exit, error) = repo.fails(verb);
        assert_eq!((exit, &error["code"]), (1, &json!(code)), "{verb:?}: {error}");
        assert!(error["hint"].is_string(), "{verb:?} has a hint: {error}");
    }
    assert_eq!(files(&repo.data()), before, "a store that cannot be read is left as it is");
}

fn forget_log(repo: &Repo) {
    for name in ["ctx.db-wal", "ctx.db-shm"] {
        let _ = fs::remove_file(repo.data().join(name));
    }
}

#[test]
fn a_store_of_a_newer_program_is_refused() {
    if skipped_on_postgres("it damages the files of a store") {
        return;
    }
    let repo = worked_in();
    let before = repo.everything();
    let set = |key: &str, value: &str| {
        repo.database()
            .execute("UPDATE meta SET value = ?2 WHERE key = ?1", [key, value])
            .expect("meta")
    };
    set("schema", "99");
    set("min_writer", "99");
    all_refuse(&repo, "store_too_new");
    assert!(
        repo.fails(["stage", "status"]).1["message"]
            .as_str()
            .is_some_and(|text| text.contains("99"))
    );
    set("schema", "1");
    let (exit, error) = repo.fails(["stage", "note", "x"]);
    assert_eq!(
        (exit, &error["code"]),
        (1, &json!("store_too_new")),
        "a store may be readable and not writable"
    );
    assert_eq!(repo.task()["description"], "Add retry logic");
    set("min_writer", "1");
    assert_eq!(repo.everything(), before);
}

#[test]
fn an_empty_a_foreign_and_a_truncated_database_are_reported() {
    if skipped_on_postgres("it damages the files of a store") {
        return;
    }
    let whole = worked_in();
    let bytes = fs::read(whole.data().join("ctx.db")).expect("the database");
    let damages: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("ten bytes", bytes[..10].to_vec()),
        ("its first page", bytes[..4096].to_vec()),
        ("half of it", bytes[..bytes.len() / 2].to_vec()),
        ("something else", b"this is a letter to my aunt, and it is no database".repeat(100)),
    ];
    for (name, damaged) in damages {
        let repo = worked_in();
        forget_log(&repo);
        fs::write(repo.data().join("ctx.db"), damaged).expect(name);
        all_refuse(&repo, "damaged");
    }
}

/// Flips a bit in the stored bytes of a step of the open task.
fn flip(repo: &Repo, seq: i64) {
    let database = repo.database();
    let (chunk, at): (i64, usize) = database
        .query_row(
            "SELECT (off + len / 2) / 4056, (off + len / 2) % 4056 FROM steps JOIN tasks ON \
             tasks.row = task WHERE ended_at IS NULL AND seq = ?1",
            [seq],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("the step");
    let mut bytes: Vec<u8> = database
        .query_row("SELECT data FROM bodies WHERE id = ?1", [chunk], |row| row.get(0))
        .expect("its bytes");
    bytes[at] ^= 1;
    database
        .execute("UPDATE bodies SET data = ?2 WHERE id = ?1", rusqlite::params![chunk, bytes])
        .expect("damaged bytes");
}

#[test]
fn a_flipped_bit_in_a_record_is_found_and_the_record_is_not_shown() {
    if skipped_on_postgres("it damages the files of a store") {
        return;
    }
    let repo = worked_in();
    let head = repo.task()["head"].as_str().expect("an id").to_owned();
    flip(&repo, 6);
    let output = repo.run(["--json", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is one document");
    assert_eq!(report["ok"], false);
    assert!(
        report["findings"]
            .as_array()
            .is_some_and(|found| found.iter().any(|one| one.to_string().contains(&head))),
        "{report}"
    );
    let error: Value = serde_json::from_slice(&output.stderr).expect("the error is one document");
    assert_eq!(error["code"], "damaged");
    for verb in
        [vec!["show", &head], vec!["narrative"], vec!["stage", "export", "-o", "out.bundle"]]
    {
        let (exit, error) = repo.fails(&verb);
        assert_eq!((exit, &error["code"]), (1, &json!("damaged")), "{verb:?}");
    }
    assert!(!repo.dir().join("out.bundle").exists(), "what is damaged is not handed on");
}

#[test]
fn a_new_store_does_not_apply_the_log_of_a_deleted_one() {
    // The database was deleted and its log was not: SQLite would apply the old log to a new
    // database.
    if skipped_on_postgres("it damages the files of a store") {
        return;
    }
    let repo = Repo::working_on("Add retry logic");
    assert!(
        repo.data().join("ctx.db-wal").metadata().is_ok_and(|meta| meta.len() > 0),
        "the work is in the log"
    );
    fs::remove_file(repo.data().join("ctx.db")).expect("the database");
    let output = repo.run(["--json", "init"]);
    if output.status.success() {
        assert_eq!(repo.task(), Value::Null, "a new store is empty");
        repo.ok(["stage", "start", "Next"]);
        repo.assert_whole();
    } else {
        assert_eq!(crate::harness::repo::failure(&output).1["code"], "damaged");
        assert!(!repo.data().join("ctx.db").exists(), "refused, so nothing was made");
    }
}

/// Asserts that verify finds the damage, that a repair succeeds, and that everything is as before.
fn put_right(damage: &str) -> Result<(), String> {
    let repo = worked_in();
    let before = (repo.task(), repo.commits());
    assert!(repo.database().execute(damage, []).expect(damage) > 0);
    if repo.run(["verify"]).status.code() != Some(1) {
        return Err(format!("not found: {damage}"));
    }
    let report = repo.run(["verify", "--repair"]);
    if !report.status.success()
        || !repo.run(["verify"]).status.success()
        || (repo.task(), repo.commits()) != before
    {
        return Err(format!(
            "not put right: {damage}: {}",
            String::from_utf8_lossy(&report.stdout)
        ));
    }
    Ok(())
}

#[test]
fn missing_derived_data_is_found_and_repaired() {
    if skipped_on_postgres("it damages the files of a store") {
        return;
    }
    let damages = [
        "DELETE FROM refs WHERE name LIKE 'STAGE:%'",
        "DELETE FROM refs WHERE name LIKE 'HEAD:%'",
        "UPDATE refs SET target = lower(hex(zeroblob(32)))",
        "UPDATE tasks SET steps = steps + 1 WHERE ended_at IS NULL",
        "UPDATE tasks SET state = '{\"name\":\"complete\"}' WHERE ended_at IS NULL",
        "UPDATE tasks SET description = 'Something else' WHERE ended_at IS NULL",
        "UPDATE tasks SET progress = '{}' WHERE ended_at IS NULL",
        "UPDATE tasks SET last_activity_at = last_activity_at - 86400000 WHERE ended_at IS NULL",
    ];
    let failed: Vec<String> = damages.iter().filter_map(|damage| put_right(damage).err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
