//! Capabilities that an agent reports, its output outside of answers, and its use of ctx's tools.

use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::{ctx, wait_until};

impl AgentServer {
    fn provider(&self, id: &str) -> Value {
        let all = self.client.read("/api/providers");
        all["providers"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|one| one["id"] == id)
            .cloned()
            .expect("it is listed")
    }
}

#[test]
fn the_capabilities_of_an_agent_are_known_once_it_has_started() {
    let stage = AgentServer::new("steers");
    let before = stage.provider("agent");
    assert_eq!(
        (&before["available"], &before["options"], &before["commands"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    assert_eq!(stage.starts(), 0, "an agent without a message is not started");
    stage.session("s", false);
    assert_eq!(stage.starts(), 0, "nor by a session alone");
    stage.say("s", "m1: say one");
    let after = stage.provider("agent");
    assert_eq!((&after["models"], &after["model"]), (&json!(["small", "large"]), &json!("small")));
    assert_eq!(after["commands"], json!([{"name": "compact", "description": "shorten"}]));
    for ability in ["steer", "load", "resume", "compact"] {
        assert_eq!(after["can"][ability], true, "{ability}");
    }
    let modes = after["options"]
        .as_array()
        .expect("options")
        .iter()
        .find(|option| option["id"] == "mode")
        .cloned()
        .expect("modes");
    assert_eq!(
        (&modes["value"], modes["choices"].as_array().map(Vec::len)),
        (&json!("default"), Some(2))
    );
}

#[test]
fn an_agent_that_needs_a_login_reports_how() {
    let stage = AgentServer::new("login");
    stage.session("s", false);
    let info = stage.say("s", "m1: say one");
    assert_eq!((&info["state"], &info["status"]), (&json!("idle"), &json!("active")));
    let errors = stage.parts("s", "error");
    assert_eq!(errors[0]["code"], "auth_required");
    assert!(
        errors[0]["message"].as_str().is_some_and(|text| text.contains("scripted-agent login")),
        "{errors:?}"
    );
    let auth = &stage.provider("agent")["auth"];
    assert_eq!(auth["required"], true);
    assert!(
        auth["how"].as_str().is_some_and(|text| text.contains("scripted-agent login")),
        "{auth}"
    );
    // R228: another provider continues the session.
    stage.send_with("s", &json!({"text": "hello", "provider_id": "demo"}));
    stage.client.settled("s");
    assert_eq!(stage.parts("s", "error").len(), 1);
}

#[test]
fn a_missing_agent_is_reported_with_a_hint() {
    let stage = AgentServer::new("");
    let told = stage.provider("missing");
    assert_eq!(told["available"], false);
    assert!(told["reason"].as_str().is_some_and(|text| text.contains("not on PATH")), "{told}");
    stage.session("s", false);
    stage.send_with("s", &json!({"text": "m1: say one", "provider_id": "missing"}));
    stage.client.settled("s");
    let errors = stage.parts("s", "error");
    assert_eq!(errors[0]["code"], "agent_missing");
    assert!(
        errors[0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("Install it, or change `command`")),
        "{errors:?}"
    );
}

#[test]
fn invalid_output_is_ignored_and_stderr_is_kept_in_a_log() {
    let stage = AgentServer::new("");
    let session = stage.session("s", false);
    stage.say("s", "m1: noise; think hm; say after");
    assert_eq!(stage.words("s"), "refused with -32601|after");
    assert_eq!(stage.parts("s", "thought")[0]["text"], "hm");
    assert_eq!(
        stage.parts("s", "tool_call")[0]["status"],
        "completed",
        "a call that was never begun"
    );
    let log = stage
        .dir()
        .join("data/logs/agents")
        .join(format!("{}.log", session["id"].as_str().expect("an id")));
    wait_until("it is kept", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("a warning on stderr"))
    });
}

#[test]
fn the_tool_ask_user_reaches_the_task_of_the_session_that_the_agent_works_for() {
    // Design, section 7: the call returns at once; the session is idle and the task awaits the
    // user.
    let stage = AgentServer::new("");
    stage.session("s", true);
    stage.say("s", "m1: tool Choose the colour of the header");
    let info = stage.info("s");
    assert_eq!(
        (&info["state"], &info["task"]["state"]["name"]),
        (&json!("idle"), &json!("awaiting_user")),
        "{info}"
    );
    assert_eq!(info["task"]["state"]["question"], "Choose the colour of the header");
    assert!(
        stage.words("s").starts_with("[\"ask_user\", \"finish_task\", "),
        "{}",
        stage.words("s")
    );
}

#[test]
fn actions_of_an_agent_are_recorded_in_the_task_once() {
    // Design, section 7: whether the agent or ctx performed the action.
    let stage = AgentServer::new("");
    stage.session("s", true);
    let file = |name: &str| stage.work("s").join(name).display().to_string();
    let text = format!(
        "m1: run make it; terminal . echo hi; write {} one; edit {} two; say done",
        file("a.txt"),
        file("b.txt")
    );
    let info = stage.say("s", &text);
    assert_eq!(info["task"]["state"]["name"], "pending_complete", "{info}");
    stage.say("s", "yes, that is right");
    let commit = stage.client.read("/api/commits")["commits"][0].clone();
    assert_eq!(
        commit["files"],
        json!([{"path": "a.txt", "written": true}, {"path": "b.txt", "written": true}])
    );
    let (mut step, mut seen) = (commit["steps"]["last"].clone(), Vec::new());
    while let Some(id) = step.as_str() {
        let shown = ctx(stage.dir()).args(["show", "--json", id]).output().expect("shown").stdout;
        let content = serde_json::from_slice::<Value>(&shown).expect("JSON")["content"].take();
        for entry in content["payload"].as_array().expect("entries") {
            match entry["type"].as_str() {
                Some("command") => {
                    let line =
                        entry["argv"].as_array().and_then(|argv| argv.last()).expect("words");
                    seen.push(format!("{line} {}", entry["exit"]));
                }
                Some("file_write") => seen.push(entry["path"].as_str().expect("a path").to_owned()),
                _ => {}
            }
        }
        step = content["parent"].clone();
    }
    seen.sort();
    assert_eq!(seen, ["\"echo hi\" 0", "\"make it\" 0", "a.txt", "b.txt"]);
}

#[test]
fn a_missing_working_directory_is_reported() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    std::fs::remove_dir(stage.work("s")).expect("removed");
    stage.say("s", "m1: say one");
    let errors = stage.parts("s", "error");
    assert_eq!((&errors[0]["code"], stage.starts()), (&json!("working_dir_missing"), 0));
    std::fs::create_dir(stage.work("s")).expect("made");
    stage.say("s", "m2: say two");
    stage.knows_once("agent", &["m1", "m2"]);
}
