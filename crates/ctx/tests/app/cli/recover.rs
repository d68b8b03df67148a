//! `stage recover`: the text for a user who returns (R52, R98-R105).

use serde_json::{Value, json};

use crate::cli::stale_task::{left_for, touch};
use crate::harness::repo::Repo;

const DAY_MS: i64 = 86_400_000;

#[track_caller]
fn reads(repo: &Repo, expected: &[&str]) {
    let before = repo.everything();
    let text = repo.ok(["stage", "recover"])["text"].as_str().expect("a text").to_owned();
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(repo.says(["stage", "recover"]).trim_end(), text, "a person reads the same");
    assert_eq!(repo.everything(), before, "coming back to a fresh task changes nothing");
}

#[test]
fn a_running_task_shows_its_work() {
    // R53, R103, R104
    let repo = left_for(0);
    repo.ok(["stage", "observe", "command", "--exit", "0", "--", "cargo", "test"]);
    reads(
        &repo,
        &[
            "Welcome back! I was working on: Add retry logic",
            "The task was interrupted. Progress so far:",
            "1 command run",
            "The client has one call site",
            "ran cargo test (exit 0)",
            "Should I continue?",
        ],
    );
}

#[test]
fn a_question_is_asked_again() {
    // R38, R101, R104
    let repo = left_for(0);
    repo.ok(["stage", "ask", "Exponential or fixed?"]);
    reads(
        &repo,
        &[
            "Welcome back! I was asking:",
            "Continuing from where we left off. I had asked:\nExponential or fixed?",
        ],
    );
}

#[test]
fn a_summary_is_shown_again() {
    // R102, R104
    let repo = left_for(0);
    repo.ok(["stage", "done", "Retries three times"]);
    reads(&repo, &["Welcome back! I had finished:", "Retries three times", "Does this look good?"]);
}

#[test]
fn a_message_that_was_not_incorporated_is_shown_again() {
    // R104
    let repo = left_for(0);
    repo.ok(["stage", "interrupt", "make it five"]);
    reads(
        &repo,
        &[
            "Welcome back! You had said:\nmake it five",
            "I hadn't finished processing that. Should I continue?",
        ],
    );
}

#[test]
fn after_a_day_recover_opens_a_prompt_that_stays_open() {
    // R99
    let repo = left_for(2 * DAY_MS);
    let since = repo.task()["last_activity_at"].as_str().expect("a time").to_owned();
    let answer = repo.ok(["stage", "recover"]);
    let text = answer["text"].as_str().expect("a text");
    assert!(
        text.starts_with(&format!("You have an unfinished task from {since}: 'Add retry logic'")),
        "{text}"
    );
    assert_eq!(answer["pending_prompt"]["choices"], json!(["continue", "start_fresh"]));
    let again = repo.ok(["stage", "recover"]);
    assert_eq!(again["pending_prompt"], answer["pending_prompt"], "coming back twice asks once");
    assert_eq!(repo.ok(["stage", "choose", "continue"])["task"]["state"]["name"], "running");
    assert_eq!(
        repo.notes().last().map(String::as_str),
        Some("User chose to continue after idle period")
    );
}

#[test]
fn declining_seals_the_work_and_leaves_no_task() {
    // R99
    let repo = left_for(2 * DAY_MS);
    repo.ok(["stage", "recover"]);
    let answer = repo.ok(["stage", "choose", "start_fresh"]);
    assert_eq!(answer["commit"]["message"], "User chose not to continue");
    assert_eq!((&answer["task"], &repo.task()), (&Value::Null, &Value::Null));
}

#[test]
fn after_a_week_recover_seals_the_task_and_shows_nothing() {
    // R98, R105, R112
    let repo = left_for(8 * DAY_MS);
    let answer = repo.ok(["stage", "recover"]);
    assert_eq!(
        (&answer["text"], &answer["task"], &answer["pending_prompt"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(answer["commit"]["message"], "Session expired");
    assert_eq!(answer["commit"]["commit_type"]["name"], "stale_auto_compact");
    let (_, error) = repo.refuses(["stage", "recover"]);
    assert_eq!(error["code"], "no_task", "it is sealed once");
}

#[test]
fn a_task_in_any_state_becomes_stale() {
    // R98, R109
    for verb in
        [["stage", "ask", "Which?"], ["stage", "interrupt", "wait"], ["stage", "done", "Retries"]]
    {
        let repo = left_for(0);
        repo.ok(verb);
        touch(&repo, 8 * DAY_MS);
        assert_eq!(
            repo.ok(["stage", "recover"])["commit"]["commit_type"]["name"],
            "stale_auto_compact",
            "{verb:?}"
        );
        repo.ok(["stage", "start", "Next"]);
    }
}
