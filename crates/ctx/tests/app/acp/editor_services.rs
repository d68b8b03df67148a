//! MCP servers, files and terminals of the editor, used by the agent behind.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::editor::{Editor, agent_home, work};

#[test]
fn files_of_the_agent_go_through_the_editor_and_are_recorded() {
    let home = agent_home("");
    let dir = work(&home);
    let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let mut editor = Editor::start(&home, &capabilities);
    let session = editor.new_session(&dir);
    let (a, b) = (dir.join("a.txt"), dir.join("b.txt"));
    std::fs::write(&a, "on disk").expect("written");
    let text = format!("Add logging: read {}; write {} hello", a.display(), b.display());
    let id = editor.post_prompt(&session, &text);
    let read = editor.request("fs/read_text_file");
    assert_eq!(
        (&read["params"]["path"], &read["params"]["sessionId"]),
        (&json!(a), &json!(session))
    );
    editor.answer(&read, &json!({"content": "not saved yet"}));
    let write = editor.request("fs/write_text_file");
    assert_eq!(write["params"]["content"], "hello");
    editor.answer(&write, &json!({}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    assert!(editor.text("agent_message_chunk").contains("not saved yet"));
    assert!(!b.exists(), "the editor writes, not ctx");
    let status = ctx(home.path()).args(["--session", &session, "stage", "status"]).output();
    let status = String::from_utf8(status.expect("ctx runs").stdout).expect("text");
    assert!(status.contains("1 file written, 1 file read"), "{status}");

    // A file outside the working directory needs a permission first.
    editor.mark();
    let outside = home.path().canonicalize().expect("a path").join("outside.txt");
    let id = editor.post_prompt(&session, &format!("m2: read {}", outside.display()));
    let asked = editor.request("session/request_permission");
    let option = asked["params"]["options"][0]["optionId"].clone();
    editor.answer(&asked, &json!({"outcome": {"outcome": "selected", "optionId": option}}));
    let read = editor.request("fs/read_text_file");
    editor.answer(&read, &json!({"content": "secret"}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
}

#[test]
fn commands_of_the_agent_run_in_terminals_of_the_editor() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({"terminal": true}));
    let session = editor.new_session(&dir);
    let id =
        editor.post_prompt(&session, &format!("Add logging: terminal {} echo hi", dir.display()));
    let create = editor.request("terminal/create");
    assert_eq!(create["params"]["command"], "echo hi");
    editor.answer(&create, &json!({"terminalId": "t-7"}));
    let wait = editor.request("terminal/wait_for_exit");
    assert_eq!(wait["params"]["terminalId"], "t-7");
    editor.answer(&wait, &json!({"exitCode": 0}));
    let output = json!({"output": "hi\n", "truncated": false, "exitStatus": {"exitCode": 0}});
    // One for the agent, one for the record of the task.
    for _ in 0..2 {
        let asked = editor.request("terminal/output");
        editor.mark();
        editor.answer(&asked, &output);
    }
    let release = editor.request("terminal/release");
    editor.answer(&release, &json!({}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    assert!(editor.text("agent_message_chunk").contains("0: \"hi\\n\""));
    let status = ctx(home.path()).args(["--session", &session, "stage", "status"]).output();
    let status = String::from_utf8(status.expect("ctx runs").stdout).expect("text");
    assert!(status.contains("1 command run") && status.contains("ran echo hi"), "{status}");
}

#[test]
fn mcp_servers_of_the_editor_are_passed_on() {
    let home = agent_home("");
    let dir = work(&home);
    let log = home.path().join("wire");
    std::fs::create_dir_all(&log).expect("a directory");
    let mut editor = Editor::with_env(&home, &json!({}), &[("CTX_WIRE_LOGS", &log)]);
    let server = json!({"name": "mine", "command": "/bin/true", "args": ["--x"], "env": []});
    let remote = json!({"type": "http", "name": "far", "url": "http://127.0.0.1:1", "headers": []});
    let params = json!({"cwd": dir, "mcpServers": [server, remote]});
    let session = editor.ok("session/new", params)["sessionId"].as_str().expect("an id").to_owned();
    editor.prompt(&session, "m1: say hi");
    let opened = std::fs::read_dir(&log)
        .expect("logs")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .find(|line| line.starts_with("> ") && line.contains("\"session/new\""))
        .expect("a request of ctx to the agent");
    let request: Value = serde_json::from_str(&opened[2..]).expect("JSON");
    let servers = request["params"]["mcpServers"].as_array().expect("a list");
    let names: Vec<&Value> = servers.iter().map(|server| &server["name"]).collect();
    assert!(names.contains(&&json!("mine")), "{names:?}");
    assert!(!names.contains(&&json!("far")), "the agent has no HTTP transport: {names:?}");
}
