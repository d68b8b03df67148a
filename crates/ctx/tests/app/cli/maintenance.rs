//! `status`, `verify`, `gc`, `backup` and `doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

/// Sealed work, an open task, and files large enough to be blobs.
fn worked_in() -> Repo {
    let repo = Repo::working_on("First");
    repo.write("a.rs", "fn a() {}\n".repeat(1000));
    repo.ok(["stage", "observe", "file-write", "a.rs"]);
    repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "Second"]);
    repo.write("b.rs", "fn b() {}\n".repeat(1000));
    repo.ok(["stage", "observe", "file-read", "b.rs"]);
    repo
}

#[test]
fn status_describes_the_store() {
    let repo = worked_in();
    let status = repo.ok(["status"]);
    assert_eq!((&status["project"], &status["task"]), (&json!("project"), &repo.task()));
    assert_eq!(status["head"], repo.commits()[0]);
    let session = &status["sessions"][0];
    assert_eq!(
        (&session["label"], &session["status"], &session["state"]),
        (&json!("main"), &json!("active"), &json!("idle"))
    );
    let text = repo.says(["status"]);
    assert!(
        text.contains("Second") && text.contains("First") && text.contains("running"),
        "{text}"
    );
    let empty = Repo::new().ok(["status"]);
    assert_eq!((&empty["task"], &empty["head"]), (&Value::Null, &Value::Null));
}

#[test]
fn verify_prints_what_it_checked() {
    let repo = worked_in();
    let report = repo.ok(["verify"]);
    for (what, count) in [("steps", 6), ("commits", 1), ("blobs", 2), ("tasks", 2), ("sessions", 1)]
    {
        assert_eq!(report[what], count, "{what} in {report}");
    }
    assert_eq!((&report["ok"], &report["findings"]), (&json!(true), &json!([])));
}

#[test]
fn gc_removes_nothing_that_is_in_use() {
    let repo = worked_in();
    let before = repo.everything();
    let report = repo.ok(["gc", "--grace", "0ms"]);
    assert_eq!((&report["blobs_removed"], &report["blobs_kept"]), (&json!(0), &json!(2)));
    assert_eq!(repo.everything(), before);
}

#[test]
fn gc_removes_unreferenced_blobs_after_the_grace_period() {
    if skipped_on_postgres("it writes rows of a segment") {
        return;
    }
    let repo = worked_in();
    // A blob whose step was never written, as a crash of an older program may leave it.
    repo.database()
        .execute_batch(
            "INSERT INTO bodies(id, data) SELECT max(id) + 1, zeroblob(4000) FROM bodies;
             INSERT INTO blobs(hash, version, seg, off, len, packing, size, created_at)
             SELECT x'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff', 1, 0,
                 max(id) * 4056, 4000, 0, 4000,
                    CAST(strftime('%s', 'now') AS INTEGER) * 1000 - 1000 FROM bodies;",
        )
        .expect("a blob that nothing refers to");
    assert_eq!(repo.ok(["gc"])["blobs_removed"], 0, "a running write may still refer to it");
    assert_eq!(repo.ok(["gc", "--grace", "0ms"])["blobs_removed"], 1);
    assert_eq!(repo.ok(["gc", "--grace", "0ms"])["blobs_removed"], 0);
    repo.assert_whole();
    assert_eq!(repo.ok(["verify"])["blobs"], 2);
}

#[test]
fn a_backup_is_a_working_store() {
    if skipped_on_postgres("PostgreSQL has backups of its own") {
        return;
    }
    let repo = worked_in();
    let copy = repo.beside("copy.db");
    let told = repo.ok(["backup", copy.to_str().expect("a path")]);
    assert_eq!(told["bytes"], fs::metadata(&copy).expect("the copy").len());
    assert_eq!(
        fs::metadata(&copy).expect("the copy").permissions().mode() & 0o777,
        0o600,
        "only its owner may read it"
    );
    repo.ok(["stage", "note", "after the backup"]);

    let other = Repo::bare();
    fs::create_dir(other.data()).expect("an empty directory");
    fs::copy(&copy, other.data().join("ctx.db")).expect("put back");
    other.assert_whole();
    assert_eq!(other.commits(), repo.commits());
    assert_eq!(other.task()["steps"], 2);
    other.ok(["stage", "note", "and on it goes"]);
    assert_eq!(other.ok(["search", "goes"])["hits"].as_array().map(Vec::len), Some(1));
    other.assert_whole();
}

#[test]
fn a_backup_overwrites_nothing() {
    let repo = worked_in();
    let file = repo.write("precious.txt", "do not touch");
    let (exit, error) = repo.refuses(["backup", file.to_str().expect("a path")]);
    assert_eq!((exit, &error["code"]), (1, &json!("file_exists")));
    assert_eq!(fs::read_to_string(file).expect("the file"), "do not touch");
    let (exit, _) = repo.refuses(["backup", "no/such/directory/copy.db"]);
    assert_eq!(exit, 1);
}

#[test]
fn a_backup_runs_while_others_write() {
    if skipped_on_postgres("PostgreSQL has backups of its own") {
        return;
    }
    let repo = worked_in();
    let writer = std::thread::scope(|scope| {
        let writing = scope
            .spawn(|| (0..30).for_each(|n| drop(repo.ok(["stage", "note", &format!("note {n}")]))));
        for n in 0..5 {
            repo.ok(["backup", repo.beside(&format!("copy-{n}.db")).to_str().expect("a path")]);
        }
        writing.join()
    });
    assert!(writer.is_ok());
    for n in 0..5 {
        let other = Repo::bare();
        fs::create_dir(other.data()).expect("an empty directory");
        fs::copy(repo.beside(&format!("copy-{n}.db")), other.data().join("ctx.db"))
            .expect("put back");
        other.assert_whole();
    }
}

#[test]
fn doctor_succeeds_on_a_healthy_store() {
    let report = worked_in().ok(["doctor"]);
    assert_eq!(report["ok"], true, "{report}");
    let checks = report["checks"].as_array().expect("checks");
    assert!(
        checks.len() >= 4
            && checks.iter().all(|check| check["ok"] == true && check["detail"].is_string())
    );
}

type Ailment = fn(&Repo);

#[test]
fn doctor_names_each_problem_and_fails() {
    if skipped_on_postgres("it is about the files of a store") {
        return;
    }
    let sick: [(&str, Ailment); 3] = [
        ("configuration", |repo| repo.configure("[clocks")),
        ("store", |repo| fs::write(repo.data().join("ctx.db"), b"").expect("an empty database")),
        ("rights", |repo| {
            for (path, mode) in [(repo.data(), 0o755), (repo.data().join("ctx.db"), 0o644)] {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the rights");
            }
        }),
    ];
    for (check, ail) in sick {
        let repo = Repo::new();
        ail(&repo);
        let output = repo.run(["--json", "doctor"]);
        assert_eq!(output.status.code(), Some(1), "{check}");
        let report: Value =
            serde_json::from_slice(&output.stdout).expect("the report is one document");
        let found = report["checks"]
            .as_array()
            .expect("checks")
            .iter()
            .find(|found| found["check"] == check);
        assert!(
            report["ok"] == false && found.is_some_and(|found| found["ok"] == false),
            "{check}: {report}"
        );
        let error: Value =
            serde_json::from_slice(&output.stderr).expect("the error is one document");
        assert!(error["code"].is_string() && error["message"].is_string(), "{error}");
    }
}
