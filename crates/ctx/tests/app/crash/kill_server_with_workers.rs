//! A server killed while workers work, three deep: after the next start none of them is forgotten.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::{Client, Dice, Model, PATIENCE, Server, ctx};

const KILLS: u64 = 12;

fn sessions(client: &Client) -> Vec<Value> {
    client.get("/api/sessions?status=all&limit=1000")["sessions"]
        .as_array()
        .expect("sessions")
        .clone()
}

fn name(session: &Value) -> &str {
    session["label"].as_str().expect("a label")
}

/// How often the session that started a worker was told of it.
fn reports(client: &Client, worker: &Value) -> usize {
    let manager = worker["parent"]["session"].as_str().expect("a manager");
    let told = format!("Worker {} ", name(worker));
    let (messages, items) = client.everything(&manager.replace(':', "%3A"));
    let from_agents = messages.iter().filter(|message| message["source"] == "agent");
    let texts = from_agents
        .map(|message| message["content"][0]["text"].clone())
        .chain(items.iter().map(|item| item["text"].clone()));
    texts.filter(|text| text.as_str().is_some_and(|text| text.starts_with(&told))).count()
}

/// Waits until nothing runs or waits and every worker was told of; what is missing otherwise.
fn quiet(client: &Client) -> Vec<Value> {
    let until = Instant::now() + 3 * PATIENCE;
    loop {
        let all = sessions(client);
        let busy: Vec<&str> = all
            .iter()
            .filter(|session| session["state"] != "idle" || session["waiting"] != 0)
            .map(name)
            .collect();
        let workers: Vec<Value> =
            all.iter().filter(|session| session["origin"] == "subagent").cloned().collect();
        let untold: Vec<&str> = if busy.is_empty() {
            workers.iter().filter(|worker| reports(client, worker) == 0).map(name).collect()
        } else {
            Vec::new()
        };
        if busy.is_empty() && untold.is_empty() {
            return workers;
        }
        assert!(Instant::now() < until, "busy: {busy:?}, never told of: {untold:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_tree_of_workers_survives_a_server_that_is_killed_in_the_middle() {
    // R186, R188, R190, R193, R238
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    let model = Model::start();
    model.configure(&data, "");
    let mut dice = Dice::cast("workers of a server that is killed");
    for kill in 0..KILLS {
        let server = Server::start(&data);
        let client = server.client();
        let boss = format!("boss{kill}");
        client.post("/api/sessions", &json!({"label": boss}));
        let text = format!("dispatch: dispatch: dispatch: slow leaf {kill}");
        assert_eq!(
            client.post(&format!("/api/sessions/{boss}/messages"), &json!({"text": text})).status,
            202
        );
        std::thread::sleep(Duration::from_millis(10 + dice.below(700)));
        server.kill();
        let verified = ctx(&data).arg("verify").output().expect("it runs");
        assert!(
            verified.status.success(),
            "kill {kill}: {}",
            String::from_utf8_lossy(&verified.stderr)
        );
    }
    let server = Server::start(&data);
    let client = server.client();
    let workers = quiet(&client);
    let (mut completed, mut reported) = (0, 0);
    for worker in &workers {
        let told = reports(&client, worker);
        // Counted after what was told: a last word of its own workers may still have come, and a turn with it.
        let now = client.get(&format!("/api/sessions/{}", name(worker).replace(':', "%3A")));
        let turns = now["turn_count"].as_u64().expect("a number") as usize;
        assert!(
            (1..=turns).contains(&told),
            "{} has {turns} turns and was told of {told} times",
            name(worker)
        );
        assert_eq!(worker["parent"]["tool_call"], "d1", "{worker}");
        assert!(!worker["task"].is_null(), "its task is shown: {worker}");
        match worker["task"]["state"]["name"].as_str() {
            Some("complete") => completed += 1,
            _ => reported += 1,
        }
    }
    println!("{} workers: {completed} completed, {reported} cut off and reported", workers.len());
    assert!(workers.len() as u64 > KILLS, "there were workers of workers: {}", workers.len());
    // One that was left alone goes three deep and comes back.
    client.post("/api/sessions", &json!({"label": "last"}));
    client.post(
        "/api/sessions/last/messages",
        &json!({"text": "dispatch: dispatch: dispatch: leaf"}),
    );
    let until = Instant::now() + PATIENCE;
    while client.get("/api/sessions/last")["turn_count"].as_u64() < Some(2) {
        assert!(Instant::now() < until, "never told: {}", client.get("/api/sessions/last"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let workers = quiet(&client);
    let depth = |mut at: Value| {
        let mut depth = 0;
        while let Some(parent) = at["parent"]["session"].as_str() {
            depth += 1;
            at = client.get(&format!("/api/sessions/{}", parent.replace(':', "%3A")));
        }
        (depth, name(&at).to_owned())
    };
    let below_last: Vec<usize> = workers
        .iter()
        .cloned()
        .map(depth)
        .filter(|(_, root)| root == "last")
        .map(|(depth, _)| depth)
        .collect();
    assert_eq!(below_last.iter().max(), Some(&3), "{below_last:?}");
}
