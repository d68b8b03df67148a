//! `show`: one object or task by its id or a prefix of it.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

#[test]
fn a_step_a_commit_a_blob_and_a_task_are_shown() {
    let repo = Repo::working_on("Add retry logic");
    let large = "fn retry() {}\n".repeat(1000);
    repo.write("large.rs", &large);
    let step = repo.ok(["stage", "observe", "file-write", "large.rs"])["task"]["head"].clone();
    let shown = repo.ok(["show", step.as_str().expect("an id")]);
    assert_eq!((&shown["kind"], &shown["id"]), (&json!("step"), &step));
    let blob = shown["content"]["payload"][0]["content"]["blob"]
        .as_str()
        .expect("a large file is a blob")
        .to_owned();
    assert!(shown["refers_to"].as_array().is_some_and(|ids| ids.contains(&json!(blob))), "{shown}");
    assert_eq!(repo.ok(["show", &blob])["content"], large);
    assert!(repo.says(["show", &blob]).starts_with(&large), "a blob is printed as it is");

    let task = repo.task()["id"].as_str().expect("an id").to_owned();
    assert_eq!(repo.ok(["show", &task])["task"], repo.task());
    let commit = repo.ok(["stage", "compact"])["commit"].clone();
    let shown = repo.ok(["show", commit["id"].as_str().expect("an id")]);
    assert_eq!(
        (&shown["kind"], &shown["content"]["message"]),
        (&json!("commit"), &commit["message"])
    );
    assert!(
        shown["refers_to"].as_array().is_some_and(|ids| ids.contains(&commit["steps"]["last"])),
        "{shown}"
    );
    let ended = repo.ok(["show", &task])["task"].clone();
    assert_eq!((&ended["commit"], &ended["state"]["name"]), (&commit["id"], &json!("complete")));
}

#[test]
fn a_prefix_of_an_id_is_enough_in_upper_and_lower_case() {
    let repo = Repo::working_on("Add retry logic");
    let head = repo.task()["head"].as_str().expect("an id").to_owned();
    for digits in [4, 7, 63] {
        assert_eq!(repo.ok(["show", &head[..digits]])["id"], head.as_str());
    }
    assert_eq!(repo.ok(["show", &head.to_uppercase()])["id"], head.as_str());
    assert!(repo.says(["show", &head[..12]]).contains(&head));
}

#[test]
fn a_missing_object_and_an_invalid_id_are_refused() {
    let repo = Repo::working_on("Add retry logic");
    let nothing = "0".repeat(64);
    for (id, exit, code) in [
        (nothing.as_str(), 1, "not_found"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, "not_found"),
        ("abc", 2, "bad_id"),
        ("not hex", 2, "bad_id"),
        ("", 2, "bad_id"),
    ] {
        let (got, error) = repo.refuses(["show", id]);
        assert_eq!((got, &error["code"]), (exit, &json!(code)), "{id}");
    }
}

#[test]
fn an_ambiguous_prefix_lists_the_candidates() {
    let repo = Repo::working_on("Add retry logic");
    let mut beginnings = std::collections::HashMap::new();
    let twins: (String, String) = (0..)
        .find_map(|n| {
            assert!(n < 100, "two of a few thousand ids begin alike");
            // Each command is a step; the library writes many of them in one process.
            crate::cli::long_task::add_notes(&repo, 200);
            let database = repo.sql();
            let hash = database.hex("hash");
            let ids =
                database.rows(&format!("SELECT {hash} FROM steps ORDER BY id DESC LIMIT 200"));
            ids.concat().into_iter().find_map(|id| {
                beginnings.insert(id[..4].to_owned(), id.clone()).map(|twin| (twin, id))
            })
        })
        .expect("an endless search ends by finding");
    let (exit, error) = repo.fails(["show", &twins.0[..4]]);
    assert_eq!((exit, &error["code"]), (1, &json!("ambiguous_id")));
    let message = error["message"].as_str().expect("a message");
    for twin in [&twins.0, &twins.1] {
        assert!(message.contains(&twin[..8]), "{twin} is not named in {message}");
        assert_eq!(repo.ok(["show", twin])["id"], json!(twin));
    }
}

#[test]
fn a_stored_object_is_always_shown_unchanged() {
    let repo = Repo::working_on("Add retry logic");
    let steps: Vec<Value> = repo.steps();
    repo.ok(["stage", "done", "Retries"]);
    repo.ok(["stage", "confirm"]);
    assert_eq!(repo.ok(["show", steps[0]["id"].as_str().expect("an id")]), steps[0]);
}

#[test]
fn a_recorded_file_is_restored_byte_for_byte() {
    let repo = Repo::working_on("Add retry logic");
    for (name, content) in [
        ("plain", "no newline at the end".repeat(500)),
        ("coloured", "\u{1b}[31mred\u{1b}[0m \u{7f}\n".repeat(500)),
    ] {
        repo.write(name, &content);
        let head = repo.ok(["stage", "observe", "file-write", name])["task"]["head"].clone();
        let step = repo.ok(["show", head.as_str().expect("an id")]);
        let blob =
            step["content"]["payload"][0]["content"]["blob"].as_str().expect("a blob").to_owned();
        let (told, printed) =
            (repo.ok(["show", &blob])["content"].clone(), repo.says(["show", &blob]));
        assert!(
            told == content.as_str(),
            "{name} as JSON: {} bytes of {}",
            told.as_str().map_or(0, str::len),
            content.len()
        );
        assert!(
            printed == content,
            "{name} in a pipe: {} bytes of {}",
            printed.len(),
            content.len()
        );
    }
}
