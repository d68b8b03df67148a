//! Several clients on one session: what one of them does, the others see.

use serde_json::{Value, json};

use crate::harness::editor::{Editor, agent_home, work};
use crate::harness::server::Server;
use crate::harness::wait_until;

#[test]
fn messages_of_the_page_appear_in_the_editor_and_back() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    let server = Server::in_dir(home);
    let sent = server.post(
        &format!("/api/sessions/{session}/messages"),
        &json!({"text": "m1: think hm; say from the page; run ls"}),
    );
    assert_eq!(sent.status, 202, "{}", sent.body);
    editor.find("the end of the turn", |message| {
        message["params"]["update"]["status"] == "completed"
    });
    assert_eq!(editor.text("user_message_chunk"), "m1: think hm; say from the page; run ls");
    assert_eq!(editor.text("agent_message_chunk"), "from the page");
    // The input of a call may follow as an update of the call.
    let mut calls = editor.updates("tool_call");
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.extend(editor.updates("tool_call_update"));
    assert!(calls.iter().any(|call| call["title"] == "ls"), "{calls:?}");

    assert_eq!(editor.prompt(&session, "m2: say from the editor"), "end_turn");
    let messages = server.read(&format!("/api/sessions/{session}/messages"));
    assert!(messages.to_string().contains("from the editor"), "{messages}");
    let path = format!("/api/sessions/{session}");
    let renamed = server.send("PATCH", &path, &json!({"title": "Plums"}));
    assert_eq!(renamed.status, 200);
    editor.find("the title", |message| message["params"]["update"]["title"] == "Plums");
}

#[test]
fn prompt_waits_for_the_run_of_another_process_and_is_followed_there() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    let server = Server::in_dir(home.clone());
    let messages = format!("/api/sessions/{session}/messages");
    server.post(&messages, &json!({"text": "m1: say first; wait gate; say over"}));
    editor.wait_for_text("first");
    let id = editor.post_prompt(&session, "m2: say second");
    wait_until("the message waits", || {
        let inbox = server.read(&format!("/api/sessions/{session}/inbox"));
        inbox.to_string().contains("second")
    });
    std::fs::write(home.path().join("agent/gate"), "").expect("opened");
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    let said = editor.text("agent_message_chunk");
    assert_eq!(said, "firstoversecond", "all of both runs, in order");
}

#[test]
fn permission_that_the_page_answered_is_withdrawn_from_the_editor() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = editor.new_session(&dir);
    let server = Server::in_dir(home);
    let id = editor.post_prompt(&session, "m1: ask touch x; say after");
    let request = editor.request("session/request_permission");
    let info = server.read(&format!("/api/sessions/{session}"));
    let suspension = &info["suspensions"][0];
    let reject = suspension["options"]
        .as_array()
        .expect("options")
        .iter()
        .find(|option| option["kind"] == "reject_once")
        .expect("an option")["id"]
        .clone();
    let answer = json!({"suspension_id": suspension["id"], "choice": reject});
    let answered = server.post(&format!("/api/sessions/{session}/resume"), &answer);
    assert_eq!(answered.status, 202, "{}", answered.body);
    let withdrawn =
        editor.find("the withdrawal", |message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    let said = editor.text("agent_message_chunk");
    assert!(said.ends_with("after"), "the words after the decision: {said}");
    // A late answer changes nothing.
    let late: Value = request["params"]["options"][0]["optionId"].clone();
    editor.answer(&request, &json!({"outcome": {"outcome": "selected", "optionId": late}}));
    assert_eq!(editor.prompt(&session, "m2: say works"), "end_turn");
    assert!(!dir.join("effects").exists(), "the decision of the page counts");
}

#[test]
fn two_editors_see_one_conversation_once() {
    let home = agent_home("");
    let dir = work(&home);
    let mut first = Editor::start(&home, &json!({}));
    let session = first.new_session(&dir);
    let mut second = Editor::start(&home, &json!({}));
    second.load(&session, &dir);
    let id = first.post_prompt(&session, "m1: say one; ask touch x");
    let (asked, also) =
        (first.request("session/request_permission"), second.request("session/request_permission"));
    assert_eq!(asked["params"]["options"], also["params"]["options"]);
    let option = also["params"]["options"][0]["optionId"].clone();
    second.answer(&also, &json!({"outcome": {"outcome": "selected", "optionId": option}}));
    assert_eq!(first.response(id)["result"]["stopReason"], "end_turn");
    let withdrawn = first.find("withdrawn", |message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    second.find("the result", |message| {
        message["params"]["update"]["sessionUpdate"] == "tool_call_update"
            && message.to_string().contains("did touch x")
    });
    assert_eq!(second.text("user_message_chunk"), "m1: say one; ask touch x");
    let words = |editor: &Editor| editor.text("agent_message_chunk").matches("one").count();
    assert_eq!((words(&first), words(&second)), (1, 1));
    // A session that is deleted elsewhere ends in the editor.
    second.ok("session/delete", json!({"sessionId": session}));
    wait_until("the session is gone", || {
        let params = crate::harness::editor::prompt(&session, "m2: say late");
        first.call("session/prompt", params)["error"]["code"] == -32002
    });
}
