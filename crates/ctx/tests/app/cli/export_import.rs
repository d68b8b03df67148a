//! `stage export` and `import`, and a copy of the store: a task continues elsewhere (R53,
//! R115-R117).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctx_engine::core::bundle::{self, Manifest};
use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

/// A task with a file, a command and an open question, and its bundle.
fn exported() -> (Repo, PathBuf) {
    let repo = Repo::working_on("Add retry logic");
    repo.write("large.rs", "fn retry() {}\n".repeat(1000));
    repo.ok(["stage", "observe", "file-write", "large.rs"]);
    repo.ok(["stage", "observe", "command", "--exit", "0", "--", "cargo", "test"]);
    repo.ok(["stage", "note", "The client has one call site"]);
    repo.ok(["stage", "ask", "Which backoff?"]);
    let file = repo.beside("task.bundle");
    export(&repo, &file);
    (repo, file)
}

fn export(repo: &Repo, file: &Path) -> Value {
    repo.ok(["stage", "export", "-o", file.to_str().expect("a path")])
}

fn import(repo: &Repo, file: &Path) -> Value {
    repo.ok(["stage", "import", file.to_str().expect("a path")])
}

#[track_caller]
fn refuses(repo: &Repo, file: &Path, code: &str) -> Value {
    let (exit, error) = repo.refuses(["stage", "import", file.to_str().expect("a path")]);
    assert_eq!((exit, &error["code"]), (1, &json!(code)), "{error}");
    error
}

/// Asserts that two views of a task are equal in all that does not depend on the store.
fn same_task(a: &Value, b: &Value) {
    for field in [
        "id",
        "description",
        "state",
        "steps",
        "head",
        "started_at",
        "last_activity_at",
        "progress",
    ] {
        assert_eq!(a[field], b[field], "{field}");
    }
}

#[test]
fn an_export_prints_its_content() {
    // R115
    let (repo, file) = exported();
    let told = export(&repo, &file);
    let task = repo.task();
    assert_eq!(told["task_description"], task["description"]);
    assert_eq!(
        (&told["state"], &told["staging_head"], &told["steps"]),
        (&task["state"], &task["head"], &task["steps"])
    );
    assert_eq!(
        (&told["progress_summary"], &told["last_activity"]),
        (&task["progress"], &task["last_activity_at"])
    );
    let (_, error) = Repo::new().refuses(["stage", "export"]);
    assert_eq!(error["code"], "no_task");
}

#[test]
fn a_task_continues_on_another_machine() {
    // R116, R117
    let (repo, file) = exported();
    let other = Repo::new();
    same_task(&import(&other, &file)["task"], &repo.task());
    same_task(&other.task(), &repo.task());
    assert_eq!(other.steps(), repo.steps(), "every step, to the byte");
    assert_eq!(other.notes(), repo.notes());
    other.assert_whole();
    assert_eq!(other.ok(["stage", "message", "Exponential"])["action"], "respond");
    other.ok(["stage", "done", "Retries"]);
    let commit = other.ok(["stage", "confirm"])["commit"].clone();
    assert_eq!(
        (&commit["task"], &commit["files"][0]["path"]),
        (&repo.task()["id"], &json!("large.rs"))
    );
    other.assert_whole();
}

#[test]
fn a_bundle_can_be_piped() {
    let (repo, file) = exported();
    let piped = repo.run(["stage", "export"]);
    assert!(piped.status.success() && piped.stderr.is_empty());
    assert_eq!(
        piped.stdout,
        fs::read(&file).expect("the bundle"),
        "the same task gives the same bytes"
    );
    let other = Repo::new();
    let output = other.piped(["--json", "stage", "import", "-"], &piped.stdout);
    same_task(&crate::harness::repo::document(&output)["task"], &repo.task());
}

#[test]
fn a_copied_store_directory_works() {
    // R53, R117
    if skipped_on_postgres("the store is no directory") {
        return;
    }
    let (repo, _) = exported();
    let other = Repo::bare();
    let copied =
        Command::new("cp").arg("-r").arg(repo.data()).arg(other.data()).status().expect("cp");
    assert!(copied.success());
    assert_eq!(other.task(), repo.task());
    other.ok(["stage", "answer", "Exponential"]);
    other.assert_whole();
    assert_eq!((repo.state(), other.state()), ("awaiting_user".to_owned(), "running".to_owned()));
}

#[test]
fn importing_twice_or_late_changes_nothing() {
    let (repo, file) = exported();
    let other = Repo::new();
    import(&other, &file);
    let before = other.everything();
    import(&other, &file);
    assert_eq!(other.everything(), before);
    import(&repo, &file);
    other.ok(["stage", "answer", "Exponential"]);
    let ahead = other.everything();
    same_task(&import(&other, &file)["task"], &other.task());
    assert_eq!(other.everything(), ahead, "an older bundle takes nothing back");
}

#[test]
fn an_exported_task_returns_with_the_work_done_elsewhere() {
    let (repo, file) = exported();
    let other = Repo::new();
    import(&other, &file);
    other.ok(["stage", "answer", "Exponential"]);
    other.ok(["stage", "note", "done elsewhere"]);
    export(&other, &file);
    import(&repo, &file);
    same_task(&repo.task(), &other.task());
    repo.assert_whole();
}

#[test]
fn two_diverged_copies_of_a_task_are_not_merged() {
    let (repo, file) = exported();
    let other = Repo::new();
    import(&other, &file);
    other.ok(["stage", "answer", "Exponential"]);
    repo.ok(["stage", "answer", "Fixed"]);
    export(&other, &file);
    assert!(refuses(&repo, &file, "diverged")["hint"].is_string());
}

// ---- refused ----

#[test]
fn any_flipped_byte_is_refused() {
    let (_repo, file) = exported();
    let whole = fs::read(&file).expect("the bundle");
    let other = Repo::working_on("Something else");
    other.ok(["stage", "compact"]);
    let before = other.everything();
    let bad = other.beside("bad.bundle");
    let mut seed: u64 = 0x5EED;
    for _ in 0..40 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 16) as usize % whole.len();
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << ((seed >> 8) % 8);
        fs::write(&bad, &bytes).expect("a bundle");
        let (exit, error) = other.fails(["stage", "import", bad.to_str().expect("a path")]);
        let code = error["code"].as_str().expect("a code").to_owned();
        assert!(
            exit == 1
                && ["bundle_damaged", "not_a_bundle", "bundle_too_new"].contains(&code.as_str()),
            "byte {at}: {error}"
        );
    }
    for len in [0, 1, 12, 13, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&bad, &whole[..len]).expect("a bundle");
        let (exit, error) = other.fails(["stage", "import", bad.to_str().expect("a path")]);
        assert!(exit == 1 && error["hint"].is_string(), "cut at {len}: {error}");
    }
    assert_eq!(other.everything(), before);
    import(&other, &file);
}

#[test]
fn a_foreign_file_a_newer_bundle_and_a_missing_file_have_different_errors() {
    let repo = Repo::new();
    for (content, code) in
        [("a letter", "not_a_bundle"), ("ctx-bundle 9\n", "bundle_too_new"), ("", "not_a_bundle")]
    {
        refuses(&repo, &repo.write("odd", content), code);
    }
    refuses(&repo, Path::new("nothing-here"), "not_found");
}

#[test]
fn an_import_does_not_replace_an_open_task() {
    // R35
    let (_repo, file) = exported();
    let other = Repo::working_on("Something else");
    assert!(
        refuses(&other, &file, "task_open")["message"]
            .as_str()
            .is_some_and(|text| text.contains("Something else"))
    );
}

#[test]
fn a_task_that_was_sealed_here_stays_sealed() {
    // R57, R114
    let (repo, file) = exported();
    let commit = repo.ok(["stage", "compact"])["commit"]["id"].as_str().expect("an id").to_owned();
    let error = refuses(&repo, &file, "already_sealed");
    assert!(error["message"].as_str().is_some_and(|text| text.contains(&commit)), "{error}");
}

/// The bundle without some of its objects, with a new closing hash.
fn thinned(file: &Path, keep: impl Fn(usize, &str) -> bool) -> PathBuf {
    let (manifest, objects) =
        bundle::read(&fs::read(file).expect("the bundle")).expect("a whole bundle");
    let kept: Vec<_> = objects
        .into_iter()
        .enumerate()
        .filter(|(at, object)| keep(*at, object.kind.name()))
        .map(|(_, object)| object)
        .collect();
    let thin = file.with_extension("thin");
    fs::write(&thin, bundle::write(&manifest, &kept)).expect("a bundle");
    thin
}

#[test]
fn a_bundle_that_lacks_its_head_a_step_or_a_blob_is_refused() {
    // R116
    let (_repo, file) = exported();
    let other = Repo::new();
    refuses(&other, &thinned(&file, |_, _| false), "missing_head");
    refuses(&other, &thinned(&file, |at, _| at != 4), "missing_head");
    refuses(&other, &thinned(&file, |at, _| at != 2), "bundle_damaged");
    refuses(&other, &thinned(&file, |at, _| at != 0), "bundle_damaged");
    let error = refuses(&other, &thinned(&file, |_, kind| kind != "blob"), "not_found");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("blob")), "{error}");
    import(&other, &file);
}

#[test]
fn a_bundle_without_steps_resumes_if_its_head_is_known() {
    // R116: only the head must exist in this store.
    let (repo, file) = exported();
    same_task(&import(&repo, &thinned(&file, |_, _| false))["task"], &repo.task());
    repo.assert_whole();
}

#[test]
fn a_bundle_that_contradicts_its_steps_is_refused() {
    let (_repo, file) = exported();
    let read = bundle::read(&fs::read(&file).expect("the bundle")).expect("a whole bundle");
    let (Manifest::Task(whole), objects) = read else { panic!("a task") };
    let whole = *whole;
    let other = Repo::new();
    let lie = |told: bundle::TaskBundle| {
        let path = file.with_extension("lie");
        fs::write(&path, bundle::write(&Manifest::Task(Box::new(told)), &objects))
            .expect("a bundle");
        let (exit, error) = other.refuses(["stage", "import", path.to_str().expect("a path")]);
        assert_eq!(exit, 1, "{error}");
    };
    lie(bundle::TaskBundle { steps: whole.steps + 1, ..whole.clone() });
    lie(bundle::TaskBundle { state: ctx_engine::core::task::State::Running, ..whole.clone() });
    lie(bundle::TaskBundle { task_description: "Delete everything".to_owned(), ..whole });
}
