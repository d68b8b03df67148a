//! `stage message`: a user's message, classified and handled (R60-R84).

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// The state in which a case starts.
fn at(state: &str) -> Repo {
    let repo = Repo::new();
    if state != "none" {
        repo.ok(["stage", "start", "Add retry logic to the HTTP client"]);
        repo.ok(["stage", "note", "The client has one call site"]);
    }
    match state {
        "awaiting_user" => {
            repo.ok(["stage", "ask", "Should I use exponential or fixed intervals?"])
        }
        "interrupted" => repo.ok(["stage", "interrupt", "make it 4"]),
        "pending_complete" => repo.ok(["stage", "done", "Added exponential backoff"]),
        _ => Value::Null,
    };
    repo
}

#[test]
fn each_row_of_the_message_table_holds() {
    // state, message, intent, action, state after it
    let rows = [
        ("awaiting_user", "Yes", "response", "respond", "running"), // R64, R66, R73
        ("awaiting_user", "Use exponential", "response", "respond", "running"), // R66
        ("awaiting_user", "Never mind", "abandon", "abandon", "none"), // R25, R69
        // R71, R81
        ("awaiting_user", "What does that mean?", "clarification", "answer", "awaiting_user"),
        ("running", "Make it 5 not 3", "modification", "modify", "interrupted"), // R67, R75
        ("running", "Also add logging", "modification", "modify", "interrupted"), // R7, R67
        ("running", "Looks good", "confirmation", "acknowledge", "running"),     // R77
        ("running", "Cancel", "abandon", "abandon", "none"),                     // R23, R69, R78
        ("running", "Show me the code", "clarification", "answer", "running"),   // R71, R81
        ("interrupted", "Also add logging", "modification", "modify", "interrupted"), // R75
        ("interrupted", "Stop", "abandon", "abandon", "none"),                   // R33, R69
        ("pending_complete", "yes", "confirmation", "complete", "none"),         // R64, R76
        ("pending_complete", "Ship it", "confirmation", "complete", "none"),     // R68
        (
            "pending_complete",
            "Looks good but also add logging",
            "modification",
            "modify",
            "running",
        ), // R28, R72
        ("pending_complete", "Stop", "abandon", "abandon", "none"),              // R29
        ("none", "Now add pooling", "new_task", "start", "running"),             // R70, R80
        ("none", "thanks", "confirmation", "acknowledge", "none"),               // R77
    ];
    for (state, message, intent, action, after) in rows {
        let repo = at(state);
        let answer = repo.ok(["stage", "message", message]);
        let row = format!("{state} + {message}: {answer}");
        assert_eq!(
            (&answer["intent"], &answer["action"]),
            (&json!(intent), &json!(action)),
            "{row}"
        );
        assert_eq!(repo.state(), after, "{row}");
        assert_eq!(answer["task"].is_null(), after == "none", "{row}");
        assert_eq!(answer["commit"].is_null(), !["abandon", "complete"].contains(&action), "{row}");
        assert_eq!(answer["pending_prompt"], Value::Null, "{row}");
    }
}

#[test]
fn a_message_that_changes_nothing_records_nothing() {
    // R77, R81
    let repo = at("running");
    let before = repo.everything();
    repo.ok(["stage", "message", "Looks good"]);
    repo.ok(["stage", "message", "What does that mean?"]);
    assert_eq!(repo.everything(), before);
}

#[test]
fn the_text_of_a_change_is_noted() {
    // R39, R41, R44, R73, R75
    for (state, message, note) in [
        ("awaiting_user", "Exponential", "User response: Exponential"),
        ("running", "Make it 5 not 3", "User intervention: Make it 5 not 3"),
        ("pending_complete", "Also add logging", "User requested continuation: Also add logging"),
    ] {
        let repo = at(state);
        repo.ok(["stage", "message", message]);
        assert_eq!(repo.notes().last().map(String::as_str), Some(note), "{state}");
    }
}

#[test]
fn an_unclear_message_gets_a_question() {
    // R60, R82
    let repo = at("running");
    let answer = repo.ok(["stage", "message", "hmm"]);
    assert_eq!((&answer["intent"], &answer["action"]), (&json!("unclear"), &json!("ask")));
    assert_eq!(answer["text"], "Are you continuing the current task or starting something new?");
    assert_eq!(repo.state(), "running");
}

#[test]
fn an_abandoned_task_keeps_its_work() {
    // R78, R84, R112
    let repo = at("running");
    let answer = repo.ok(["stage", "message", "never mind"]);
    assert_eq!(answer["commit"]["message"], "Abandoned by user");
    assert_eq!(answer["commit"]["commit_type"], json!({"name": "abandoned"}));
    assert_eq!(repo.commits().len(), 1);
}

#[test]
fn a_very_long_message_becomes_a_task_with_a_short_name_and_the_complete_text() {
    let repo = Repo::new();
    let long = format!("Please add retry logic.\n{}", "The details matter. ".repeat(5000));
    let output = repo.piped(["--json", "stage", "message", "-"], long.as_bytes());
    let answer = crate::harness::repo::document(&output);
    assert_eq!(answer["action"], "start", "{answer}");
    let description = answer["task"]["description"].as_str().expect("a description");
    assert!(
        description.starts_with("Please add retry logic.") && description.len() < 300,
        "{description}"
    );
    assert!(repo.notes() == [long], "the whole message is noted");
}

#[test]
fn a_message_in_another_language_is_understood() {
    // R63
    for (state, message, intent) in [
        ("pending_complete", "Perfekt, danke!", "confirmation"),
        ("pending_complete", "完璧です", "confirmation"),
        ("running", "annule", "abandon"),
        ("pending_complete", "Gut, aber füge auch Logging hinzu", "modification"),
    ] {
        let answer = at(state).ok(["stage", "message", message]);
        assert_eq!(answer["intent"], intent, "{message}: {answer}");
    }
}
