//! `log`: sealed work, by page and by type (R110-R113).

use std::collections::BTreeSet;

use ctx_engine::{Engine, Options};
use serde_json::{Value, json};

use crate::cli::stale_task::left_for;
use crate::harness::repo::Repo;

const WEEK_AND_A_DAY_MS: i64 = 8 * 86_400_000;

/// One commit of each type, sealed in this order.
fn one_of_each() -> Repo {
    let mut repo = left_for(WEEK_AND_A_DAY_MS);
    repo.ok(["stage", "recover"]);
    repo.ok(["stage", "start", "Confirmed"]);
    repo.ok(["stage", "done", "Done"]);
    repo.ok(["stage", "confirm"]);
    repo.ok(["stage", "start", "Given up"]);
    repo.ok(["stage", "abort"]);
    repo.ok(["stage", "start", "Pushed aside"]);
    repo.ok(["stage", "note", "some work"]);
    repo.set("CTX_DEFAULTS_ON_NEW_TASK", "auto");
    repo.ok(["stage", "message", "Different topic: write the changelog"]);
    repo.ok(["stage", "compact"]);
    repo
}

#[test]
fn completed_work_can_be_filtered() {
    // R110-R113
    let repo = one_of_each();
    let types = |arguments: &[&str]| -> Vec<String> {
        let commits = repo.ok([&["log"], arguments].concat())["commits"].clone();
        let name =
            |commit: &Value| commit["commit_type"]["name"].as_str().expect("a type").to_owned();
        commits.as_array().expect("commits").iter().map(name).collect()
    };
    assert_eq!(
        types(&[]),
        ["normal", "interrupted_by_new_task", "abandoned", "normal", "stale_auto_compact"]
    );
    assert_eq!(types(&["--type", "normal"]), ["normal", "normal"]);
    for name in ["interrupted_by_new_task", "abandoned", "stale_auto_compact"] {
        assert_eq!(types(&["--type", name]), [name]);
    }
    assert_eq!(
        types(&["--type", "abandoned", "--type", "stale_auto_compact"]),
        ["abandoned", "stale_auto_compact"]
    );
    let (exit, error) = repo.refuses(["log", "--type", "finished"]);
    assert_eq!(exit, 2);
    assert!(error.to_string().contains("abandoned"), "it names the types that there are: {error}");
}

#[test]
fn an_empty_log_prints_a_document_or_a_sentence() {
    let repo = Repo::new();
    assert_eq!(repo.ok(["log"]), json!({"commits": [], "next_cursor": null}));
    assert!(repo.says(["log"]).contains("ctx stage seal"));
}

#[test]
fn log_pages_have_no_gap_and_no_repeat() {
    let repo = Repo::new();
    for n in 0..7 {
        repo.ok(["stage", "start", &format!("task {n}")]);
        repo.ok(["stage", "compact"]);
    }
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    for expected in [3, 3, 1] {
        let mut arguments = vec!["log", "-n", "3"];
        arguments.extend(cursor.iter().flat_map(|cursor| ["--before", cursor.as_str()]));
        let page = repo.ok(arguments);
        let commits = page["commits"].as_array().expect("commits").clone();
        assert_eq!(commits.len(), expected);
        seen.extend(
            commits.iter().map(|commit| commit["message"].as_str().expect("a message").to_owned()),
        );
        cursor = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(cursor, None, "the last page has no cursor");
    assert_eq!(seen, (0..7).rev().map(|n| format!("task {n}")).collect::<Vec<_>>());
}

#[test]
fn a_page_of_the_maximum_size_has_a_cursor() {
    let repo = Repo::new();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = Engine::open(repo.location(), Options::default()).expect("the store");
        let mut work = engine.tasks().recorder("main").await.expect("the session");
        for n in 0..1001 {
            work.start(&format!("task {n}")).await.expect("nothing is open");
            work.seal(None).await.expect("something is open");
        }
    });
    let first = repo.ok(["log", "-n", "1000"]);
    let ids = |page: &Value| -> BTreeSet<String> {
        page["commits"]
            .as_array()
            .expect("commits")
            .iter()
            .map(|commit| commit["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let mut all = ids(&first);
    assert_eq!(all.len(), 1000);
    let cursor = first["next_cursor"].as_str().expect("one commit is left over");
    all.extend(ids(&repo.ok(["log", "-n", "1000", "--before", cursor])));
    assert_eq!(all.len(), 1001);
}

#[test]
fn a_wrong_page_is_refused() {
    let repo = Repo::working_on("Add retry logic");
    for size in ["0", "1001", "-1", "many"] {
        assert_eq!(repo.refuses(["log", &format!("--limit={size}")]).0, 2, "{size}");
    }
    let step = repo.task()["head"].as_str().expect("an id").to_owned();
    let (exit, error) = repo.refuses(["log", "--before", &step]);
    assert_eq!((exit, &error["code"]), (1, &json!("not_found")), "a step is no commit");
    let (exit, error) = repo.refuses(["log", "--before", "not-an-id"]);
    assert_eq!((exit, &error["code"]), (2, &json!("bad_id")));
}
