//! Idle time between two processes: when a message opens a prompt first, and when it seals the task
//! first (R85-R99, R108, R112).

use serde_json::{Value, json};

use crate::harness::repo::Repo;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A task with work in it, whose last activity was this long ago.
pub(crate) fn left_for(ms: i64) -> Repo {
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "note", "The client has one call site"]);
    touch(&repo, ms);
    repo
}

/// Moves the last activity of the open task back by this time.
pub(crate) fn touch(repo: &Repo, ms: i64) {
    let changed = repo.sql().execute(&format!(
        "UPDATE tasks SET last_activity_at = last_activity_at - {ms} WHERE ended_at IS NULL"
    ));
    assert_eq!(changed, 1);
}

/// A task that is as stale as limits of 1 ms make it.
fn stale(ask: &str, seal: &str, expected: &str) -> Repo {
    let mut repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "note", "The client has one call site"]);
    repo.set("CTX_CLOCKS_TASK_ASK", ask);
    repo.set("CTX_CLOCKS_TASK_SEAL", seal);
    repo.wait_until(expected);
    repo
}

#[test]
fn a_day_of_idle_time_opens_a_prompt_and_a_week_seals_the_task() {
    // R85, R86, R88, R90, R91, R108
    for (ms, expected) in [
        (0, "fresh"),
        (DAY_MS - HOUR_MS, "fresh"),
        (DAY_MS + HOUR_MS, "should_ask"),
        (7 * DAY_MS - HOUR_MS, "should_ask"),
        (7 * DAY_MS + HOUR_MS, "should_seal"),
        (400 * DAY_MS, "should_seal"),
    ] {
        let repo = left_for(ms);
        let status = repo.ok(["stage", "status"]);
        assert_eq!(status["stale"], expected, "after {ms} ms");
        let seconds = status["idle_seconds"].as_i64().expect("a number");
        assert!((ms / 1000..ms / 1000 + 120).contains(&seconds), "{seconds} s after {ms} ms");
        let task = status["task"].clone();
        assert_eq!((repo.task(), repo.commits().len()), (task, 0), "looking changes nothing");
    }
}

#[test]
fn without_a_task_nothing_is_stale() {
    let status = Repo::new().ok(["stage", "status"]);
    assert_eq!(
        status,
        json!({"task": null, "stale": "none", "idle_seconds": null, "pending_prompt": null})
    );
}

#[test]
fn within_a_day_a_message_continues_without_a_prompt() {
    // R6, R89, R100
    let repo = left_for(DAY_MS - HOUR_MS);
    let answer = repo.ok(["stage", "message", "continue"]);
    assert_eq!(
        (&answer["pending_prompt"], &answer["commit"]),
        (&Value::Null, &Value::Null),
        "{answer}"
    );
    assert_eq!(repo.task()["description"], "Add retry logic");
}

#[test]
fn after_a_day_any_message_opens_a_prompt_and_is_kept() {
    // R90, R92, R93
    for message in
        ["also add logging", "What does that mean?", "Different topic: write the changelog"]
    {
        let repo = left_for(2 * DAY_MS);
        let answer = repo.ok(["stage", "message", message]);
        assert_eq!(answer["action"], "prompt", "{message}");
        let prompt = &answer["pending_prompt"];
        assert_eq!(
            prompt["text"],
            "Welcome back! You were working on: Add retry logic\nA) Continue that work\nB) Save \
             it and start fresh"
        );
        assert_eq!(
            (&prompt["kind"], &prompt["choices"]),
            (&json!("stale"), &json!(["continue", "start_fresh"]))
        );
        assert_eq!(
            (repo.task()["steps"].clone(), repo.commits().len()),
            (json!(2), 0),
            "nothing else happened yet"
        );
    }
}

#[test]
fn continuing_handles_the_message_that_was_kept() {
    // R73, R93, R96
    let repo = left_for(0);
    repo.ok(["stage", "ask", "Which backoff?"]);
    touch(&repo, 2 * DAY_MS);
    assert_eq!(repo.ok(["stage", "message", "Exponential"])["action"], "prompt");
    let answer = repo.ok(["stage", "choose", "continue"]);
    assert_eq!(
        (&answer["task"]["state"]["name"], &answer["commit"]),
        (&json!("running"), &Value::Null)
    );
    let notes = repo.notes();
    assert_eq!(
        notes[notes.len() - 2..],
        ["User chose to continue after idle period", "User response: Exponential"]
    );
    assert_eq!(repo.ok(["stage", "status"])["stale"], "fresh", "it was just worked on");
}

#[test]
fn starting_fresh_uses_the_kept_message_as_the_task() {
    // R97, R112
    let repo = stale("0ms", "7d", "should_ask");
    repo.ok(["stage", "message", "Write the changelog"]);
    let answer = repo.ok(["stage", "choose", "start_fresh"]);
    assert_eq!(answer["commit"]["message"], "Saved before starting new task: Add retry logic");
    assert_eq!(
        answer["commit"]["commit_type"],
        json!({"name": "interrupted_by_new_task", "new_task_summary": "Write the changelog"})
    );
    assert_eq!(answer["task"]["description"], "Write the changelog");
}

#[test]
fn after_a_week_the_work_is_sealed_and_the_message_is_handled_without_a_task() {
    // R91, R95, R109, R111, R112
    let repo = left_for(8 * DAY_MS);
    let answer = repo.ok(["stage", "message", "Write the changelog"]);
    let commit = &answer["commit"];
    assert_eq!(commit["message"], "Auto-saved: session idle for 8 days: Add retry logic");
    assert_eq!(commit["commit_type"]["name"], "stale_auto_compact");
    let seconds = commit["commit_type"]["idle_duration_secs"].as_i64().expect("real seconds");
    assert!((8 * DAY_MS / 1000..8 * DAY_MS / 1000 + 120).contains(&seconds), "{seconds}");
    assert_eq!(
        (&answer["action"], &answer["task"]["description"]),
        (&json!("start"), &json!("Write the changelog"))
    );
    assert_eq!(repo.commits().len(), 1);
}

#[test]
fn a_late_message_about_the_old_task_starts_no_task() {
    // R91: the message is handled as if no task had been open.
    let repo = left_for(8 * DAY_MS);
    let answer = repo.ok(["stage", "message", "thanks"]);
    assert_eq!(
        (&answer["action"], &answer["task"]),
        (&json!("acknowledge"), &Value::Null),
        "{answer}"
    );
    assert_eq!(answer["commit"]["commit_type"]["name"], "stale_auto_compact");
}

#[test]
fn an_expired_prompt_is_closed_and_its_message_is_kept() {
    // R91, R109
    let mut repo = stale("0ms", "7d", "should_ask");
    repo.ok(["stage", "message", "Write the changelog"]);
    repo.set("CTX_CLOCKS_TASK_SEAL", "0ms");
    repo.wait_until("should_seal");
    let answer = repo.ok(["stage", "message", "Fix the build"]);
    assert_eq!(answer["commit"]["commit_type"]["name"], "stale_auto_compact");
    assert_eq!(
        (&answer["task"]["description"], &answer["pending_prompt"]),
        (&json!("Fix the build"), &Value::Null)
    );
    assert!(
        repo.notes().iter().any(|note| note.contains("Write the changelog")),
        "{:?}",
        repo.notes()
    );
}

#[test]
fn limits_and_texts_are_configured_and_the_environment_has_precedence() {
    // R87
    let mut repo = left_for(3 * HOUR_MS);
    repo.configure(
        "[clocks]\ntask_ask = \"1h\"\ntask_seal = \"2h\"\ntask_seal_message = \"Saved \
        after {duration}\"\n",
    );
    assert_eq!(repo.ok(["stage", "status"])["stale"], "should_seal");
    repo.set("CTX_CLOCKS_TASK_SEAL", "30d");
    assert_eq!(repo.ok(["stage", "status"])["stale"], "should_ask");
    repo.set("CTX_CLOCKS_TASK_ASK", "500m");
    assert_eq!(repo.ok(["stage", "status"])["stale"], "fresh");
    repo.unset("CTX_CLOCKS_TASK_SEAL");
    repo.unset("CTX_CLOCKS_TASK_ASK");
    let answer = repo.ok(["stage", "message", "Write the changelog"]);
    assert_eq!(answer["commit"]["message"], "Saved after 3 hours: Add retry logic");
}
