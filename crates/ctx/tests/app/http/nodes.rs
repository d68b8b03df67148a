//! Several nodes on one PostgreSQL database: who runs a message, who takes over, and what followers
//! see from any node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::client::Event;
use crate::harness::server::{Home, Server, configured_home, signal};
use crate::harness::test_store::on_postgres;
use crate::harness::wait_until;

/// Whether a test is left out because processes on one machine share an embedded store.
fn is_left_out() -> bool {
    if !on_postgres() {
        eprintln!("left out: it is about nodes on a database server");
    }
    !on_postgres()
}

/// Two nodes on one database.
fn two_nodes(config: &str) -> (Home, Server, Server) {
    let home = configured_home(config);
    let (first, second) = (Server::in_dir(home.clone()), Server::in_dir(home.clone()));
    first.wait_until_ready();
    second.wait_until_ready();
    (home, first, second)
}

fn send(server: &Server, session: &str, text: &str) -> Value {
    server.post(&format!("/api/sessions/{session}/messages"), &json!({"text": text})).is(202)
}

/// Starts a long run on a node, and waits until a follower on another one sees its words.
fn start_long_run(first: &Server, second: &Server) {
    first.session("one");
    send(first, "one", "slow 5000");
    let mut stream = second.follow("/api/sessions/one/events", Some(0));
    while stream.next().expect("an event").name != "message.delta" {}
}

fn owner(home: &Home, session: &str) -> String {
    let sql = format!("SELECT coalesce(owner, 'none') FROM sessions WHERE label = '{session}'");
    home.sql().text(&sql).expect("a session")
}

fn said(events: &[Event]) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event.name == "message.delta") {
        let text = texts.entry(event.data["message_id"].to_string()).or_default();
        let offset = event.data["offset"].as_u64().expect("an offset") as usize;
        let known = text.chars().count();
        assert!(offset == known || (offset == 0 && event.data["draft"] == true), "{event:?}");
        if offset == 0 {
            text.clear();
        }
        text.push_str(event.data["text"].as_str().expect("text"));
    }
    texts
}

#[test]
fn a_follower_on_another_node_sees_words_and_events_in_order() {
    if is_left_out() {
        return;
    }
    let (_home, first, second) = two_nodes("");
    first.session("one");
    let mut stream = second.follow("/api/sessions/one/events", Some(0));
    send(&first, "one", "slow 30");
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Event| event.name != "turn.committed") {
        events.push(stream.next().expect("an event"));
    }
    let numbers: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let (messages, _) = second.everything("one");
    let answer = messages.iter().find(|message| message["role"] == "assistant").expect("an answer");
    let texts = said(&events);
    let words = texts.get(&answer["id"].to_string()).expect("its words");
    assert_eq!(words.trim(), answer["content"][0]["text"].as_str().expect("text").trim());
    let deltas = events.iter().filter(|event| event.name == "message.delta").count();
    assert!(deltas >= 10, "words arrive while they are written: {deltas} deltas");
}

#[test]
fn a_client_that_changes_nodes_in_mid_stream_misses_no_event() {
    if is_left_out() {
        return;
    }
    let (_home, first, second) = two_nodes("");
    first.session("one");
    send(&first, "one", "slow 60");
    let (mut last, mut numbers, mut turn) = (0, Vec::new(), false);
    let mut nodes = [&second, &first].into_iter().cycle();
    while !turn {
        let node = nodes.next().expect("a node");
        let mut stream = node.follow("/api/sessions/one/events", Some(last));
        let mut deltas = 0;
        // A few words on each node.
        while deltas < 5 && !turn {
            let event = stream.next().expect("an event");
            deltas += usize::from(event.name == "message.delta");
            turn = event.name == "turn.committed";
            if let Some(id) = event.id {
                numbers.push(id);
                last = id;
            }
        }
    }
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
}

#[test]
fn an_idle_session_belongs_to_no_node_and_is_run_by_the_one_that_accepts() {
    if is_left_out() {
        return;
    }
    let (home, first, second) = two_nodes("");
    first.session("one");
    send(&first, "one", "hello");
    first.settled("one");
    assert_eq!(owner(&home, "one"), "none");
    send(&second, "one", "slow 5000");
    wait_until("it runs", || first.read("/api/sessions/one")["state"] == "running");
    let node = owner(&home, "one");
    // A message to the other node wakes the owner: it interrupts the run.
    send(&first, "one", "never mind");
    let settled = first.settled("one");
    assert_eq!(settled["turn_count"], 3);
    assert_ne!(node, "none");
}

#[test]
fn a_message_goes_to_the_node_that_has_the_live_agent() {
    if is_left_out() {
        return;
    }
    let mut agents = AgentServer::new("");
    let second = Server::in_dir(agents.home_dir());
    agents.session("one", false);
    agents.say("one", "say hello");
    let before = agents.starts();
    assert_ne!(owner(&agents.home_dir(), "one"), "none", "the agent's node keeps the session");
    send(&second, "one", "say again");
    assert_eq!(second.settled("one")["turn_count"], 2);
    assert_eq!(agents.starts(), before, "the same agent process has answered");
    // A dead node keeps nothing.
    agents.kill_server();
    let began = Instant::now();
    send(&second, "one", "say more");
    wait_until("the other node runs it", || second.read("/api/sessions/one")["turn_count"] == 3);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_message_that_its_node_has_no_room_for_is_run_by_another() {
    if is_left_out() {
        return;
    }
    let (_home, first, second) = two_nodes("[server]\nmax_runs = 1\n");
    for label in ["one", "two"] {
        first.session(label);
    }
    send(&first, "one", "slow 5000");
    let waits = send(&first, "two", "hello");
    assert_eq!(waits["run_id"], Value::Null);
    assert_eq!(second.settled("two")["turn_count"], 1);
    assert_eq!(first.read("/api/sessions/one")["state"], "running");
}

#[test]
fn another_node_takes_over_from_a_killed_one() {
    // R238
    if is_left_out() {
        return;
    }
    let (_home, first, second) = two_nodes("[server]\nlease = \"2s\"\n");
    start_long_run(&first, &second);
    first.post("/api/sessions/one/messages", &json!({"text": "next", "queue_mode": "queue"}));
    first.kill();
    wait_until("both turns are there", || second.read("/api/sessions/one")["turn_count"] == 2);
    let turns = second.read("/api/sessions/one/turns?order=asc");
    let statuses: Vec<&Value> =
        turns["turns"].as_array().expect("turns").iter().map(|turn| &turn["status"]).collect();
    assert!(statuses.contains(&&json!("interrupted")), "{turns}");
    assert!(statuses.contains(&&json!("completed")), "{turns}");
}

#[test]
fn a_node_that_was_stopped_beyond_its_lease_changes_nothing_any_more() {
    // R238
    if is_left_out() {
        return;
    }
    let (_home, first, second) = two_nodes("[server]\nlease = \"2s\"\n");
    start_long_run(&first, &second);
    signal("-STOP", first.pid());
    wait_until("the other node takes over", || second.read("/api/sessions/one")["state"] == "idle");
    let before = second.everything("one");
    signal("-CONT", first.pid());
    first.wait_until_ready();
    send(&first, "one", "hello");
    second.settled("one");
    let after = second.everything("one");
    assert_eq!(after.0[..before.0.len()], before.0[..], "the late node has added no word");
}

#[test]
fn a_node_that_drains_leaves_its_backlog_to_others() {
    if is_left_out() {
        return;
    }
    let (_home, first, second) = two_nodes("");
    first.session("one");
    send(&first, "one", "slow 20");
    first.post("/api/sessions/one/messages", &json!({"text": "next", "queue_mode": "queue"}));
    signal("-TERM", first.pid());
    let (exit, _, _dir) = first.ended();
    assert_eq!(exit, Some(0));
    wait_until("both turns are there", || second.read("/api/sessions/one")["turn_count"] == 2);
    let turns = second.read("/api/sessions/one/turns");
    for turn in turns["turns"].as_array().expect("turns") {
        assert_eq!(turn["status"], "completed", "{turns}");
    }
}
