//! Every transition of a task: the allowed ones, and the error code of the refused ones (R19-R35).

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// A project whose open task is in this state.
fn at(state: &str) -> Repo {
    let repo = Repo::new();
    if state == "none" {
        return repo;
    }
    repo.ok(["stage", "start", "Add retry logic"]);
    match state {
        "running" => Value::Null,
        "awaiting_user" => repo.ok(["stage", "ask", "Which?"]),
        "interrupted" => repo.ok(["stage", "interrupt", "wait"]),
        "pending_complete" => repo.ok(["stage", "done", "Retries three times"]),
        other => unreachable!("{other} is no open state"),
    };
    assert_eq!(repo.state(), state);
    repo
}

const OPEN: [&str; 4] = ["running", "awaiting_user", "interrupted", "pending_complete"];

/// The verbs that change the state of a task, and the new state.
const MOVES: [(&[&str], &str); 7] = [
    (&["stage", "ask", "Which?"], "awaiting_user"),
    (&["stage", "done", "All of it"], "pending_complete"),
    (&["stage", "interrupt", "also log"], "interrupted"),
    (&["stage", "answer", "that one"], "running"),
    (&["stage", "incorporate"], "running"),
    (&["stage", "more", "also log"], "running"),
    (&["stage", "confirm"], "complete"),
];

/// The states that each verb accepts.
fn may(verb: &str, from: &str) -> bool {
    match verb {
        "ask" | "done" => from == "running", // R20, R21
        // R22; further words are collected
        "interrupt" => from == "running" || from == "interrupted",
        "answer" => from == "awaiting_user",              // R24
        "incorporate" => from == "interrupted",           // R26
        "more" | "confirm" => from == "pending_complete", // R27, R28
        other => unreachable!("{other} moves nothing"),
    }
}

#[test]
fn a_task_makes_only_the_transitions_of_the_table() {
    // R20-R22, R24, R26-R28, R32
    for from in OPEN {
        for (verb, to) in MOVES {
            let repo = at(from);
            if !may(verb[1], from) {
                let (exit, error) = repo.refuses(verb);
                assert_eq!(
                    (exit, &error["code"]),
                    (1, &json!("invalid_transition")),
                    "{from} {verb:?}: {error}"
                );
                assert_eq!((&error["from"], &error["to"]), (&json!(from), &json!(to)), "{verb:?}");
            } else if to == "complete" {
                assert_eq!(repo.ok(verb)["commit"]["state"]["name"], "complete");
                assert_eq!(repo.state(), "none");
            } else {
                assert_eq!(repo.ok(verb)["task"]["state"]["name"], to, "{from} {verb:?}");
                assert_eq!(repo.state(), to, "the next process sees it too");
            }
        }
    }
}

#[test]
fn without_a_task_every_verb_but_start_is_refused() {
    // R19, R32, R115
    let repo = at("none");
    let verbs: [&[&str]; 15] = [
        &["stage", "ask", "q"],
        &["stage", "done", "s"],
        &["stage", "interrupt", "m"],
        &["stage", "answer", "a"],
        &["stage", "incorporate"],
        &["stage", "more", "m"],
        &["stage", "confirm"],
        &["stage", "compact"],
        &["stage", "abort"],
        &["stage", "flush"],
        &["stage", "recover"],
        &["stage", "note", "n"],
        &["stage", "observe", "plan", "p"],
        &["stage", "relate", "file:a", "calls", "file:b"],
        &["stage", "export"],
    ];
    for verb in verbs {
        let (exit, error) = repo.refuses(verb);
        assert_eq!((exit, &error["code"]), (1, &json!("no_task")), "{verb:?}");
        assert!(
            error["hint"].as_str().is_some_and(|hint| hint.contains("ctx stage start")),
            "{verb:?}: {error}"
        );
    }
    assert_eq!(
        repo.ok(["stage", "start", "Add retry logic"])["task"]["state"],
        json!({"name": "running"})
    );
}

#[test]
fn a_second_task_is_refused_while_one_is_open() {
    // R35
    for state in OPEN {
        let (exit, error) = at(state).refuses(["stage", "start", "Another"]);
        assert_eq!((exit, &error["code"]), (1, &json!("task_open")), "{state}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("Add retry logic")),
            "{error}"
        );
    }
}

#[test]
fn any_open_task_can_be_aborted_and_is_sealed_as_abandoned() {
    // R23, R25, R29, R31, R33, R78, R84, R112
    for state in OPEN {
        let repo = at(state);
        repo.ok(["stage", "note", "half of it"]);
        let commit = repo.ok(["stage", "abort"])["commit"].clone();
        assert_eq!(commit["commit_type"], json!({"name": "abandoned"}), "{state}");
        assert_eq!(
            (&commit["message"], &commit["state"]["name"]),
            (&json!("Abandoned by user"), &json!("aborted")),
            "{state}"
        );
        assert_eq!((repo.state().as_str(), repo.commits().len()), ("none", 1), "{state}");
        assert_eq!(
            repo.ok(["search", "half"])["hits"].as_array().map(Vec::len),
            Some(1),
            "the work is kept"
        );
    }
}

#[test]
fn the_reason_of_an_abort_is_kept() {
    // R54
    let repo = at("running");
    let commit = repo.ok(["stage", "abort", "--reason", "the server went away"])["commit"].clone();
    assert_eq!(commit["state"], json!({"name": "aborted", "reason": "the server went away"}));
    assert!(
        commit["message"].as_str().is_some_and(|text| text.contains("Abandoned by user")),
        "{commit}"
    );
}

#[test]
fn a_user_confirmation_completes_an_open_task_as_the_table_allows() {
    // R30, R34, R114; design: compact passes through complete and seals as normal
    for state in OPEN {
        let repo = at(state);
        let commit = repo.ok(["stage", "compact"])["commit"].clone();
        assert_eq!(commit["commit_type"], json!({"name": "normal"}), "{state}");
        assert_eq!(commit["state"], json!({"name": "complete"}), "{state}");
        let expected =
            if state == "pending_complete" { "Retries three times" } else { "Add retry logic" };
        assert_eq!(commit["message"], expected, "{state}");
        assert_eq!((repo.state().as_str(), repo.commits().len()), ("none", 1), "{state}");
        assert_eq!(
            repo.notes().last().map(String::as_str),
            Some("User confirmed task complete"),
            "{state}"
        );
        repo.assert_whole();
    }
}

#[test]
fn a_commit_message_is_the_last_summary_or_the_given_text() {
    let repo = at("pending_complete");
    repo.ok(["stage", "more", "also log"]);
    assert_eq!(repo.ok(["stage", "compact"])["commit"]["message"], "Retries three times");
    repo.ok(["stage", "start", "Next"]);
    assert_eq!(
        repo.ok(["stage", "compact", "-m", "My own words"])["commit"]["message"],
        "My own words"
    );
}

#[test]
fn an_error_about_no_task_names_the_task_of_a_conversation() {
    let repo = Repo::new();
    let (_, error) = repo.fails(["stage", "seal"]);
    assert_eq!(error["hint"], "start a task with `ctx stage start TASK`");
    repo.ok(["run", "Please add retry logic to the client"]);
    let listed = repo.ok(["session", "list"]);
    let session = listed["sessions"][0].clone();
    let task = session["task"]["description"].as_str().expect("an open task");
    let (exit, error) = repo.fails(["stage", "seal"]);
    assert_eq!((exit, &error["code"]), (1, &json!("no_task")));
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(&format!("a conversation has one: `{task}` in ")), "{message}");
    // The command of the hint works.
    let hint = error["hint"].as_str().expect("a hint");
    let id = hint.rsplit("--session ").next().and_then(|rest| rest.split('`').next());
    let id = id.expect("a session");
    assert!(hint.contains(&format!("`ctx session confirm {id}`")), "{hint}");
    assert_eq!(repo.fails(["stage", "seal", "--session", "nobody"]).1["code"], "no_session");
    let sealed = repo.ok(["stage", "seal", "--session", id]);
    assert_eq!(sealed["commit"]["session"], session["id"]);
    // Several are counted.
    for _ in 0..2 {
        repo.ok(["run", "Please add retry logic to the client"]);
    }
    let (_, error) = repo.fails(["stage", "abort"]);
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("2 conversations have one: "), "{message}");
}
