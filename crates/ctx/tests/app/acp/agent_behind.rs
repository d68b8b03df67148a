//! An ACP agent behind ctx: its tool calls, permissions, plans and settings reach the editor.

use serde_json::{Value, json};

use crate::harness::editor::{Editor, agent_home, prompt, work};

fn allow(request: &Value) -> Value {
    let options = request["params"]["options"].as_array().expect("options");
    let allow = options.iter().find(|option| option["kind"] == "allow_once").expect("an option");
    json!({"outcome": {"outcome": "selected", "optionId": allow["optionId"]}})
}

#[test]
fn permission_is_asked_in_the_editor() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    let id = editor.post_prompt(&session, "m1: think hm; say before; ask touch x; say after");
    let request = editor.request("session/request_permission");
    let params = &request["params"];
    assert_eq!(params["sessionId"], session.as_str());
    let kinds: Vec<&Value> =
        params["options"].as_array().expect("a list").iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    let call = &params["toolCall"];
    assert_eq!(
        (&call["title"], &call["kind"], &call["rawInput"]),
        (&json!("touch x"), &json!("execute"), &json!({"command": "touch x"}))
    );
    let calls = editor.updates("tool_call");
    assert_eq!(calls[0]["toolCallId"], call["toolCallId"], "the editor knows the call");
    assert!(!dir.join("effects").exists(), "nothing is done before it is allowed");
    editor.answer(&request, &allow(&request));
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.text("agent_thought_chunk"), "hm");
    assert!(editor.text("agent_message_chunk").contains("before"));
    assert_eq!(std::fs::read_to_string(dir.join("effects")).expect("done"), "touch x\n");
    let last = editor.updates("tool_call_update").last().expect("an update").clone();
    assert_eq!(
        (&last["status"], &last["content"][0]["content"]["text"]),
        (&json!("completed"), &json!("did touch x"))
    );
}

#[test]
fn rejected_and_dismissed_permissions_do_nothing() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    let id = editor.post_prompt(&session, "m1: ask touch x; say after");
    let request = editor.request("session/request_permission");
    let options = request["params"]["options"].as_array().expect("options");
    let reject = options.iter().find(|it| it["kind"] == "reject_once").expect("an option");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": reject["optionId"]}});
    editor.answer(&request, &outcome);
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    let last = editor.updates("tool_call_update").last().expect("an update").clone();
    assert_eq!(last["status"], "failed", "{last}");

    editor.mark();
    let id = editor.post_prompt(&session, "m2: ask touch y; say after");
    let request = editor.request("session/request_permission");
    editor.answer(&request, &json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "cancelled");
    assert!(!dir.join("effects").exists());
}

#[test]
fn cancelled_prompt_ends_as_cancelled() {
    let home = agent_home("");
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&work(&home));
    let id = editor.post_prompt(&session, "m1: say begun; wait never; say end");
    editor.wait_for_text("begun");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "cancelled");
    // Before the prompt has started, and by the id of the request.
    let id = editor.post_prompt(&session, "m2: wait never");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "cancelled");
    let id = editor.post_prompt(&session, "m3: say started; wait never");
    editor.wait_for_text("started");
    editor.notify("$/cancel_request", &json!({"requestId": id}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "cancelled");
    // While a permission is open: the editor answers it, as the protocol requires.
    let id = editor.post_prompt(&session, "m4: ask touch x");
    let request = editor.request("session/request_permission");
    editor.notify("session/cancel", &json!({"sessionId": session}));
    editor.answer(&request, &json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "cancelled");
    // A session that is closed is cancelled too.
    let id = editor.post_prompt(&session, "m5: say open; wait never");
    editor.wait_for_text("open");
    editor.ok("session/close", json!({"sessionId": session}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "cancelled");
    assert_eq!(editor.prompt(&session, "m6: say works"), "end_turn");
}

#[test]
fn modes_commands_usage_and_failures_of_the_agent_reach_the_editor() {
    let home = agent_home("");
    let mut editor = Editor::start(&home, &json!({}));
    let dir = work(&home);
    let session = editor.new_session(&dir);
    editor.prompt(&session, "m1: cost 0.5; say done");
    let usage = &editor.updates("usage_update")[0];
    assert_eq!((&usage["used"], &usage["cost"]["amount"]), (&json!(8), &json!(0.5)));
    // What the agent offers is known once it has started.
    let options = editor.updates("config_option_update").last().expect("options").clone();
    let ids: Vec<&Value> = options["configOptions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|option| &option["id"])
        .collect();
    assert_eq!(ids, ["provider", "model", "mode"]);
    editor.mark();
    editor.ok("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    editor.find("the mode", |message| message["params"]["update"]["currentModeId"] == "plan");
    let model = json!({"sessionId": session, "configId": "model", "value": "large"});
    editor.ok("session/set_config_option", model);
    editor.prompt(&session, "m2: say now");
    let events = std::fs::read_to_string(home.path().join("agent/events.jsonl")).expect("events");
    assert!(events.contains("\"to\":\"plan\"") && events.contains("\"to\":\"large\""), "{events}");
    let mut other = Editor::start(&home, &json!({}));
    let resumed = other.ok("session/resume", json!({"sessionId": session, "cwd": dir}));
    assert_eq!(resumed["configOptions"][1]["currentValue"], "large", "{resumed}");
    let failed = editor.call("session/prompt", prompt(&session, "m3: die"));
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert_eq!(failed["error"]["data"]["code"], "agent_exited");
    assert_eq!(editor.prompt(&session, "m4: say alive"), "end_turn", "the session is usable");
}
