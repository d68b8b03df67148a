//! Requests of an agent to ctx: files, commands, questions; and messages that steer it.

use serde_json::json;

use crate::harness::agent_server::AgentServer;
use crate::harness::wait_until;

#[test]
fn files_inside_the_working_directory_are_served_and_others_become_a_permission() {
    // Design, section 10: links are resolved before the decision.
    let stage = AgentServer::new("");
    stage.session("s", false);
    let (work, outside) = (stage.work("s"), stage.dir().join("outside"));
    std::fs::create_dir_all(&outside).expect("a directory");
    std::os::unix::fs::symlink(&outside, work.join("link")).expect("a link");
    let (inside, out, linked) =
        (work.join("a.txt"), outside.join("b.txt"), work.join("link/c.txt"));
    stage.say("s", &format!("m1: write {} hello; read {}", inside.display(), inside.display()));
    assert_eq!(stage.words("s"), "{}{\"content\":\"hello\"}");
    for (n, path) in [&out, &linked].into_iter().enumerate() {
        stage.send("s", &format!("m{n}: write {} secret", path.display()));
        let asked = stage.suspensions("s");
        assert_eq!(asked[0]["kind"], "permission");
        assert!(
            asked[0]["question"]
                .as_str()
                .is_some_and(|text| text.contains(&path.display().to_string())),
            "{asked:?}"
        );
        assert!(!path.exists());
        stage.answer("s", &asked[0], "reject_once");
        assert_eq!(stage.client.settled("s")["state"], "idle");
        assert!(!path.exists(), "what was not allowed is not done");
    }
    assert!(stage.words("s").contains("did not allow"), "{}", stage.words("s"));
    stage.send("s", &format!("m3: write {} allowed; read {}", out.display(), out.display()));
    stage.answer("s", &stage.suspensions("s")[0], "allow_once");
    wait_until("the second is asked", || {
        stage.info("s")["suspension"]["question"].as_str().is_some_and(|text| text.contains("read"))
    });
    assert_eq!(std::fs::read_to_string(&out).expect("written"), "allowed");
    stage.answer("s", &stage.suspensions("s")[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert!(stage.words("s").ends_with("{\"content\":\"allowed\"}"), "{}", stage.words("s"));
}

#[test]
fn a_file_without_permission_is_never_reported_as_written() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    let path = stage.dir().join("b.txt");
    stage.send("s", &format!("m1: write {} secret", path.display()));
    stage.suspensions("s");
    stage.cancel("s");
    wait_until("it is told", || stage.events("answer").len() == 1);
    assert!(
        stage.events("answer")[0]["answer"]["code"].is_i64(),
        "an error: {:?}",
        stage.events("answer")
    );
    assert!(!path.exists());
}

#[test]
fn a_file_allowed_while_the_agent_was_gone_is_written_once_with_the_requested_content() {
    let mut stage = AgentServer::new("");
    stage.session("s", false);
    let path = stage.dir().join("b.txt");
    stage.send("s", &format!("m1: write {} secret", path.display()));
    let asked = stage.suspensions("s");
    stage.kill_server();
    stage.start_server();
    stage.answer("s", &asked[0], "allow_once");
    assert_eq!(stage.client.settled("s")["state"], "idle", "it is not asked again");
    assert_eq!(std::fs::read_to_string(&path).expect("written"), "secret");
    stage.knows_once("agent", &["m1"]);
}

#[test]
fn commands_run_in_the_working_directory_and_nowhere_else() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say("s", "m1: terminal . echo here > made && echo done");
    assert_eq!(stage.words("s"), "0: \"done\\n\"");
    assert!(stage.work("s").join("made").exists());
    stage.say("s", "m2: terminal / echo there > made");
    assert!(
        stage.words("s").contains("outside the session's working directory"),
        "{}",
        stage.words("s")
    );
}

#[test]
fn a_question_with_choices_is_answered_by_a_message() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: elicit Which colour?");
    let asked = stage.suspensions("s");
    assert_eq!(
        (&asked[0]["kind"], &asked[0]["question"]),
        (&json!("question"), &json!("Which colour?"))
    );
    stage.send("s", "blue");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!(stage.words("s"), "{\"action\":\"accept\",\"content\":{\"colour\":\"blue\"}}");
    stage.say("s", "m2: say two");
    assert_eq!(stage.starts(), 1, "one process has heard it all");
}

#[test]
fn an_agent_is_steered_in_its_turn_also_after_a_suspension() {
    // R148: in one turn, each text once.
    let stage = AgentServer::new("steers");
    stage.session("s", false);
    stage.send("s", "m1: say one; wait go; ask touch x; wait more; say two");
    let steer = |text: &str, gate: &str| {
        stage.waits_at(gate);
        wait_until("it can be steered", || {
            let sent = stage.post("s", "messages", &json!({"text": text, "queue_mode": "steer"}));
            assert!(
                sent.status == 202 || sent.body["code"] == "steer_unavailable",
                "{}",
                sent.body
            );
            sent.status == 202
        });
        wait_until("it has gone in", || {
            stage.client.read("/api/sessions/s/messages").to_string().contains(text)
        });
        stage.open(gate);
    };
    steer("m2: by the way", "go");
    stage.answer("s", &stage.suspensions("s")[0], "allow_once");
    steer("m3: and also", "more");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    assert_eq!((stage.words("s").as_str(), &stage.info("s")["turn_count"]), ("one|two", &json!(1)));
    stage.say("s", "m4: say four");
    stage.knows_once("agent", &["m1", "m2", "m3", "m4"]);
    assert_eq!(stage.starts(), 1, "one process has heard it all");
}

#[test]
fn a_message_that_steers_an_agent_without_support_is_refused() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: wait go");
    stage.waits_at("go");
    let sent = stage.post("s", "messages", &json!({"text": "m2: say two", "queue_mode": "steer"}));
    assert_eq!((sent.status, &sent.body["code"]), (409, &json!("steer_unavailable")));
    stage.open("go");
    stage.client.settled("s");
}
