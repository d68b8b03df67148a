//! A server killed under load: every acknowledged message is in the history or in the inbox, once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::model_server::ModelServer;
use crate::harness::seed::Random;
use crate::harness::server::{Server, configured_home};
use crate::harness::{random_delay, verify, wait_until};

const KILLS: usize = 100;
const SESSIONS: usize = 8;
const MODES: [&str; 6] = ["interrupt", "steer-backlog", "followup", "collect", "queue", "steer"];

/// Session → message id → text, of every message that got a 202.
type Acknowledged = Arc<Mutex<HashMap<String, HashMap<String, String>>>>;

fn count(acknowledged: &Acknowledged) -> usize {
    acknowledged.lock().expect("no panic").values().map(HashMap::len).sum()
}

fn label(n: usize) -> String {
    format!("s{n}")
}

/// Sends messages until `stop` is set or the server is gone.
fn drive(
    client: &Client,
    session: usize,
    mut random: Random,
    acknowledged: &Acknowledged,
    stop: &AtomicBool,
) {
    let name = label(session);
    while !stop.load(Ordering::Relaxed) {
        let n = random.below(1 << 40);
        let kind = ["", "slow ", "slow ", "tool "][random.below(4) as usize];
        let text = format!("{name} {kind}m{n}");
        let mut body = json!({"text": text, "queue_mode": MODES[random.below(6) as usize]});
        if kind == "tool " {
            body["tools"] =
                json!([{"name": "look", "description": "looks", "parameters": {"type": "object"}}]);
        }
        let path = format!("/api/sessions/{name}/messages");
        let Ok(answer) = client.try_send("POST", &path, &[], &body) else {
            return;
        };
        match answer.status {
            202 => {
                let id = answer.body["message_id"].as_str().expect("an id").to_owned();
                acknowledged
                    .lock()
                    .expect("no panic")
                    .entry(name.clone())
                    .or_default()
                    .insert(id, text);
            }
            // The inbox is full, or the run cannot be steered.
            409 | 429 => {}
            other => panic!("{other}: {}", answer.body),
        }
        // A suspension is sometimes answered, sometimes cancelled, and mostly left alone.
        match random.below(6) {
            0 => resume(client, &name),
            1 => drop(client.try_send(
                "POST",
                &format!("/api/sessions/{name}/cancel"),
                &[],
                &json!({}),
            )),
            _ => {}
        }
        // Without a pause the inbox is full most of the time.
        random_delay(&mut random, Duration::ZERO, Duration::from_millis(30));
    }
}

fn resume(client: &Client, name: &str) {
    let Ok(info) = client.try_ask("GET", &format!("/api/sessions/{name}"), &[], b"") else {
        return;
    };
    if let Some(id) = info.body["suspension"]["id"].as_str() {
        let body =
            json!({"suspension_id": id, "results": [{"tool_call_id": "c1", "content": "seen"}]});
        drop(client.try_send("POST", &format!("/api/sessions/{name}/resume"), &[], &body));
    }
}

/// Every acknowledged message is once in the history or once in the inbox.
fn check(client: &Client, acknowledged: &Acknowledged) {
    let acknowledged = acknowledged.lock().expect("no panic");
    for n in 0..SESSIONS {
        let name = label(n);
        let (messages, items) = client.everything(&name);
        let mut found: HashMap<&str, usize> = HashMap::new();
        for id in messages.iter().chain(&items).filter_map(|message| message["id"].as_str()) {
            *found.entry(id).or_default() += 1;
        }
        for (id, text) in acknowledged.get(&name).into_iter().flatten() {
            assert_eq!(found.get(id.as_str()), Some(&1), "`{text}` ({id}) of {name} is there once");
        }
        one_chain(client, &name);
    }
}

/// No turn has two children.
fn one_chain(client: &Client, name: &str) {
    let tree = client.read(&format!("/api/sessions/{name}/tree"));
    let mut children: HashMap<String, usize> = HashMap::new();
    for turn in tree["turns"].as_array().expect("turns") {
        *children.entry(turn["parent"].to_string()).or_default() += 1;
    }
    assert!(children.values().all(|count| *count == 1), "{name} has one chain: {children:?}");
}

#[test]
fn a_server_killed_under_load_loses_nothing_that_it_acknowledged() {
    // R166, R197, R233, R238
    let model = ModelServer::chat();
    let home = configured_home(&model.config("[inbox]\ncap = 12\ndebounce = \"20ms\"\n"));
    let mut random = Random::new(910);
    let acknowledged = Acknowledged::default();
    for kill in 0..KILLS {
        let server = Server::in_dir(home.clone());
        let client = server.client();
        for n in 0..SESSIONS {
            if kill == 0 {
                let made = client
                    .post("/api/sessions", &json!({"label": label(n), "track_tasks": n == 7}));
                assert_eq!(made.status, 201, "{}", made.body);
            }
        }
        if kill % 10 == 9 {
            check(&client, &acknowledged);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let drivers: Vec<_> = (0..SESSIONS)
            .map(|n| {
                let (acknowledged, stop, random) =
                    (acknowledged.clone(), stop.clone(), random.fork());
                std::thread::spawn(move || drive(&client, n, random, &acknowledged, &stop))
            })
            .collect();
        // With chunks in the count, the kill also falls between two acknowledged messages.
        let progress = || count(&acknowledged) + model.chunks();
        let target = progress() + 10 + random.below(120) as usize;
        wait_until("there is load", || progress() >= target);
        server.kill();
        stop.store(true, Ordering::Relaxed);
        drivers.into_iter().for_each(|driver| driver.join().expect("no panic"));
        verify(home.path(), &format!("kill {kill}"));
    }
    let server = Server::in_dir(home);
    let client = server.client();
    for n in 0..SESSIONS {
        let name = label(n);
        // Suspensions are cancelled and prompts are answered, until the session is idle.
        wait_until(&format!("{name} is idle with an empty inbox"), || {
            let info: Value = client.settled(&name);
            if info["state"] == "idle" && info["pending_prompt"].is_null() && info["waiting"] == 0 {
                return true;
            }
            if info["pending_prompt"].is_null() {
                client.post(&format!("/api/sessions/{name}/cancel"), &json!({}));
            } else {
                client.post(
                    &format!("/api/sessions/{name}/answer"),
                    &json!({"choice": "start_fresh"}),
                );
            }
            false
        });
    }
    check(&client, &acknowledged);
    let count = count(&acknowledged);
    println!(
        "{KILLS} kills, {count} messages acknowledged, {} conversations seen by the model",
        model.conversations()
    );
    assert!(count > KILLS, "there was load: {count}");
}
