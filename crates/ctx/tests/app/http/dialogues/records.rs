//! What the transcript shows besides the words: permissions, and messages that waited; and the
//! order of turns and tasks.

use serde_json::{Value, json};

use super::text_of;
use crate::harness::agent_server::AgentServer;
use crate::harness::client::Client;

#[test]
fn an_answered_permission_stays_in_the_transcript_with_the_decision_and_the_client() {
    let agent = AgentServer::new("");
    for (kind, decision) in [("allow_once", "Yes"), ("reject_once", "No")] {
        agent.session(kind, false);
        agent.send(kind, "m1: say before; ask touch x; say after");
        let asked = agent.suspensions(kind)[0].clone();
        let offers = asked["options"].as_array().expect("offers");
        let offer = offers.iter().find(|offer| offer["kind"] == kind).expect("an offer");
        let body = json!({"suspension_id": asked["id"], "choice": offer["id"]});
        let path = format!("/api/sessions/{kind}/resume");
        let headers = [("user-agent", "phone/1.0")];
        let answered = agent.client.try_send("POST", &path, &headers, &body).expect("a response");
        assert_eq!(answered.status, 202, "{}", answered.body);
        agent.client.settled(kind);
        let (messages, _) = agent.client.everything(kind);
        let records: Vec<&Value> =
            messages.iter().filter(|message| message["role"] == "system").collect();
        assert_eq!(records.len(), 1, "{messages:#?}");
        let text = text_of(records[0]);
        for part in ["touch x", decision, "phone/1.0"] {
            assert!(text.contains(part), "`{part}` in {text}");
        }
        assert!(records[0]["created_at"].is_string());
    }
}

#[test]
fn a_message_that_waited_shows_when_it_was_delivered() {
    let agent = AgentServer::new("");
    agent.session("s", false);
    agent.send("s", "m1: wait go; say one");
    agent.waits_at("go");
    agent.send("s", "m2: say two");
    agent.open("go");
    agent.client.settled("s");
    agent.say("s", "m3: say three");
    let (messages, _) = agent.client.everything("s");
    let users = messages.iter().filter(|message| message["role"] == "user");
    let [first, second, third] = users.collect::<Vec<_>>()[..] else { panic!("{messages:#?}") };
    assert_eq!(first.get("delivered_at"), None, "{first}");
    assert_eq!(third.get("delivered_at"), None, "{third}");
    let time = |name: &str| second[name].as_str().unwrap_or_else(|| panic!("{name} in {second}"));
    assert!(time("delivered_at") > time("created_at"), "{second}");
}

/// The ids of a list, read with pages of one row.
fn ids(client: &Client, path: &str, key: &str, order: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.read(&format!("{path}?limit=1{order}{cursor}"));
        let rows = page[key].as_array().expect("a list");
        assert!(rows.len() <= 1 && all.len() < 100, "{page}");
        all.extend(rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[test]
fn turns_and_tasks_are_read_in_both_orders_page_by_page() {
    let agent = AgentServer::new("");
    agent.session("s", true);
    for n in 0..3 {
        agent.next_steps("run make; say Done. I built it.");
        agent.say("s", &format!("Build part number {n}"));
        agent.post("s", "task/confirm", &json!({})).is(200);
    }
    for (key, at_least) in [("turns", 3), ("tasks", 3)] {
        let path = format!("/api/sessions/s/{key}");
        let whole = agent.client.read(&path)[key].clone();
        let rows = whole.as_array().expect("a list").iter();
        let newest: Vec<String> =
            rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
        assert!(newest.len() >= at_least, "{whole}");
        assert_eq!(ids(&agent.client, &path, key, ""), newest, "{key}: newest first");
        assert_eq!(ids(&agent.client, &path, key, "&order=desc"), newest, "{key}");
        let oldest: Vec<String> = newest.into_iter().rev().collect();
        assert_eq!(ids(&agent.client, &path, key, "&order=asc"), oldest, "{key}");
        assert_eq!(agent.client.get(&format!("{path}?order=up")).status, 422, "{key}");
    }
    for order in ["asc", "desc"] {
        let (turn, task) = ("0".repeat(64), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let turns = format!("/api/sessions/s/turns?order={order}&cursor={turn}");
        agent.client.get(&turns).refuses(404, "no_cursor");
        let tasks = format!("/api/sessions/s/tasks?order={order}&cursor={task}");
        agent.client.get(&tasks).refuses(404, "no_cursor");
    }
}
