//! Notes, steps and states that each transition records (R36-R49).

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// Takes a task through every state once.
fn tour() -> Repo {
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "ask", "Which backoff?"]);
    repo.ok(["stage", "answer", "Exponential"]);
    repo.ok(["stage", "interrupt", "five times"]);
    repo.ok(["stage", "interrupt", "and log it"]);
    repo.ok(["stage", "incorporate"]);
    repo.ok(["stage", "done", "Retries"]);
    repo.ok(["stage", "more", "not quite, also test it"]);
    repo.ok(["stage", "done", "Retries, tested"]);
    repo
}

#[test]
fn each_transition_writes_its_note() {
    // R36, R37, R39, R41, R43, R44
    let repo = tour();
    repo.ok(["stage", "confirm"]);
    assert_eq!(
        repo.notes(),
        [
            "Question for user: Which backoff?",
            "User response: Exponential",
            "User intervention: five times",
            "User intervention: and log it",
            "User requested continuation: not quite, also test it",
            "User confirmed task complete",
        ]
    );
    assert_eq!(repo.commits()[0]["message"], "Retries, tested");
}

#[test]
fn a_state_has_its_text_and_its_time() {
    // R17, R18, R36
    let repo = Repo::working_on("Add retry logic");
    let asked = repo.ok(["stage", "ask", "Which backoff?"])["task"]["state"].clone();
    assert_eq!(
        (&asked["name"], &asked["question"]),
        (&json!("awaiting_user"), &json!("Which backoff?"))
    );
    assert!(
        asked["asked_at"].as_str().is_some_and(|at| at.ends_with('Z') && at.len() >= 20),
        "RFC 3339: {asked}"
    );
    repo.ok(["stage", "answer", "Exponential"]);
    let said = repo.ok(["stage", "interrupt", "five times"])["task"]["state"].clone();
    assert_eq!(said, json!({"name": "interrupted", "user_message": "five times"}));
    repo.ok(["stage", "interrupt", "and log it"]);
    assert_eq!(
        repo.ok(["stage", "incorporate"])["user_message"],
        "five times\nand log it",
        "R42: no message is lost"
    );
    let done = repo.ok(["stage", "done", "Retries"])["task"]["state"].clone();
    assert_eq!(done, json!({"name": "pending_complete", "summary": "Retries"}));
}

#[test]
fn every_step_has_the_previous_one_as_parent_and_the_state() {
    // R37, R38, R48, R49
    let repo = tour();
    let steps = repo.steps();
    assert_eq!(repo.task()["steps"], steps.len());
    let of = |field: &str| -> Vec<Value> {
        steps.iter().map(|step| step["content"][field].clone()).collect()
    };
    let states: Vec<Value> = of("state").iter().map(|state| state["name"].clone()).collect();
    assert_eq!(
        states,
        [
            "running",
            "awaiting_user",
            "running",
            "interrupted",
            "interrupted",
            "running",
            "pending_complete",
            "running",
            "pending_complete"
        ]
    );
    assert_eq!(of("kind")[0], "session_start");
    assert_eq!(of("state")[1]["question"], "Which backoff?");
    assert!(of("state")[1]["asked_at"].is_i64(), "stored as Unix seconds");
    let parents = of("parent");
    assert_eq!(parents[0], Value::Null);
    for (at, step) in steps.iter().enumerate().skip(1) {
        assert_eq!(parents[at], steps[at - 1]["id"]);
        assert_eq!(
            step["refers_to"],
            json!([steps[at - 1]["id"]]),
            "show lists every id it refers to"
        );
    }
    assert!(of("timestamp").iter().all(Value::is_i64));
    assert!(of("payload").iter().all(Value::is_array));
    let task = repo.task();
    assert!(of("task").iter().all(|id| *id == task["id"]));
    assert!(of("session").iter().all(|id| *id == task["session"]));
}

#[test]
fn an_answer_mentions_its_task() {
    // R40
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "ask", "Which backoff?"]);
    let head = repo.ok(["stage", "answer", "Exponential"])["task"]["head"].clone();
    let payload = repo.ok(["show", head.as_str().expect("an id")])["content"]["payload"].clone();
    let entries = payload.as_array().expect("entries");
    let note = entries.iter().find(|entry| entry["type"] == "note").expect("the response is noted");
    let edge =
        entries.iter().find(|entry| entry["type"] == "relation").expect("the edge is recorded");
    assert_eq!(edge["label"], "mentions");
    assert_eq!(edge["from"], format!("note:{}", note["id"].as_str().expect("a note's id")));
    assert_eq!(edge["to"], format!("task:{}", repo.task()["id"].as_str().expect("a task's id")));
}

#[test]
fn stage_refers_to_the_newest_step_and_head_to_the_newest_commit() {
    // R37, R50, R51
    let repo = tour();
    let target = |name: &str| -> Option<String> {
        repo.sql().text(&format!("SELECT target FROM refs WHERE name LIKE '{name}:%'"))
    };
    assert_eq!(target("STAGE").as_deref(), repo.task()["head"].as_str());
    assert_eq!(target("HEAD"), None);
    let commit = repo.ok(["stage", "confirm"])["commit"]["id"].clone();
    assert_eq!(target("HEAD").as_deref(), commit.as_str());
    assert_eq!(target("STAGE"), None);
}

#[test]
fn a_flush_without_new_work_changes_nothing() {
    // R51, R56
    let repo = tour();
    let before = repo.everything();
    assert_eq!(repo.ok(["stage", "flush"])["task"], repo.task());
    assert_eq!(repo.everything(), before);
}
