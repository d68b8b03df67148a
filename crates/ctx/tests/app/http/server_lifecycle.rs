//! The server starts fast, prints its address, has health checks and metrics, and drains when it
//! is terminated.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::client::EventStream;
use crate::harness::server::{Server, configured_home, home, log_to, signal};
use crate::harness::test_store::on_postgres;
use crate::harness::{ctx, wait_until};

#[test]
fn the_server_announces_its_address_and_creates_its_store() {
    let server = Server::start();
    assert!(server.dir.has_store());
    assert_eq!(
        server.announced["data"],
        json!(server.dir.path().canonicalize().expect("a directory").join("data"))
    );
    assert_eq!(server.announced["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(server.get("/healthz").is(200)["status"], "ok");
    server.wait_until_ready();
}

#[test]
fn without_json_the_server_prints_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = ctx(dir.path())
        .args(["serve", "--log-format", "json"])
        .env("CTX_SERVER_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("ctx serve");
    let lines: Vec<String> = BufReader::new(child.stdout.take().expect("stdout"))
        .lines()
        .take(if on_postgres() { 4 } else { 3 })
        .map(|line| line.expect("a line"))
        .collect();
    child.kill().expect("kill");
    child.wait().expect("its end");
    assert!(lines[0].starts_with("Listening on http://127.0.0.1:"), "{lines:?}");
    assert!(lines[1].starts_with("Data directory: /"), "{lines:?}");
    if on_postgres() {
        assert!(lines[2].starts_with("Store: PostgreSQL at 127.0.0.1:"), "{lines:?}");
    }
    assert!(lines[lines.len() - 1].starts_with("Default provider: "), "{lines:?}");
}

#[test]
fn a_port_in_use_is_reported() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let address = server.address.to_string();
    let output =
        ctx(dir.path()).args(["serve", "--json", "--listen", &address]).output().expect("ctx");
    let error: Value = serde_json::from_slice(&output.stderr).expect("a document");
    assert_eq!((output.status.code(), &error["code"]), (Some(1), &json!("address_in_use")));
    assert!(error["hint"].is_string());
    let output =
        ctx(dir.path()).args(["serve", "--json", "--listen", "nowhere"]).output().expect("ctx");
    assert_eq!(output.status.code(), Some(2));
    assert!(!dir.path().join("data").exists(), "no store was made");
}

#[test]
fn an_acknowledged_session_is_there_after_a_restart() {
    let server = Server::start();
    let made = server.session("kept");
    let (exit, took, dir) = server.end();
    assert_eq!(exit, Some(0));
    assert!(took < Duration::from_secs(6), "{took:?}");
    let server = Server::in_dir(dir);
    assert_eq!(server.get("/api/sessions/kept").is(200)["id"], made["id"]);
}

#[test]
fn metrics_count_requests_and_sessions() {
    let server = Server::start();
    server.session("s");
    server.get("/api/sessions/s");
    server.get("/api/sessions/nobody");
    let answer = server.get("/metrics");
    assert!(answer.header("content-type").is_some_and(|kind| kind.contains("text")));
    let text = answer.text();
    for line in [
        "ctx_http_requests_total{method=\"GET\",route=\"/api/sessions/{id}\",status=\"200\"} 1",
        "ctx_http_requests_total{method=\"GET\",route=\"/api/sessions/{id}\",status=\"404\"} 1",
        "ctx_sessions 1",
        "ctx_event_clients 0",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn the_texts_of_messages_are_not_logged() {
    let dir = home();
    let log = dir.path().join("log");
    let server = Server::spawn(dir, "127.0.0.1:0", |command| log_to(command, &log));
    server.post("/api/sessions?q=hidden", &json!({"message": "a very secret word"}));
    let (_, _, _dir) = server.end();
    let log = std::fs::read_to_string(&log).expect("the log");
    assert!(log.contains("/api/sessions") && log.contains("status="), "{log}");
    assert!(!log.contains("secret") && !log.contains("hidden"), "{log}");
}

#[test]
fn a_terminated_server_lets_its_runs_end_and_refuses_new_requests() {
    // R197
    let server = Server::start();
    server.session("one");
    server.post("/api/sessions/one/messages", &json!({"text": "slow"})).is(202);
    let mut events = server.follow("/api/sessions/one/events", Some(0));
    wait_for(&mut events, "message.delta");
    signal("-TERM", server.pid());
    wait_until("it is not ready", || server.get("/readyz").status == 503);
    assert_eq!(server.get("/healthz").status, 200);
    server.get("/api/sessions").refuses(503, "shutting_down");
    server
        .post("/api/sessions/one/messages", &json!({"text": "late"}))
        .refuses(503, "shutting_down");
    wait_for(&mut events, "turn.committed");
    let (exit, _, dir) = server.ended();
    assert_eq!(exit, Some(0));
    let server = Server::in_dir(dir);
    let turns = server.read("/api/sessions/one/turns");
    assert_eq!(turns["turns"][0]["status"], "completed", "{turns}");
}

#[test]
fn what_does_not_end_while_the_server_drains_keeps_its_words() {
    // R197, R233
    let home = configured_home("[server]\ndrain = \"500ms\"\n");
    let server = Server::in_dir(home);
    server.session("one");
    server.post("/api/sessions/one/messages", &json!({"text": "slow 5000"})).is(202);
    let mut events = server.follow("/api/sessions/one/events", Some(0));
    wait_for(&mut events, "message.delta");
    server.post("/api/sessions/one/messages", &json!({"text": "next", "queue_mode": "queue"}));
    signal("-TERM", server.pid());
    let (exit, took, dir) = server.ended();
    assert_eq!(exit, Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
    let server = Server::in_dir(dir);
    server.settled("one");
    let turns = server.read("/api/sessions/one/turns?order=asc");
    assert_eq!(turns["turns"][0]["status"], "interrupted", "{turns}");
    let (messages, _) = server.everything("one");
    let said = |role: &str| messages.iter().filter(|message| message["role"] == role).count();
    assert!(
        said("assistant") >= 2,
        "the words of the first turn, and the next answer: {messages:?}"
    );
}

#[test]
fn a_second_signal_ends_a_server_that_drains() {
    let server = Server::start();
    server.session("one");
    server.post("/api/sessions/one/messages", &json!({"text": "slow 5000"})).is(202);
    wait_for(&mut server.follow("/api/sessions/one/events", Some(0)), "message.delta");
    signal("-TERM", server.pid());
    wait_until("it is not ready", || server.get("/readyz").status == 503);
    signal("-TERM", server.pid());
    let (exit, took, _dir) = server.ended();
    assert_eq!(exit, Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn messages_wait_while_a_server_has_no_room_for_their_runs() {
    let server = Server::configured("[server]\nmax_runs = 1\n");
    for label in ["one", "two", "three"] {
        server.session(label);
    }
    server.post("/api/sessions/one/messages", &json!({"text": "hang"})).is(202);
    let waits = server.post("/api/sessions/two/messages", &json!({"text": "hello"})).is(202);
    assert_eq!((&waits["run_id"], &waits["position"]), (&Value::Null, &json!(1)));
    server.post("/api/sessions/three/messages", &json!({"text": "hello"})).is(202);
    assert_eq!(server.read("/api/sessions/two")["state"], "idle");
    server.post("/api/sessions/one/cancel", &json!({})).is(200);
    for label in ["two", "three"] {
        assert_eq!(server.settled(label)["turn_count"], 1);
    }
}

fn wait_for(events: &mut EventStream, name: &str) {
    while events.next().expect("an event").name != name {}
}
