//! Permissions: any client may answer, an answer counts once, and no action is performed twice.

use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::server::is_alive;
use crate::harness::wait_until;

#[test]
fn a_permission_is_answered_by_another_client_in_the_same_request_of_the_agent() {
    // R219, R220, R225: the process waits and then continues.
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: say before; ask touch x; say after");
    let asked = stage.suspensions("s");
    assert_eq!((asked.len(), &asked[0]["kind"]), (1, &json!("permission")), "{asked:?}");
    assert_eq!(
        (&asked[0]["question"], &asked[0]["tool_calls"][0]["params"]),
        (&json!("touch x"), &json!({"command": "touch x"}))
    );
    assert_eq!(stage.effects("s"), [""; 0], "nothing is done before it is allowed");
    stage.answer("s", &asked[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!(
        (stage.effects("s"), stage.starts()),
        (vec!["touch x".to_owned()], 1),
        "once, by the process that asked"
    );
    assert_eq!(stage.words("s"), "before|after");
    let result = &stage.parts("s", "tool_result")[0];
    assert_eq!(
        (&result["is_error"], &result["content"]),
        (&json!(false), &json!("did touch x")),
        "{result}"
    );
    let again = stage.post(
        "s",
        "resume",
        &json!({"suspension_id": asked[0]["id"], "choice": asked[0]["options"][0]["id"]}),
    );
    assert_eq!((again.status, &again.body["code"]), (409, &json!("suspension_consumed")));
}

#[test]
fn two_concurrent_permissions_get_an_answer_each() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: both one, two");
    let asked = stage.suspensions("s");
    assert_eq!(
        asked.iter().map(|one| one["question"].as_str().unwrap_or_default()).collect::<Vec<_>>(),
        ["one", "two"]
    );
    stage.answer("s", &asked[1], "reject_once");
    assert_eq!(stage.suspensions("s").len(), 1, "the other is still open");
    assert_eq!(stage.effects("s"), [""; 0]);
    stage.answer("s", &asked[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!((stage.effects("s"), stage.starts()), (vec!["one".to_owned()], 1));
}

#[test]
fn a_permission_survives_a_killed_server_and_its_action_happens_once() {
    // R231, R232: the process and the server that asked are both gone.
    for habits in ["", "no-resume", "refuses-load"] {
        let mut stage = AgentServer::new(habits);
        stage.session("s", false);
        stage.say("s", "m1: say first");
        stage.send("s", "m2: ask touch x; say after");
        let asked = stage.suspensions("s");
        let pid = stage.pid();
        stage.kill_server();
        wait_until("the agent is gone", || !is_alive(pid));
        stage.start_server();
        assert_eq!(stage.suspensions("s")[0]["id"], asked[0]["id"], "it still waits");
        stage.answer("s", &asked[0], "allow_once");
        let info = stage.client.settled("s");
        assert_eq!(
            (&info["state"], &info["status"]),
            (&json!("idle"), &json!("active")),
            "{habits}: {info}"
        );
        assert_eq!(
            (stage.effects("s"), stage.starts()),
            (vec!["touch x".to_owned()], 2),
            "{habits}"
        );
        stage.knows_once("agent", &["m1", "m2"]);
        stage.say("s", "m3: say third");
        stage.knows_once("agent", &["m1", "m2", "m3"]);
    }
}

#[test]
fn a_changed_command_needs_a_new_permission() {
    let mut stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: waver touch x");
    let asked = stage.suspensions("s");
    stage.kill_server();
    stage.start_server();
    stage.answer("s", &asked[0], "allow_once");
    let anew = stage.suspensions("s");
    assert_eq!((anew.len(), &anew[0]["question"]), (1, &json!("touch x really")));
    assert_eq!(stage.effects("s"), [""; 0], "what was allowed was something else");
    stage.answer("s", &anew[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!(stage.effects("s"), ["touch x really"]);
}

#[test]
fn a_rejected_action_never_happens_not_even_after_a_crash() {
    for crash in [false, true] {
        let mut stage = AgentServer::new("");
        stage.session("s", false);
        stage.send("s", "m1: ask touch x; say after");
        let asked = stage.suspensions("s");
        if crash {
            stage.kill_server();
            stage.start_server();
        }
        stage.answer("s", &asked[0], "reject_once");
        assert_eq!(stage.client.settled("s")["state"], "idle");
        assert_eq!(
            (stage.effects("s"), stage.words("s").as_str()),
            (vec![], "after"),
            "crash: {crash}"
        );
    }
}

#[test]
fn an_action_done_before_a_crash_is_not_allowed_again() {
    // The process that asked consumed the first answer; the second one arrived after it was gone.
    let mut stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: ask one; relapse one, two");
    stage.answer("s", &stage.suspensions("s")[0], "allow_once");
    wait_until("the second is asked", || stage.info("s")["suspension"]["question"] == "two");
    assert_eq!(stage.effects("s"), ["one"]);
    let asked = stage.suspensions("s");
    stage.kill_server();
    stage.start_server();
    stage.answer("s", &asked[0], "allow_once");
    let anew = stage.suspensions("s");
    assert_eq!(anew[0]["question"], "one", "it is asked anew");
    let told = stage.prompts().last().expect("a prompt")["prompt"]
        .as_array()
        .and_then(|blocks| blocks.last())
        .cloned();
    let told = told.as_ref().and_then(Value::as_str).unwrap_or_default();
    assert!(
        told.contains("{\"command\":\"two\"}") && !told.contains("{\"command\":\"one\"}"),
        "{told}"
    );
    stage.answer("s", &anew[0], "reject_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!(stage.effects("s"), ["one", "two"], "each once");
}

#[test]
fn a_waiting_process_ends_after_the_hold_and_a_later_answer_still_works() {
    let stage = AgentServer::configured(
        "",
        "[clocks]\npermission_hold = \"200ms\"\nprocess_idle = \"50ms\"\n",
    );
    stage.session("s", false);
    stage.send("s", "m1: ask touch x");
    let asked = stage.suspensions("s");
    let pid = stage.pid();
    wait_until("the process is ended", || !is_alive(pid));
    assert_eq!(
        stage.events("permission")[0]["outcome"],
        json!({"outcome": "cancelled"}),
        "the agent was told that the request is cancelled"
    );
    assert_eq!(stage.suspensions("s")[0]["id"], asked[0]["id"], "the session still waits");
    stage.answer("s", &asked[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!((stage.effects("s"), stage.starts()), (vec!["touch x".to_owned()], 2));
    stage.knows_once("agent", &["m1"]);
}

#[test]
fn an_agent_that_died_while_it_waited_is_started_again_for_the_answer() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: ask touch x");
    let asked = stage.suspensions("s");
    // Before it died it wrote more output than a pipe holds that is not read.
    stage.open("chatter");
    wait_until("the agent has written more output", || {
        stage.home("agent").join("chattered").exists()
    });
    stage.kill_agent();
    stage.answer("s", &asked[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!(stage.parts("s", "error"), Vec::<Value>::new());
    assert_eq!((stage.effects("s"), stage.starts()), (vec!["touch x".to_owned()], 2));
    stage.knows_once("agent", &["m1"]);
}

#[test]
fn cancelling_a_suspension_notifies_the_agent_and_the_next_message_works() {
    // R223, R248
    for habits in ["", "forgets-cancelled", "stays"] {
        let stage = AgentServer::new(habits);
        stage.session("s", false);
        stage.send("s", "m1: ask touch x");
        stage.suspensions("s");
        stage.cancel("s");
        let info = stage.say("s", "m2: say second");
        assert_eq!((&info["state"], &info["status"]), (&json!("idle"), &json!("active")));
        assert_eq!(stage.events("permission")[0]["outcome"], json!({"outcome": "cancelled"}));
        assert_eq!((stage.effects("s"), stage.words("s").as_str()), (vec![], "second"), "{habits}");
        stage.knows_once("agent", &["m1", "m2"]);
        assert!(!overlapped(&stage), "{habits}: two processes had the same conversation");
    }
}

/// Whether a process opened a conversation that another process still had open.
pub(super) fn overlapped(stage: &AgentServer) -> bool {
    ["session/load", "session/resume"]
        .iter()
        .flat_map(|what| stage.events(what))
        .any(|event| event["overlap"] == true)
}
