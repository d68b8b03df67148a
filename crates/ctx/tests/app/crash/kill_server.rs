//! A server killed under load, again and again: every acknowledged message is somewhere, once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::{Client, Dice, Model, PATIENCE, Server, ctx};

const KILLS: usize = 100;
const SESSIONS: usize = 8;
const MODES: [&str; 6] = ["interrupt", "steer-backlog", "followup", "collect", "queue", "steer"];

/// Session → message id → words, of all that was answered with 202.
type Acknowledged = Arc<Mutex<HashMap<String, HashMap<String, String>>>>;

fn label(n: usize) -> String {
    format!("s{n}")
}

/// Sends until it is told to stop or the server is gone.
fn drive(
    client: &Client,
    session: usize,
    seed: u64,
    acknowledged: &Acknowledged,
    stop: &AtomicBool,
) {
    let mut dice = Dice::seeded(seed);
    let name = label(session);
    while !stop.load(Ordering::Relaxed) {
        let n = dice.below(1 << 40);
        let kind = ["", "slow ", "slow ", "tool "][dice.below(4) as usize];
        let text = format!("{name} {kind}m{n}");
        let mut body = json!({"text": text, "queue_mode": MODES[dice.below(6) as usize]});
        if kind == "tool " {
            body["tools"] =
                json!([{"name": "look", "description": "looks", "parameters": {"type": "object"}}]);
        }
        let Some(answer) =
            client.try_ask("POST", &format!("/api/sessions/{name}/messages"), &[], Some(&body))
        else {
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
            // Full, or not to be steered.
            409 | 429 => {}
            other => panic!("{other}: {}", answer.body),
        }
        // What waits for a tool is answered now and then, cancelled now and then, and left alone mostly.
        match dice.below(6) {
            0 => resume(client, &name),
            1 => drop(client.try_ask(
                "POST",
                &format!("/api/sessions/{name}/cancel"),
                &[],
                Some(&json!({})),
            )),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(dice.below(30)));
    }
}

fn resume(client: &Client, name: &str) {
    let Some(info) = client.try_ask("GET", &format!("/api/sessions/{name}"), &[], None) else {
        return;
    };
    if let Some(id) = info.body["suspension"]["id"].as_str() {
        let body =
            json!({"suspension_id": id, "results": [{"tool_call_id": "c1", "content": "seen"}]});
        drop(client.try_ask("POST", &format!("/api/sessions/{name}/resume"), &[], Some(&body)));
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

/// No two children of one turn.
fn one_chain(client: &Client, name: &str) {
    let tree = client.get(&format!("/api/sessions/{name}/tree"));
    let mut children: HashMap<String, usize> = HashMap::new();
    for turn in tree["turns"].as_array().expect("turns") {
        *children.entry(turn["parent"].to_string()).or_default() += 1;
    }
    assert!(children.values().all(|count| *count == 1), "{name} has one chain: {children:?}");
}

#[test]
fn a_server_killed_under_load_loses_nothing_that_it_acknowledged() {
    // R166, R197, R233, R238
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    let model = Model::start();
    model.configure(&data, "[inbox]\ncap = 12\ndebounce = \"20ms\"\n");
    let mut dice = Dice::cast("a server killed under load");
    let acknowledged = Acknowledged::default();
    for kill in 0..KILLS {
        let server = Server::start(&data);
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
                let (client, acknowledged, stop, seed) =
                    (client.clone(), acknowledged.clone(), stop.clone(), dice.below(1 << 40));
                std::thread::spawn(move || drive(&client, n, seed, &acknowledged, &stop))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(40 + dice.below(200)));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        drivers.into_iter().for_each(|driver| driver.join().expect("no panic"));
        let verified = ctx(&data).arg("verify").output().expect("it runs");
        assert!(
            verified.status.success(),
            "kill {kill}: {}",
            String::from_utf8_lossy(&verified.stderr)
        );
    }
    let server = Server::start(&data);
    let client = server.client();
    for n in 0..SESSIONS {
        let name = label(n);
        let until = std::time::Instant::now() + PATIENCE;
        // What waits for a tool is released, until nothing waits any more.
        loop {
            let info: Value = client.settled(&name);
            if info["state"] == "idle" && info["pending_prompt"].is_null() && info["waiting"] == 0 {
                break;
            }
            assert!(std::time::Instant::now() < until, "stuck: {info}");
            if info["pending_prompt"].is_null() {
                client.post(&format!("/api/sessions/{name}/cancel"), &json!({}));
            } else {
                client.post(
                    &format!("/api/sessions/{name}/answer"),
                    &json!({"choice": "start_fresh"}),
                );
            }
        }
    }
    check(&client, &acknowledged);
    let count: usize = acknowledged.lock().expect("no panic").values().map(HashMap::len).sum();
    println!(
        "{KILLS} kills, {count} messages acknowledged, {} conversations seen by the model",
        model.conversations()
    );
    assert!(count > KILLS, "there was load: {count}");
}
