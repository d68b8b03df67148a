//! ctx's own questions in the editor, and its commands.

use serde_json::json;

use crate::harness::editor::{Editor, agent_home, work};

const NEW_TASK: &str = "Please write a parser for the configuration file: say second";

/// A session whose open task has work, so that a new task is asked about.
fn busy_session(editor: &mut Editor, dir: &std::path::Path) -> String {
    let session = editor.new_session(dir);
    assert_eq!(editor.prompt(&session, "Add logging to the server: say first; run ls"), "end_turn");
    session
}

#[test]
fn new_task_is_asked_as_a_message_and_the_next_prompt_answers() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({}));
    let session = busy_session(&mut editor, &dir);
    editor.mark();
    assert_eq!(editor.prompt(&session, NEW_TASK), "end_turn");
    let asked = editor.text("agent_message_chunk");
    assert!(asked.contains("\nA) ") && asked.contains("\nB) "), "{asked}");
    assert!(!asked.contains("second"), "the message is held");
    editor.mark();
    assert_eq!(editor.prompt(&session, "A"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("second"), "{:?}", editor.since_mark());
    editor.mark();
    assert_eq!(editor.prompt(&session, "/done parsed"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("sealed"), "{:?}", editor.since_mark());
}

#[test]
fn new_task_is_asked_in_a_dialog_if_the_editor_has_one() {
    let home = agent_home("");
    let dir = work(&home);
    let capabilities = json!({"elicitation": {"form": {}}, "session": {"notices": {}}});
    let mut editor = Editor::start(&home, &capabilities);
    let session = busy_session(&mut editor, &dir);
    editor.mark();
    let id = editor.post_prompt(&session, NEW_TASK);
    let form = editor.request("elicitation/create");
    assert!(editor.text("agent_message_chunk").contains("\nA) "), "and as a message");
    let choices = &form["params"]["requestedSchema"]["properties"]["answer"]["oneOf"];
    assert_eq!(choices[0]["const"], "start_fresh", "{form}");
    let chosen = json!({"action": "accept", "content": {"answer": "start_fresh"}});
    editor.answer(&form, &chosen);
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    assert!(editor.text("agent_message_chunk").contains("second"));
    let notices = editor.updates("notice");
    assert!(notices[0]["title"].as_str().expect("a title").contains("sealed"), "{notices:?}");

    // A dialog that the user closes leaves the question open.
    editor.prompt(&session, "Also log the errors: say more; run pwd");
    editor.mark();
    let id = editor.post_prompt(&session, "Now add a command line interface: say third");
    let form = editor.request("elicitation/create");
    editor.answer(&form, &json!({"action": "cancel"}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    assert_eq!(editor.prompt(&session, "B"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("third"));
}

#[test]
fn question_of_the_agent_is_a_form_or_a_message() {
    let home = agent_home("");
    let dir = work(&home);
    let mut editor = Editor::start(&home, &json!({"elicitation": {"form": {}}}));
    let session = editor.new_session(&dir);
    let id = editor.post_prompt(&session, "m1: elicit Which colour?");
    let form = editor.request("elicitation/create");
    assert_eq!(form["params"]["message"], "Which colour?");
    editor.answer(&form, &json!({"action": "accept", "content": {"colour": "blue"}}));
    assert_eq!(editor.response(id)["result"]["stopReason"], "end_turn");
    assert!(editor.text("agent_message_chunk").contains("blue"));

    let mut plain = Editor::start(&home, &json!({}));
    let session = plain.new_session(&dir);
    assert_eq!(plain.prompt(&session, "m1: elicit Which colour?"), "end_turn");
    assert!(plain.text("agent_message_chunk").contains("- red"), "{:?}", plain.since_mark());
    assert_eq!(plain.prompt(&session, "red"), "end_turn");
    assert!(plain.text("agent_message_chunk").contains("\"colour\":\"red\""));
}
