//! Usage errors: exit code 2, and a message that names the wrong argument.

use serde_json::json;

use crate::harness::repo::Repo;

#[test]
fn an_unknown_verb_option_choice_or_shell_is_named() {
    let repo = Repo::working_on("Add retry logic");
    let wrong: [(&[&str], &str); 8] = [
        (&["frobnicate"], "frobnicate"),
        (&["stage", "frobnicate"], "frobnicate"),
        (&["stage", "note", "x", "--loud"], "--loud"),
        (&["stage", "choose", "maybe"], "start_fresh"),
        (&["completions", "tcsh"], "tcsh"),
        (&["gc", "--grace", "5w"], "5w"),
        (&["stage", "note", "two", "texts"], "texts"),
        (&["stage", "observe", "command", "ls"], "ls"),
    ];
    for (arguments, named) in wrong {
        let (exit, error) = repo.refuses(arguments);
        assert_eq!((exit, &error["code"]), (2, &json!("wrong_use")), "{arguments:?}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains(named)),
            "{arguments:?}: {error}"
        );
    }
}

#[test]
fn a_missing_argument_is_named() {
    let repo = Repo::working_on("Add retry logic");
    let missing: [(&[&str], &str); 6] = [
        (&["stage", "note"], "<TEXT>"),
        (&["stage", "start"], "<TASK>"),
        (&["stage", "relate", "file:a"], "<LABEL>"),
        (&["show"], "<ID>"),
        (&["backup"], "<FILE>"),
        (&["stage", "observe", "command"], "<CMD>"),
    ];
    for (arguments, named) in missing {
        let (exit, error) = repo.refuses(arguments);
        assert_eq!(exit, 2);
        assert!(error.to_string().contains(named), "{arguments:?}: {named} is not in {error}");
    }
}

#[test]
fn without_json_the_same_error_is_printed_as_text() {
    let repo = Repo::new();
    let output = repo.run(["stage", "note", "x"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        text.contains("no task is open")
            && text.contains("no_task")
            && text.contains("ctx stage start"),
        "{text}"
    );
    let output = repo.run(["stage", "note"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("<TEXT>"));
}

#[test]
fn a_refusal_does_not_call_an_allowed_transition_invalid() {
    // R26, R28: interrupted and pending_complete tasks can become running, but not by these verbs.
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "done", "Retries"]);
    let (_, error) = repo.refuses(["stage", "incorporate"]);
    assert_ne!(
        error["message"], "invalid task transition: pending_complete to running",
        "`ctx stage more` does just that"
    );
}

#[test]
fn json_is_accepted_anywhere_before_an_observed_command() {
    let repo = Repo::working_on("Add retry logic");
    for arguments in [
        vec!["--json", "stage", "status"],
        vec!["stage", "--json", "status"],
        vec!["stage", "status", "--json"],
    ] {
        let output = repo.run(&arguments);
        assert_eq!(
            crate::harness::repo::document(&output)["task"]["description"],
            "Add retry logic"
        );
    }
    let output = repo.run(["stage", "frobnicate", "--json"]);
    assert_eq!(crate::harness::repo::failure(&output).0, 2);
}
