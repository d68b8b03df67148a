//! The context of an agent: its own conversation where that is proven to match the history,
//! everything it missed exactly once, and no conversation or setting of another session.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::ctx;

impl AgentServer {
    /// The id of the agent's conversation that got the newest prompt, and the text of that prompt.
    pub(super) fn last_prompt(&self, provider: &str) -> (String, String) {
        let prompt = self.records(provider, "prompts.jsonl").last().cloned().expect("a prompt");
        let blocks = prompt["prompt"]
            .as_array()
            .expect("blocks")
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("\n\n");
        (prompt["conversation"].as_str().expect("a name").to_owned(), blocks)
    }

    fn say_to(&self, label: &str, provider: &str, text: &str) {
        self.send_with(label, &json!({"text": text, "provider_id": provider}));
        assert_eq!(self.client.settled(label)["state"], "idle");
    }
}

#[test]
fn two_alternating_agents_get_each_missed_message_once() {
    // R235, R236, R237
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say_to("s", "agent", "m1: say one");
    stage.say_to("s", "other", "m2: say two");
    stage.knows_once("other", &["m1", "m2"]);
    stage.say_to("s", "agent", "m3: say three");
    stage.knows_once("agent", &["m1", "m2", "m3"]);
    let (_, told) = stage.last_prompt("agent");
    assert!(
        told.contains("<conversation-meanwhile>") && told.contains("two") && !told.contains("m1: "),
        "{told}"
    );
    stage.say_to("s", "agent", "m4: say four");
    assert_eq!(
        stage.last_prompt("agent").1,
        "m4: say four",
        "messages that it has seen are not sent again"
    );
    stage.say_to("s", "other", "m5: say five");
    stage.knows_once("other", &["m1", "m2", "m3", "m4", "m5"]);
    let conversations = |provider: &str| {
        let prompts = stage.records(provider, "prompts.jsonl");
        prompts
            .iter()
            .filter_map(|prompt| prompt["conversation"].as_str().map(str::to_owned))
            .collect::<HashSet<_>>()
            .len()
    };
    assert_eq!(
        (conversations("agent"), conversations("other")),
        (1, 1),
        "each has one conversation and continues it"
    );
    assert_eq!(stage.info("s")["provider_id"], Value::Null, "a message's choice is for its run");
}

#[test]
fn an_agent_that_cannot_resume_gets_the_whole_history_once() {
    // R237: the agent refuses to resume its conversation, or does not support it.
    for habits in ["refuses-load", "no-load no-resume"] {
        let mut stage = AgentServer::new(habits);
        stage.session("s", false);
        stage.say("s", "m1: say one");
        stage.say("s", "m2: say two");
        assert_eq!(stage.last_prompt("agent").1, "m2: say two", "while its process lives it knows");
        assert!(stage.end_server() == Some(0));
        stage.start_server();
        stage.say("s", "m3: say three");
        stage.knows_once("agent", &["m1", "m2", "m3"]);
        assert!(stage.last_prompt("agent").1.contains("<conversation-so-far>"), "{habits}");
        assert_eq!(stage.words("s"), "one|two|three");
    }
}

#[test]
fn forks_and_rewound_sessions_have_agent_sessions_of_their_own() {
    // R155, R158: two sessions never share a conversation of the agent.
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say("s", "m1: say one");
    let first = stage.info("s")["head"].clone();
    stage.say("s", "m2: say two");
    let (of_s, _) = stage.last_prompt("agent");
    let forked = stage.post("s", "fork", &json!({"label": "f", "turn_id": first}));
    assert_eq!(forked.status, 201, "{}", forked.body);
    stage.say("f", "m3: say three");
    let (of_f, told) = stage.last_prompt("agent");
    assert!(of_f != of_s && !told.contains("m2: "), "{told}");
    stage.knows_once("agent", &["m1", "m3"]);
    stage.say("s", "m4: say four");
    assert_eq!(
        stage.last_prompt("agent"),
        (of_s.clone(), "m4: say four".to_owned()),
        "the first session is not affected"
    );
    assert_eq!(stage.post("s", "rewind", &json!({"turn_id": first})).status, 200);
    stage.say("s", "m5: say five");
    let (rewound, told) = stage.last_prompt("agent");
    assert!(
        rewound != of_s && rewound != of_f && !told.contains("m2: ") && !told.contains("m4: "),
        "{told}"
    );
    stage.knows_once("agent", &["m1", "m5"]);
    stage.say("f", "m6: say six");
    assert_eq!(stage.last_prompt("agent").0, of_f);
}

#[test]
fn settings_and_models_of_one_session_are_not_those_of_another() {
    // R236: the model of a message applies to its run, the options of a session to the session.
    let stage = AgentServer::new("");
    for label in ["a", "b"] {
        stage.session(label, false);
        stage.say(label, "m1: say one");
    }
    assert_eq!(stage.events("set"), Vec::<Value>::new(), "no option was set");
    let patched = |label: &str, options: Value| {
        let answer = stage.client.send(
            "PATCH",
            &format!("/api/sessions/{label}"),
            &json!({"options": options}),
        );
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    let conversation = |label: &str| {
        stage.say(label, "m2: say two");
        stage.last_prompt("agent").0
    };
    let sets = || {
        stage
            .events("set")
            .iter()
            .map(|event| (event["conversation"].clone(), event["to"].clone()))
            .collect::<Vec<_>>()
    };
    patched("a", json!({"mode": "plan"}));
    let a = json!(conversation("a"));
    assert_eq!(sets(), [(a.clone(), json!("plan"))]);
    patched("b", json!({"mode": "plan"}));
    let b = json!(conversation("b"));
    assert_eq!(
        sets(),
        [(a.clone(), json!("plan")), (b, json!("plan"))],
        "what one session has set is not set in the other"
    );
    conversation("a");
    assert_eq!(sets().len(), 2, "what is so already is not set again");
    stage.send_with("a", &json!({"text": "m3: say three", "model": "large"}));
    stage.client.settled("a");
    assert_eq!(sets()[2..], [(a.clone(), json!("large"))]);
    conversation("b");
    assert_eq!(sets().len(), 3, "the other session keeps its model");
    conversation("a");
    assert_eq!(
        sets()[3..],
        [(a, json!("small"))],
        "the next message has the model that it would have had"
    );
}

#[test]
fn a_turn_of_another_ctx_process_reaches_the_agent_once() {
    // R235: the command line runs a turn while a server keeps a process for the same session.
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say("s", "m1: say one");
    let sent =
        ctx(stage.dir()).args(["session", "send", "s", "m2: say two"]).output().expect("it runs");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    stage.knows_once("agent", &["m1", "m2"]);
    stage.say("s", "m3: say three");
    stage.knows_once("agent", &["m1", "m2", "m3"]);
    assert_eq!(stage.words("s"), "one|two|three");
}
