//! Sessions of an editor: history, list, fork, close, delete, settings, and crashes.

use serde_json::{Value, json};

use crate::harness::editor::{Editor, agent_home, work};
use crate::harness::server::{configured_home, home};
use crate::harness::{ctx, verify};

#[test]
fn history_is_replayed_by_load_and_not_by_resume() {
    let home = home();
    let mut editor = Editor::start(&home, &json!({}));
    let dir = work(&home);
    let session = editor.new_session(&dir);
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9a\
                   wAAAABJRU5ErkJggg==";
    let blocks = json!([
        {"type": "text", "text": "Look at "},
        {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
        {"type": "resource", "resource": {"uri": "file:///b.rs", "text": "fn b() {}"}},
        {"type": "image", "mimeType": "image/png", "data": picture},
    ]);
    let answer = editor.ok("session/prompt", json!({"sessionId": session, "prompt": blocks}));
    assert_eq!(answer["stopReason"], "end_turn");
    let said = editor.text("agent_message_chunk");
    assert!(!said.is_empty());
    assert_eq!(editor.text("user_message_chunk"), "", "the editor has its own message");
    assert_eq!(editor.updates("available_commands_update").len(), 1);
    let titles = editor.updates("session_info_update");
    assert!(titles[0]["title"].as_str().expect("a title").starts_with("Look at"), "{titles:?}");
    assert!(editor.updates("usage_update")[0]["size"].as_u64() > Some(0));
    assert_eq!(editor.prompt(&session, "think about it"), "end_turn");
    assert!(!editor.text("agent_thought_chunk").is_empty());
    let (said, thought) = (editor.text("agent_message_chunk"), editor.text("agent_thought_chunk"));
    editor.close();

    let mut again = Editor::start(&home, &json!({}));
    let opened = again.load(&session, &dir);
    assert_eq!(opened["configOptions"][0]["id"], "provider", "{opened}");
    let users = again.updates("user_message_chunk");
    let text = users[0]["content"]["text"].as_str().expect("text").to_owned();
    assert!(text.starts_with("Look at [@a.rs](file:///a.rs)"), "{text}");
    assert!(text.contains("<resource uri=\"file:///b.rs\">\nfn b() {}\n</resource>"), "{text}");
    assert_eq!(
        (&users[1]["content"]["type"], &users[1]["content"]["data"]),
        (&json!("image"), &json!(picture))
    );
    assert_eq!(again.text("agent_message_chunk"), said, "every word, once");
    assert_eq!(again.text("agent_thought_chunk"), thought);

    let mut resumed = Editor::start(&home, &json!({}));
    resumed.ok("session/resume", json!({"sessionId": session, "cwd": dir}));
    assert_eq!(resumed.prompt(&session, "Hello"), "end_turn");
    assert_eq!(resumed.text("user_message_chunk"), "");
    assert!(resumed.text("agent_message_chunk").contains("Hello"));
    assert!(!resumed.text("agent_message_chunk").contains("a.rs"), "no earlier message");
}

#[test]
fn list_is_filtered_by_directory_and_paged() {
    let home = home();
    let (dir, other) = (work(&home), home.path().canonicalize().expect("a path").join("other"));
    std::fs::create_dir_all(&other).expect("a directory");
    let mut editor = Editor::start(&home, &json!({}));
    let mut made: Vec<String> = (0..57).map(|_| editor.new_session(&dir)).collect();
    let apart = editor.new_session(&other);
    let page = |editor: &mut Editor, params: Value| {
        let page = editor.ok("session/list", params);
        let ids: Vec<String> = page["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|session| session["sessionId"].as_str().expect("an id").to_owned())
            .collect();
        (ids, page["nextCursor"].clone())
    };
    let (first, cursor) = page(&mut editor, json!({"cwd": dir}));
    assert!(cursor.is_string() && first.len() == 50, "{}", first.len());
    let (rest, end) = page(&mut editor, json!({"cwd": dir, "cursor": cursor}));
    assert!(end.is_null());
    let mut listed: Vec<String> = first.into_iter().chain(rest).collect();
    listed.sort();
    made.sort();
    assert_eq!(listed, made);
    let alone = editor.ok("session/list", json!({"cwd": other}));
    assert_eq!(alone["sessions"][0]["sessionId"], apart.as_str());
    assert_eq!(alone["sessions"][0]["cwd"], json!(other));
    assert!(alone["sessions"][0]["updatedAt"].is_string());
}

#[test]
fn fork_has_the_history_and_its_own_future() {
    let home = home();
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    editor.prompt(&session, "The word is plum");
    let forked = editor.ok("session/fork", json!({"sessionId": session, "cwd": dir}));
    let fork = forked["sessionId"].as_str().expect("an id").to_owned();
    assert_ne!(fork, session);
    assert!(forked["configOptions"].is_array());
    assert_eq!(editor.prompt(&fork, "Only in the fork"), "end_turn");
    editor.mark();
    editor.load(&fork, &dir);
    assert_eq!(editor.text("user_message_chunk"), "The word is plumOnly in the fork");
    editor.mark();
    editor.load(&session, &dir);
    assert_eq!(editor.text("user_message_chunk"), "The word is plum");
    editor.ok("session/close", json!({"sessionId": session}));
    assert_eq!(editor.error_code("session/close", json!({"sessionId": session})), -32002);
    editor.ok("session/delete", json!({"sessionId": fork}));
    assert_eq!(editor.error_code("session/delete", json!({"sessionId": fork})), -32002);
    let listed = editor.ok("session/list", json!({}));
    assert_eq!(listed["sessions"].as_array().expect("a list").len(), 1);
    assert_eq!(editor.prompt(&session, "A closed session is resumed"), "end_turn");
}

#[test]
fn provider_and_model_are_settings_of_the_session() {
    let home =
        configured_home("[defaults]\nprovider = \"demo\"\n[providers.other]\nkind = \"demo\"\n");
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&work(&home));
    let set = json!({"sessionId": session, "configId": "provider", "value": "other"});
    let options = editor.ok("session/set_config_option", set)["configOptions"].clone();
    assert_eq!(options[0]["currentValue"], "other", "{options}");
    editor.find("the update", |message| {
        message["params"]["update"]["sessionUpdate"] == "config_option_update"
    });
    editor.prompt(&session, "Hello");
    let shown = ctx(home.path()).args(["session", "show", &session, "--json"]).output();
    let shown: Value =
        serde_json::from_slice(&shown.expect("ctx runs").stdout).expect("a document");
    assert_eq!(shown["session"]["provider_id"], "other", "{shown}");
    let unknown = json!({"sessionId": session, "configId": "provider", "value": "nobody"});
    assert_eq!(editor.error_code("session/set_config_option", unknown), -32602);
}

#[test]
fn killed_process_loses_no_word() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    editor.post_prompt(&session, "m1: say one; run ls; say two; wait never; say three");
    editor.wait_for_text("two");
    editor.kill();
    let mut again = Editor::start(&home, &json!({}));
    // On PostgreSQL the lease of the dead process has to expire first.
    crate::harness::wait_until("the turn is closed", || {
        let listed = again.ok("session/list", json!({}));
        listed["sessions"][0]["_meta"]["ctx"]["state"] == "idle"
    });
    again.load(&session, &dir);
    let said = again.text("agent_message_chunk");
    assert!(said.starts_with("onetwo"), "{said}");
    assert_eq!(again.updates("tool_call")[0]["title"], "ls");
    assert_eq!(again.updates("tool_call_update").last().expect("an end")["status"], "completed");
    assert_eq!(again.prompt(&session, "m2: say four"), "end_turn", "the conversation continues");
    again.close();
    verify(home.path(), "after the kill");
}

#[test]
fn closed_input_interrupts_the_run_and_keeps_its_words() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    editor.post_prompt(&session, "m1: say one; wait never; say two");
    editor.wait_for_text("one");
    let (code, took) = editor.close();
    assert_eq!(code, Some(0));
    assert!(took.as_secs() < 10, "{took:?}");
    let mut again = Editor::start(&home, &json!({}));
    again.load(&session, &dir);
    assert!(again.text("agent_message_chunk").starts_with("one"), "{:?}", again.since_mark());
    let listed = again.ok("session/list", json!({}));
    assert_eq!(listed["sessions"][0]["_meta"]["ctx"]["state"], "idle");
}
