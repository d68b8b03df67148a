//! A server killed while a tree of workers, three levels deep, runs: the next server reports every
//! worker.

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::model_server::ModelServer;
use crate::harness::seed::Random;
use crate::harness::server::{Server, configured_home};
use crate::harness::{verify, wait_for, wait_until};

const KILLS: u64 = 12;

fn sessions(client: &Client) -> Vec<Value> {
    client.read("/api/sessions?status=all&limit=1000")["sessions"]
        .as_array()
        .expect("sessions")
        .clone()
}

fn name(session: &Value) -> &str {
    session["label"].as_str().expect("a label")
}

/// Number of reports of a worker to the session that started it.
fn reports(client: &Client, worker: &Value) -> usize {
    let manager = worker["parent"]["session"].as_str().expect("a manager");
    let prefix = format!("Worker {} ", name(worker));
    let (messages, items) = client.everything(&manager.replace(':', "%3A"));
    let from_agents = messages.iter().filter(|message| message["source"] == "agent");
    let texts = from_agents
        .map(|message| message["content"][0]["text"].clone())
        .chain(items.iter().map(|item| item["text"].clone()));
    // One message may report several workers.
    texts.map(|text| text.as_str().unwrap_or_default().matches(&prefix).count()).sum()
}

/// All workers, once no session runs or has messages waiting and every worker was reported.
fn quiet(client: &Client) -> Vec<Value> {
    wait_for("every worker has ended and was reported", || {
        let all = sessions(client);
        let busy: Vec<&str> = all
            .iter()
            .filter(|session| session["state"] != "idle" || session["waiting"] != 0)
            .map(name)
            .collect();
        let workers: Vec<Value> =
            all.iter().filter(|session| session["origin"] == "subagent").cloned().collect();
        let unreported: Vec<&str> = if busy.is_empty() {
            workers.iter().filter(|worker| reports(client, worker) == 0).map(name).collect()
        } else {
            Vec::new()
        };
        (busy.is_empty() && unreported.is_empty()).then_some(workers)
    })
}

#[test]
fn a_tree_of_workers_survives_a_killed_server() {
    // R186, R188, R190, R193, R238
    let model = ModelServer::chat();
    let home = configured_home(&model.config(""));
    let mut random = Random::new(911);
    for kill in 0..KILLS {
        let server = Server::in_dir(home.clone());
        let client = server.client();
        let boss = format!("boss{kill}");
        client.post("/api/sessions", &json!({"label": boss}));
        let text = format!("dispatch: dispatch: dispatch: slow leaf {kill}");
        assert_eq!(
            client.post(&format!("/api/sessions/{boss}/messages"), &json!({"text": text})).status,
            202
        );
        // A tree of three workers takes about 50 chunks; the kill falls anywhere in it.
        let target = model.chunks() + random.below(50) as usize;
        wait_until("the workers have come so far", || model.chunks() >= target);
        server.kill();
        verify(home.path(), &format!("kill {kill}"));
    }
    let server = Server::in_dir(home);
    let client = server.client();
    let workers = quiet(&client);
    let (mut completed, mut reported) = (0, 0);
    for worker in &workers {
        let reports = reports(&client, worker);
        // Read after the reports: a late report of its own workers may have added a turn.
        let now = client.read(&format!("/api/sessions/{}", name(worker).replace(':', "%3A")));
        let turns = now["turn_count"].as_u64().expect("a number") as usize;
        assert!(
            (1..=turns).contains(&reports),
            "{} has {turns} turns and was reported {reports} times",
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
    // A tree that is not interrupted is three levels deep and reports back.
    client.post("/api/sessions", &json!({"label": "last"}));
    client.post(
        "/api/sessions/last/messages",
        &json!({"text": "dispatch: dispatch: dispatch: leaf"}),
    );
    wait_until("the last session has its report", || {
        client.read("/api/sessions/last")["turn_count"].as_u64() >= Some(2)
    });
    let workers = quiet(&client);
    let depth = |mut at: Value| {
        let mut depth = 0;
        while let Some(parent) = at["parent"]["session"].as_str() {
            depth += 1;
            at = client.read(&format!("/api/sessions/{}", parent.replace(':', "%3A")));
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
