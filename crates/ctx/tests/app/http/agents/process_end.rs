//! Agent processes that are stopped, killed or idle: the session stays usable and no process is
//! left.

use serde_json::json;

use super::permissions::overlapped;
use crate::harness::agent_server::AgentServer;
use crate::harness::server::is_alive;
use crate::harness::wait_until;

#[test]
fn a_cancelled_answer_is_kept_in_part_and_the_next_message_works() {
    // R223: also with an agent that forgets a cancelled turn, and with one that does not exit when
    // its input ends.
    for habits in ["", "forgets-cancelled", "no-resume", "refuses-load", "stays"] {
        let stage = AgentServer::new(habits);
        stage.session("s", false);
        stage.say("s", "m1: say first");
        stage.send("s", "m2: say half; wait never; say rest");
        stage.waits_at("never");
        wait_until("it is heard", || stage.words("s") == "first|half");
        stage.cancel("s");
        assert_eq!(stage.events("cancel").len(), 1);
        stage.say("s", "m3: say third");
        assert_eq!(stage.words("s"), "first|half|third", "{habits}");
        let told = stage.last_prompt("agent").1;
        let mark = "[This answer is incomplete: it was cancelled by the user.]";
        assert_eq!(told.matches(mark).count(), 1, "{habits}: {told}");
        assert!(told.ends_with("m3: say third"), "{habits}: the new message is last: {told}");
        stage.knows_once("agent", &["m1", "m2", "m3"]);
        assert!(!overlapped(&stage), "{habits}: two processes had the same conversation");
    }
}

#[test]
fn an_agent_is_told_that_a_request_was_cancelled_before_it_was_answered() {
    // R223, R237
    for habits in ["", "forgets-cancelled", "refuses-load"] {
        let stage = AgentServer::new(habits);
        stage.session("s", false);
        stage.say("s", "m1: say first");
        stage.send("s", "m2: wait never; say rest");
        stage.waits_at("never");
        stage.cancel("s");
        stage.say("s", "m3: say third");
        let told = stage.last_prompt("agent").1;
        let mark = "cancelled by the user before it was answered. Do not act on it unless asked";
        assert_eq!(told.matches(mark).count(), 1, "{habits}: {told}");
        assert!(told.ends_with("m3: say third"), "{habits}: the new message is last: {told}");
        stage.knows_once("agent", &["m1", "m2", "m3"]);
    }
}

#[test]
fn an_agent_that_ignores_a_cancel_is_killed_and_a_late_request_is_answered() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: stare late; ask touch x");
    stage.waits_at("late");
    let client = stage.client;
    let cancelling = std::thread::spawn(move || client.post("/api/sessions/s/cancel", &json!({})));
    wait_until("it was told", || stage.events("cancel").len() == 1);
    stage.open("late");
    assert_eq!(cancelling.join().expect("an answer").status, 200);
    assert_eq!(stage.events("permission").len(), 0, "it has heard by then that it is to stop");
    // This agent asks although it was cancelled.
    stage.send("s", "m2: stare later; insist touch y");
    stage.waits_at("later");
    let client = stage.client;
    let cancelling = std::thread::spawn(move || client.post("/api/sessions/s/cancel", &json!({})));
    wait_until("it was told", || stage.events("cancel").len() == 2);
    stage.open("later");
    assert_eq!(cancelling.join().expect("an answer").status, 200);
    assert_eq!(
        stage.events("permission")[0]["outcome"],
        json!({"outcome": "cancelled"}),
        "the agent learns that there will be no answer"
    );
    assert_eq!(stage.effects("s"), [""; 0]);
    // This agent ignores the cancel request.
    stage.send("s", "m3: children; stare never");
    stage.waits_at("never");
    let (pid, began) = (stage.pid(), std::time::Instant::now());
    stage.cancel("s");
    let answered = began.elapsed();
    assert!(answered.as_secs() < 3, "the client is answered at once: {answered:?}");
    assert!(is_alive(pid), "the agent has time to stop");
    // The next message is accepted at once and waits for the end of the process.
    stage.say("s", "m4: say fourth");
    assert!(!is_alive(pid));
    assert!((8..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    wait_until("and all its children", || {
        stage.events("child").iter().all(|event| !is_alive(event["child"].as_u64().unwrap_or(0)))
    });
    assert!(!overlapped(&stage), "two processes had the same conversation");
    stage.knows_once("agent", &["m1", "m2", "m3", "m4"]);
}

#[test]
fn a_slow_start_of_a_conversation_can_be_cancelled() {
    let stage = AgentServer::new("slow");
    stage.session("s", false);
    stage.send("s", "m1: say first");
    stage.waits_at("opening");
    let (pid, began) = (stage.pid(), std::time::Instant::now());
    stage.cancel("s");
    assert!(
        began.elapsed().as_secs() < 4,
        "a cancel does not wait for an agent without a prompt: {:?}",
        began.elapsed()
    );
    wait_until("it is ended", || !is_alive(pid));
    stage.open("opening");
    stage.say("s", "m2: say second");
    stage.knows_once("agent", &["m1", "m2"]);
}

#[test]
fn an_agent_killed_in_its_answer_is_an_error_in_the_turn_and_starts_again() {
    // R203, R228
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say("s", "m1: say first");
    stage.send("s", "m2: children; say half; wait never");
    stage.waits_at("never");
    wait_until("it is heard", || stage.words("s") == "first|half");
    stage.kill_agent();
    let info = stage.client.settled("s");
    assert_eq!(
        (&info["state"], &info["status"]),
        (&json!("idle"), &json!("active")),
        "its end changes nothing else"
    );
    let errors = stage.parts("s", "error");
    assert_eq!(
        (errors.len(), &errors[0]["code"], &errors[0]["provider_id"]),
        (1, &json!("agent_exited"), &json!("agent"))
    );
    assert!(
        errors[0]["message"].as_str().is_some_and(
            |text| text.contains("signal: 9") && text.contains("the scripted agent is here")
        ),
        "{errors:?}"
    );
    wait_until("what it started is gone", || {
        stage.events("child").iter().all(|event| !is_alive(event["child"].as_u64().unwrap_or(0)))
    });
    stage.say("s", "m3: say third");
    assert_eq!((stage.words("s").as_str(), stage.starts()), ("first|half|third", 2));
    stage.knows_once("agent", &["m1", "m2", "m3"]);
    stage.say("s", "m4: say fourth; die");
    let errors = stage.parts("s", "error");
    assert!(
        errors[1]["message"].as_str().is_some_and(|text| text.contains("exit status: 3")),
        "{errors:?}"
    );
}

#[test]
fn an_agent_that_died_between_two_messages_is_started_again() {
    // R203: also where it sent output after its turn, which belongs to no turn.
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say("s", "m1: say first; late too late");
    wait_until("the late output was sent", || stage.events("late").len() == 1);
    stage.kill_agent();
    stage.say("s", "m2: say second");
    assert_eq!((stage.words("s").as_str(), stage.parts("s", "error").len()), ("first|second", 0));
    assert_eq!(stage.starts(), 2);
    stage.knows_once("agent", &["m1", "m2"]);
}

#[test]
fn output_after_a_turn_is_not_part_of_the_next_turn() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.say("s", "m1: say first; late too late");
    wait_until("the late output was sent", || stage.events("late").len() == 1);
    stage.say("s", "m2: say second");
    assert_eq!((stage.words("s").as_str(), stage.starts()), ("first|second", 1));
}

#[test]
fn a_killed_server_leaves_no_agent_and_no_child_of_an_agent() {
    // R203, R233: an agent that does not exit when its input ends, with a child in its own process
    // session.
    let mut stage = AgentServer::new("stays");
    stage.session("s", false);
    stage.say("s", "m1: say first");
    stage.send("s", "m2: children; say half; terminal . echo $$ > pid && exec sleep 1000");
    let command = || {
        std::fs::read_to_string(stage.work("s").join("pid"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
    };
    wait_until("the command runs", || command().is_some());
    wait_until("it is heard", || stage.words("s") == "first|half");
    let mut all: Vec<u64> =
        stage.events("child").iter().filter_map(|event| event["child"].as_u64()).collect();
    all.extend([stage.pid(), command().expect("its number")]);
    assert!(all.len() == 4 && all.iter().all(|pid| is_alive(*pid)), "{all:?}");
    stage.kill_server();
    wait_until("all are gone", || all.iter().all(|pid| !is_alive(*pid)));
    stage.start_server();
    let info = stage.client.settled("s");
    assert_eq!((&info["state"], &info["status"]), (&json!("idle"), &json!("suspended")), "{info}");
    let turns = stage.client.read("/api/sessions/s/turns");
    let statuses: Vec<&str> = turns["turns"]
        .as_array()
        .expect("turns")
        .iter()
        .filter_map(|turn| turn["status"].as_str())
        .collect();
    assert!(statuses.contains(&"interrupted"), "{statuses:?}");
    let info = stage.say("s", "m3: say third");
    assert_eq!(info["status"], "active");
    assert_eq!(stage.words("s"), "first|half|third");
    stage.knows_once("agent", &["m1", "m2", "m3"]);
    let last = stage.prompts().last().expect("a prompt")["prompt"].to_string();
    assert!(
        last.contains("cut-off") && last.contains("half"),
        "the prompt has the interrupted answer: {last}"
    );
}

#[test]
fn a_server_that_stops_ends_its_agents() {
    let mut stage = AgentServer::new("stays");
    stage.session("s", false);
    stage.say("s", "m1: children; say first");
    let mut all: Vec<u64> =
        stage.events("child").iter().filter_map(|event| event["child"].as_u64()).collect();
    all.push(stage.pid());
    assert!(stage.end_server() == Some(0));
    wait_until("all are gone", || all.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn an_idle_session_has_no_process_and_the_next_message_starts_one() {
    // R208
    let stage = AgentServer::configured("", "[clocks]\nprocess_idle = \"100ms\"\n");
    stage.session("s", false);
    let before = stage.say("s", "m1: children; say first");
    let pid = stage.pid();
    wait_until("its process has ended", || !is_alive(pid));
    wait_until("and all its children", || {
        stage.events("child").iter().all(|event| !is_alive(event["child"].as_u64().unwrap_or(0)))
    });
    let after = stage.info("s");
    assert_eq!(
        (&after["status"], &after["state"], &after["seq"]),
        (&before["status"], &before["state"], &before["seq"])
    );
    stage.say("s", "m2: say second");
    assert_eq!((stage.starts(), stage.events("session/resume").len()), (2, 1));
    stage.knows_once("agent", &["m1", "m2"]);
}

#[test]
fn an_interrupting_and_a_waiting_message_reach_the_agent_once() {
    // R139: the partial answer is kept, and the backlog runs after the interrupting message.
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: say half; wait never");
    stage.waits_at("never");
    wait_until("it is heard", || stage.words("s") == "half");
    stage.send_with("s", &json!({"text": "m2: say last", "queue_mode": "queue"}));
    stage.send_with("s", &json!({"text": "m3: say soon", "queue_mode": "interrupt"}));
    wait_until("both were answered", || stage.words("s") == "half|soon|last");
    assert_eq!(stage.client.settled("s")["state"], "idle");
    stage.knows_once("agent", &["m1", "m2", "m3"]);
}

#[test]
fn an_interrupting_message_cancels_a_suspension() {
    let stage = AgentServer::new("");
    stage.session("s", false);
    stage.send("s", "m1: ask touch x");
    let asked = stage.suspensions("s");
    stage.send_with("s", &json!({"text": "m2: say instead", "queue_mode": "interrupt"}));
    wait_until("it is answered", || stage.words("s") == "instead");
    assert_eq!(stage.events("permission")[0]["outcome"], json!({"outcome": "cancelled"}));
    let late = stage.post(
        "s",
        "resume",
        &json!({"suspension_id": asked[0]["id"], "choice": asked[0]["options"][0]["id"]}),
    );
    assert_eq!((late.status, stage.effects("s").len()), (409, 0), "{}", late.body);
    stage.knows_once("agent", &["m1", "m2"]);
    assert!(!overlapped(&stage));
}

#[test]
fn a_deleted_session_leaves_no_process() {
    for text in ["m1: say first", "m1: ask touch x", "m1: wait never"] {
        let stage = AgentServer::new("");
        stage.session("s", false);
        stage.send("s", text);
        wait_until("it was prompted", || !stage.prompts().is_empty());
        if !text.contains("wait") {
            stage.client.settled("s");
        }
        let pid = stage.pid();
        assert_eq!(stage.client.send("DELETE", "/api/sessions/s", &json!(null)).status, 204);
        wait_until("its process is gone", || !is_alive(pid));
        assert_eq!(stage.effects("s"), [""; 0]);
    }
}
