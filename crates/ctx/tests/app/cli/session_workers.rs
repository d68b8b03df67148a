//! Workers on the command line, with the demo agent: the sender waits for them, and SQL finds their
//! links.

use crate::harness::repo::Repo;

#[test]
fn the_sender_waits_for_the_workers_that_it_started() {
    // R186, R189, R190, R191, R192, R193
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "boss"]);
    let done = repo.ok(["session", "send", "boss", r#"dispatch_to_agent {"task": "slow 3"}"#]);
    assert_eq!(
        (&done["session"]["state"], &done["session"]["turn_count"]),
        (&"idle".into(), &2.into()),
        "the report is there: {done}"
    );
    let told = done["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .find(|message| message["source"] == "agent")
        .expect("a report");
    assert!(
        told["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("has completed its task")),
        "{told}"
    );
    let listed = repo.ok(["session", "list", "--all"]);
    let worker = listed["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .find(|session| session["origin"] == "subagent")
        .expect("a worker");
    assert_eq!(
        (&worker["parent"]["session"], &worker["task"]["state"]["name"]),
        (&"boss".into(), &"complete".into())
    );
    let label = worker["label"].as_str().expect("a label").to_owned();
    let database = repo.sql();
    let text = |sql: &str| database.text(sql).unwrap_or_else(|| panic!("{sql}: no row"));
    assert_eq!(
        text("SELECT spawned_session_label FROM tool_calls WHERE name = 'dispatch_to_agent'"),
        label
    );
    let turn = text("SELECT turn FROM tool_calls WHERE name = 'dispatch_to_agent'");
    let links = "SELECT label || ' ' || parent_session_label || ' ' || parent_turn_id || ' ' || \
        is_subagent || ' ' || origin || ' ' || status";
    assert_eq!(
        text(&format!("{links} FROM workers")),
        format!("{label} boss {turn} 1 subagent active")
    );
    assert_eq!(
        text("SELECT task_description || ': ' || task_status FROM workers"),
        "slow 3: completed"
    );
    let call = text("SELECT id FROM tool_calls WHERE name = 'dispatch_to_agent'");
    assert_eq!(text("SELECT spawn_tool_call_id FROM workers"), call);
}

#[test]
fn a_session_can_have_a_fork_an_alias_and_workers_at_the_same_time() {
    // R194
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "boss"]);
    let alias = "INSERT INTO session_aliases(alias, session_label, created_at, reason) VALUES \
        ('chief', 'boss', 0, 'manual')";
    repo.sql().execute(alias);
    repo.ok(["session", "send", "chief", r#"dispatch_to_agent {"task": "hello"}"#]);
    repo.ok(["session", "fork", "chief", "--label", "branch"]);
    repo.ok(["session", "send", "branch", "hello"]);
    let done = repo.ok(["session", "send", "chief", r#"dispatch_to_agent {"task": "again"}"#]);
    assert_eq!(
        (&done["session"]["label"], &done["session"]["status"]),
        (&"boss".into(), &"active".into())
    );
    let count = |sql: &str| repo.sql().number(sql);
    assert_eq!(
        count(
            "SELECT COUNT(*) FROM workers WHERE parent_session_label = 'boss' AND task_status = \
             'completed'"
        ),
        2
    );
    assert_eq!(
        repo.ok(["session", "show", "branch"])["session"]["turn_count"],
        3,
        "a fork goes its own way"
    );
}

#[test]
fn a_promoted_identity_continues_in_the_same_session_through_an_alias() {
    // R185: the key of a promoted identity resolves to the existing session; no fork, no copy, no
    // second session.
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "dm:chat:42"]);
    repo.ok(["session", "send", "dm:chat:42", "hello"]);
    let alias = "INSERT INTO session_aliases(alias, session_label, created_at, reason) VALUES \
        ('dm:mom', 'dm:chat:42', 0, 'identity_promotion')";
    repo.sql().execute(alias);
    let count = || repo.sql().number("SELECT COUNT(*) FROM sessions");
    let before = count();
    let sent = repo.ok(["session", "send", "dm:mom", "hello again"]);
    assert_eq!(
        (&sent["session"]["label"], &sent["session"]["turn_count"]),
        (&"dm:chat:42".into(), &2.into()),
        "with its whole history"
    );
    assert_eq!(count(), before, "nobody was made");
    let forks = "SELECT COUNT(*) FROM sessions WHERE origin = 'fork'";
    assert_eq!(repo.sql().number(forks), 0);
}
