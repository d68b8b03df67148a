//! `classify`: prints the intent of a message and changes nothing.

use serde_json::json;

use crate::harness::repo::Repo;

#[test]
fn the_intent_of_a_text_depends_on_the_state_of_the_task() {
    // R61, R63-R72
    let rows = [
        ("yes", "awaiting_user", "response"),
        ("yes", "pending_complete", "confirmation"),
        ("Option B", "awaiting_user", "response"),
        ("Make it 5 not 3", "running", "modification"),
        ("Perfect", "pending_complete", "confirmation"),
        ("done", "pending_complete", "confirmation"),
        ("Looks good but also add logging", "pending_complete", "modification"),
        ("Never mind", "running", "abandon"),
        ("Different topic: how is the build?", "running", "new_task"),
        ("Now add pooling", "none", "new_task"),
        ("Show me the code", "interrupted", "clarification"),
        ("hmm", "running", "unclear"),
    ];
    let repo = Repo::bare();
    for (text, state, intent) in rows {
        let classification =
            repo.ok(["classify", text, "--state", state, "--task", "Add retry logic"]);
        assert_eq!(classification["intent"], intent, "{text} in {state}: {classification}");
        assert!(
            classification["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
            "{classification}"
        );
    }
}

#[test]
fn classify_needs_no_store_and_creates_none() {
    let repo = Repo::bare();
    assert_eq!(repo.ok(["classify", "Add retry logic"])["intent"], "new_task");
    assert!(!repo.data().exists() && !repo.beside("home").exists());
}

#[test]
fn classify_reads_the_open_task_and_changes_nothing() {
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "ask", "Exponential or fixed?"]);
    let before = repo.everything();
    assert_eq!(repo.ok(["classify", "yes"])["intent"], "response");
    assert_eq!(
        repo.ok(["classify", "yes", "--state", "pending_complete"])["intent"],
        "confirmation"
    );
    assert_eq!(repo.ok(["classify", "yes"]), repo.ok(["classify", "yes"]));
    assert_eq!(repo.everything(), before);
}

#[test]
fn classify_reads_a_message_from_standard_input() {
    let repo = Repo::bare();
    let output = repo.piped(
        ["--json", "classify", "-", "--state", "pending_complete"],
        "Perfekt 👍\n".as_bytes(),
    );
    assert_eq!(crate::harness::repo::document(&output)["intent"], "confirmation");
}

#[test]
fn an_unknown_state_is_refused_with_the_known_ones() {
    let (exit, error) = Repo::bare().fails(["classify", "yes", "--state", "asleep"]);
    assert_eq!(exit, 2);
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("asleep") && message.contains("pending_complete"), "{message}");
}

#[test]
fn an_unreadable_store_is_not_treated_as_a_missing_store() {
    // Without the task the classification would be wrong, and the output would not show why.
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "done", "Retries"]);
    assert_eq!(repo.ok(["classify", "also add logging"])["intent"], "modification");
    repo.configure("[clocks");
    let (exit, error) = repo.fails(["classify", "also add logging"]);
    assert_eq!((exit, &error["code"]), (2, &json!("bad_config")));
}
