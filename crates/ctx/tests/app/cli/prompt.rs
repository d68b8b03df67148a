//! Prompts with two choices: opened by a new task or a long idle time, durable, answered once (R79,
//! R83, R88-R99).

use serde_json::{Value, json};

use crate::harness::repo::Repo;

const NEW: &str = "Different topic: write the changelog";

/// A task with work in it, and a message that asks for something else.
fn asked() -> (Repo, Value) {
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "note", "The client has one call site"]);
    let answer = repo.ok(["stage", "message", NEW]);
    (repo, answer)
}

#[test]
fn a_new_task_opens_a_prompt_while_a_task_is_open() {
    // R79, R88, R94
    let (repo, answer) = asked();
    assert_eq!((&answer["intent"], &answer["action"]), (&json!("new_task"), &json!("prompt")));
    let prompt = &answer["pending_prompt"];
    assert_eq!(
        prompt["text"],
        "You have unfinished work on: Add retry logic\nA) Save that and start on your new \
         request\nB) Continue where we left off"
    );
    assert_eq!(
        (&prompt["kind"], &prompt["choices"]),
        (&json!("new_task"), &json!(["start_fresh", "continue"]))
    );
    assert_eq!(
        repo.ok(["stage", "status"])["pending_prompt"],
        *prompt,
        "the question outlives the process"
    );
    assert_eq!(repo.ok(["status"])["pending_prompt"], *prompt);
    assert_eq!((repo.state().as_str(), repo.commits().len()), ("running", 0));
}

#[test]
fn starting_fresh_seals_the_work_and_starts_the_kept_message() {
    // R97, R111, R112
    let (repo, _) = asked();
    let answer = repo.ok(["stage", "choose", "start_fresh"]);
    assert_eq!(answer["commit"]["message"], "Saved before starting new task: Add retry logic");
    assert_eq!(
        answer["commit"]["commit_type"],
        json!({"name": "interrupted_by_new_task", "new_task_summary": NEW})
    );
    assert_eq!(
        (&answer["task"]["description"], &answer["pending_prompt"]),
        (&json!(NEW), &Value::Null)
    );
    assert_eq!((repo.task()["description"].clone(), repo.commits().len()), (json!(NEW), 1));
}

#[test]
fn continuing_keeps_the_task_and_the_kept_message() {
    // R96
    let (repo, _) = asked();
    let task = repo.task()["id"].clone();
    let answer = repo.ok(["stage", "choose", "continue"]);
    assert_eq!(
        (&answer["task"]["id"], &answer["commit"], &answer["pending_prompt"]),
        (&task, &Value::Null, &Value::Null)
    );
    assert!(repo.notes().last().is_some_and(|note| note.contains(NEW)), "{:?}", repo.notes());
    assert_eq!((repo.state().as_str(), repo.commits().len()), ("running", 0));
}

#[test]
fn a_prompt_is_answered_once() {
    let (repo, _) = asked();
    repo.ok(["stage", "choose", "continue"]);
    for choice in ["continue", "start_fresh"] {
        let (exit, error) = repo.refuses(["stage", "choose", choice]);
        assert_eq!((exit, &error["code"]), (1, &json!("no_prompt")));
    }
}

#[test]
fn a_letter_or_the_text_of_a_choice_answers_the_prompt() {
    for (text, description) in [
        ("A", NEW),
        ("b)", "Add retry logic"),
        ("2", "Add retry logic"),
        ("start fresh", NEW),
        ("Continue", "Add retry logic"),
    ] {
        let (repo, _) = asked();
        let answer = repo.ok(["stage", "message", text]);
        assert_eq!(
            (&answer["task"]["description"], &answer["pending_prompt"]),
            (&json!(description), &Value::Null),
            "{text}"
        );
    }
}

#[test]
fn any_other_message_is_refused_until_the_prompt_is_answered() {
    let (repo, _) = asked();
    let (exit, error) = repo.refuses(["stage", "message", "also add logging"]);
    assert_eq!((exit, &error["code"]), (1, &json!("prompt_open")));
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("Add retry logic")),
        "the message has the prompt: {error}"
    );
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("stage choose")), "{error}");
}

#[test]
fn the_agent_can_record_while_the_prompt_is_open() {
    let (repo, answer) = asked();
    repo.ok(["stage", "note", "Meanwhile the tests pass"]);
    assert_eq!(repo.ok(["stage", "status"])["pending_prompt"], answer["pending_prompt"]);
    repo.ok(["stage", "choose", "start_fresh"]);
    assert_eq!(repo.commits()[0]["steps"]["count"], 4);
}

#[test]
fn a_prompt_is_closed_with_its_task() {
    // Ending the task answers the prompt; the message that the prompt kept must not be lost.
    let endings: [&[&[&str]]; 3] = [
        &[&["stage", "compact"]],
        &[&["stage", "abort"]],
        &[&["stage", "done", "Retries"], &["stage", "confirm"]],
    ];
    for ending in endings {
        let (repo, _) = asked();
        for verb in ending {
            repo.ok(*verb);
        }
        let status = repo.ok(["stage", "status"]);
        assert_eq!(
            (&status["task"], &status["pending_prompt"]),
            (&Value::Null, &Value::Null),
            "{ending:?}"
        );
        let (_, error) = repo.refuses(["stage", "choose", "continue"]);
        assert_eq!(error["code"], "no_prompt", "{ending:?}");
    }
}

#[test]
fn the_message_that_a_prompt_kept_is_never_lost() {
    for verb in ["compact", "abort"] {
        let (repo, _) = asked();
        repo.ok(["stage", verb]);
        let hits = repo.ok(["search", "changelog"]);
        assert_ne!(
            hits["hits"],
            json!([]),
            "after {verb} nobody remembers that the user asked for something"
        );
    }
}

#[test]
fn without_prompts_a_task_with_work_is_sealed() {
    // R79, R83, R112
    let repo = Repo::working_on("Add retry logic").with("CTX_DEFAULTS_ON_NEW_TASK", "auto");
    repo.ok(["stage", "note", "The client has one call site"]);
    let answer = repo.ok(["stage", "message", NEW]);
    assert_eq!((&answer["action"], &answer["pending_prompt"]), (&json!("start"), &Value::Null));
    assert_eq!(answer["commit"]["message"], "Interrupted by new task");
    assert_eq!(
        answer["commit"]["commit_type"],
        json!({"name": "interrupted_by_new_task", "new_task_summary": NEW})
    );
    assert_eq!(repo.task()["description"], NEW);
}

#[test]
fn without_prompts_an_empty_task_makes_no_commit() {
    // R83: messages of the user and changes of state are not work.
    let repo = Repo::working_on("Add retry logic");
    repo.configure("[defaults]\non_new_task = \"auto\"\n");
    repo.ok(["stage", "ask", "Which?"]);
    repo.ok(["stage", "answer", "That one"]);
    let old = repo.task()["id"].clone();
    let answer = repo.ok(["stage", "message", NEW]);
    assert_eq!((&answer["action"], &answer["commit"]), (&json!("start"), &Value::Null));
    assert_eq!((repo.task()["description"].clone(), repo.commits().len()), (json!(NEW), 0));
    let shown = repo.ok(["show", old.as_str().expect("an id")]);
    assert_eq!(shown["task"]["state"]["name"], "aborted", "the old task ended: {shown}");
    repo.assert_whole();
}
