//! Recording work, questions to the user, and other agents.

use serde_json::{Value, json};

use crate::harness::mcp_client::{Mcp, StdioMcp};
use crate::harness::model_server::{ModelServer, completion};
use crate::harness::repo::Repo;

#[test]
fn an_agent_records_its_work_from_start_to_commit() {
    // R10, R113
    let repo = Repo::new();
    repo.write("src/shed.rs", "fn paint() {}");
    let mut mcp = StdioMcp::start(&repo, &[]);
    assert_eq!(mcp.data("get_task", json!({}))["task"], Value::Null);
    let started = mcp.data("start_task", json!({"task": "Paint the shed"}));
    assert_eq!(started["task"]["description"], "Paint the shed");
    assert!(mcp.fails("start_task", json!({"task": "Another"})).contains("Paint the shed"));
    mcp.call("note", json!({"text": "Decision: green"}));
    let updated = json!({
        "plan": "Sand, then paint",
        "files_read": [{"path": "README.md", "content": "Sheds"}],
        "files_written": [{"path": "src/shed.rs"}, {"path": "old.rs", "deleted": true}],
        "commands": [{"command": "cargo test", "exit": 1, "output": "one failed"}],
        "relations": [{"from": "file:src/shed.rs", "label": "depends_on", "to": "crate:paint"}],
    });
    let updated = mcp.data("update_task", updated);
    assert_eq!(updated["task"]["state"]["name"], "running");
    let asked = mcp.says("ask_user", json!({"question": "Which green?"}));
    assert!(asked.contains("get_task"), "{asked}");
    let waiting = mcp.data("get_task", json!({}));
    assert_eq!(waiting["task"]["state"]["question"], "Which green?");
    repo.ok(["stage", "answer", "Moss"]);
    let answered = mcp.data("get_task", json!({}));
    assert_eq!(
        (&answered["answer"], &answered["task"]["state"]["name"]),
        (&json!("Moss"), &json!("running"))
    );
    mcp.call("finish_task", json!({"summary": "The shed is green"}));
    assert_eq!(mcp.data("get_task", json!({}))["task"]["state"]["name"], "pending_complete");
    let sealed = repo.ok(["stage", "confirm"]);
    let commit = &sealed["commit"];
    assert_eq!(commit["message"], "The shed is green");
    let files: Vec<&str> = commit["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect();
    assert_eq!(files, ["README.md", "old.rs", "src/shed.rs"]);
    let text = mcp.says("read_commit", json!({"commit": commit["id"]}));
    for expected in ["Decision: green", "plan: Sand", "ran cargo test (exit 1)", "deleted old.rs"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn an_agent_seals_or_abandons_on_the_users_word() {
    let repo = Repo::new();
    let mut mcp = StdioMcp::start(&repo, &[]);
    for (outcome, kind) in [("confirmed", "normal"), ("abandoned", "abandoned")] {
        mcp.call("start_task", json!({"task": "Paint"}));
        mcp.call("note", json!({"text": "done"}));
        let sealed = mcp.data("finish_task", json!({"summary": "As asked", "outcome": outcome}));
        assert_eq!(sealed["outcome"], kind, "{sealed}");
        let log = repo.ok(["log"]);
        assert_eq!(log["commits"][0]["id"], sealed["commit"]);
        assert_eq!(log["commits"][0]["commit_type"]["name"], kind);
    }
}

#[test]
fn the_session_of_a_call_is_the_named_one_or_that_of_the_environment() {
    let mut repo = Repo::new();
    repo.ok(["session", "new", "--label", "a"]);
    repo.ok(["session", "new", "--label", "b"]);
    repo.set("CTX_SESSION", "a");
    let mut mcp = StdioMcp::start(&repo, &[]);
    mcp.call("start_task", json!({"task": "In a"}));
    mcp.call("start_task", json!({"task": "In b", "session": "b"}));
    for (label, task) in [("a", "In a"), ("b", "In b")] {
        let open = mcp.data("get_task", json!({"session": label}));
        assert_eq!(open["task"]["description"], task);
    }
    repo.set("CTX_SESSION", "gone");
    let mut mcp = StdioMcp::start(&repo, &[]);
    let refused = mcp.fails("start_task", json!({"task": "Nowhere"}));
    assert!(refused.contains("there is no session `gone`"), "{refused}");
}

#[test]
fn files_outside_the_directory_are_not_read() {
    let repo = Repo::working_on("Look around");
    let outside = repo.beside("secret");
    std::fs::write(&outside, "secret").expect("a file");
    let mut mcp = StdioMcp::start(&repo, &[]);
    let path = outside.to_str().expect("a path");
    let refused = mcp.fails("update_task", json!({"files_read": [{"path": path}]}));
    assert!(refused.contains("it is outside"), "{refused}");
    let refused = mcp.fails("update_task", json!({"files_read": [{"path": "no-such-file"}]}));
    assert!(refused.contains("give its `content`"), "{refused}");
    assert!(mcp.fails("update_task", json!({})).contains("records nothing"));
}

#[test]
fn an_agent_starts_and_messages_other_agents() {
    let repo = Repo::new();
    let model = ModelServer::responding(|_, request| {
        let text = request.body["messages"].to_string();
        completion(if text.contains("second") { "The second answer." } else { "The fence is red." })
    });
    repo.configure(model.config(""));
    let mut mcp = StdioMcp::start(&repo, &[]);
    mcp.call("start_task", json!({"task": "Manage"}));
    let done = mcp.data("dispatch_to_agent", json!({"task": "Colour of the fence?", "wait": true}));
    assert_eq!(done["last_words"], "The fence is red.", "{done}");
    let label = done["label"].as_str().expect("a label").to_owned();
    let sent = mcp.says("send_message_to_agent", json!({"to": label, "content": "second"}));
    assert!(sent.contains(&label), "{sent}");
    let answered = crate::harness::wait_for("the second answer", || {
        let status = mcp.data("get_agent_status", json!({"label": label}));
        let words = status["workers"][0]["last_words"].clone();
        (words == "The second answer.").then_some(words)
    });
    assert_eq!(answered, "The second answer.");
    // The report of a worker starts no agent in the session of an agent that ctx does not run.
    let own = mcp.data("read_session", json!({"session": "main"}));
    assert_eq!(own["turns"], json!([]), "{own}");
    let unknown = mcp.fails("send_message_to_agent", json!({"to": "nobody", "content": "x"}));
    assert!(unknown.contains("session not found"), "{unknown}");
    assert!(mcp.close());
    let fields: Vec<Value> = model.requests().iter().map(|it| it.body["tools"].clone()).collect();
    assert!(!fields.is_empty());
}
