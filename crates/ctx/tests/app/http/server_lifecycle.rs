//! The server starts fast, prints its address, has health checks and metrics, and stops on SIGTERM.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::server::{Server, home, log_to};

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
        .take(4)
        .map(|line| line.expect("a line"))
        .collect();
    child.kill().expect("kill");
    child.wait().expect("its end");
    assert!(lines[0].starts_with("Listening on http://127.0.0.1:"), "{lines:?}");
    assert!(lines[1].starts_with("Data directory: /"), "{lines:?}");
    assert!(lines[2].starts_with("Store: "), "{lines:?}");
    assert!(lines[3].starts_with("Default provider: "), "{lines:?}");
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
