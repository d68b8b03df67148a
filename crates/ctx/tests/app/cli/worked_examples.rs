//! Worked examples from the first message to the commit, one process per line.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

fn message(repo: &Repo, text: &str) -> (Value, Value, String) {
    let answer = repo.ok(["stage", "message", text]);
    (answer["intent"].clone(), answer["action"].clone(), repo.state())
}

#[test]
fn the_worked_example_of_five_turns_ends_in_one_commit_and_a_new_task() {
    // R1-R5, R7, R9, R12, R47, R50, R64, R114
    let repo = Repo::new();
    repo.write("http.rs", "fn retry() {}");

    assert_eq!(
        message(&repo, "Add retry logic to the HTTP client"),
        (json!("new_task"), json!("start"), "running".into())
    );
    let task = repo.task()["id"].clone();
    repo.ok(["stage", "observe", "file-read", "http.rs"]);
    repo.ok(["stage", "note", "The client has one call site"]);
    repo.ok(["stage", "ask", "Should I use exponential backoff or fixed intervals?"]);
    assert_eq!(repo.state(), "awaiting_user");

    assert_eq!(
        message(&repo, "Exponential"),
        (json!("response"), json!("respond"), "running".into())
    );
    repo.ok(["stage", "observe", "file-write", "http.rs"]);
    repo.ok(["stage", "observe", "command", "--exit", "0", "--", "cargo", "test"]);
    repo.ok(["stage", "done", "Added exponential backoff with 3 retries"]);
    assert_eq!(repo.state(), "pending_complete");

    assert_eq!(
        message(&repo, "Make it 5 retries instead of 3"),
        (json!("modification"), json!("modify"), "running".into())
    );
    repo.ok(["stage", "observe", "file-write", "http.rs"]);
    repo.ok(["stage", "done", "Added exponential backoff with 5 retries"]);
    assert_eq!(repo.task()["id"], task, "a change is no new task");
    assert_eq!(repo.commits(), Vec::<Value>::new(), "nothing is sealed before the user agrees");

    let fourth = repo.ok(["stage", "message", "Perfect, thanks!"]);
    assert_eq!(
        (&fourth["intent"], &fourth["action"], &fourth["task"]),
        (&json!("confirmation"), &json!("complete"), &Value::Null)
    );
    let commits = repo.commits();
    assert_eq!(commits.len(), 1);
    let commit = &commits[0];
    assert_eq!(commit["id"], fourth["commit"]["id"]);
    assert_eq!(commit["task"], task);
    assert_eq!(commit["message"], "Added exponential backoff with 5 retries");
    assert_eq!(commit["commit_type"], json!({"name": "normal"}));
    assert_eq!(commit["files"][0]["path"], "http.rs");
    assert_eq!(repo.ok(["stage", "status"])["task"], Value::Null);

    assert_eq!(
        message(&repo, "Now add connection pooling"),
        (json!("new_task"), json!("start"), "running".into())
    );
    assert_ne!(repo.task()["id"], task);
    assert_eq!(repo.task()["description"], "Now add connection pooling");
    assert_eq!(repo.commits(), commits, "still one commit");
    assert_eq!(
        repo.steps()[0]["content"]["base"],
        commit["id"],
        "the next task is based on the commit"
    );
    assert_eq!(
        repo.notes(),
        [
            "The client has one call site",
            "Question for user: Should I use exponential backoff or fixed intervals?",
            "User response: Exponential",
            "User requested continuation: Make it 5 retries instead of 3",
            "User confirmed task complete",
        ]
    );
    repo.assert_whole();
}

#[test]
fn a_failed_command_and_another_approach_stay_in_the_task() {
    // R3, R8, R42
    let repo = Repo::working_on("Make the tests pass");
    let task = repo.task()["id"].clone();
    repo.ok(["stage", "observe", "command", "--exit", "101", "--", "cargo", "test"]);
    assert_eq!(message(&repo, "try a different approach").2, "interrupted");
    let taken = repo.ok(["stage", "incorporate"]);
    assert_eq!(taken["user_message"], "try a different approach");
    assert_eq!(
        (repo.task()["id"].clone(), repo.state(), repo.commits().len()),
        (task, "running".to_owned(), 0)
    );
}

#[test]
fn the_next_task_finds_the_work_of_the_last_one() {
    // R10
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "note", "The backoff doubles up to thirty seconds"]);
    let sealed = repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "Add pooling"]);
    let hits = repo.ok(["search", "backoff", "doubles"]);
    assert_eq!(hits["hits"].as_array().map(Vec::len), Some(1), "{hits}");
    let hit = &hits["hits"][0];
    assert_eq!((&hit["kind"], &hit["outcome"]), (&json!("task"), &json!("normal")), "{hit}");
    assert_eq!(hit["task"], sealed["commit"]["task"]);
    assert!(repo.ok(["show", hit["id"].as_str().expect("an id")]).is_object());
}

#[test]
fn commits_of_one_project_form_a_chain() {
    let repo = Repo::new();
    for task in ["one", "two", "three"] {
        repo.ok(["stage", "start", task]);
        repo.ok(["stage", "compact"]);
    }
    let commits = repo.commits();
    let messages: Vec<&Value> = commits.iter().map(|commit| &commit["message"]).collect();
    assert_eq!(messages, ["three", "two", "one"]);
    assert_eq!(commits[0]["parents"], json!([commits[1]["id"]]));
    assert_eq!(commits[1]["parents"], json!([commits[2]["id"]]));
    assert_eq!(commits[2]["parents"], json!([]));
}
