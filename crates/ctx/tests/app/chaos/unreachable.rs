//! A database that does not answer: at the start, while a node serves, and in mid-answer.

use serde_json::{Value, json};

use super::proxy::Proxy;
use crate::harness::server::{Server, configured_home, home, log_to};
use crate::harness::test_store::postgres_server::Server as Postgres;
use crate::harness::{ctx, wait_until};

/// A proxy in front of a new database, and the URL through it.
fn behind_proxy(postgres: &Postgres) -> (Proxy, String) {
    let proxy = Proxy::to(postgres.port);
    let url = postgres.url(&postgres.create_database());
    let url = url.replace(&format!(":{}/", postgres.port), &format!(":{}/", proxy.port));
    (proxy, url)
}

#[test]
fn a_database_that_cannot_be_reached_ends_the_start_with_its_place() {
    let home = home();
    for verb in [["serve", "--json"], ["status", "--json"]] {
        let mut command = ctx(home.path());
        command.args(verb).args(["--store", "postgres://me:s3cret@127.0.0.1:1/nowhere"]);
        let output = command.env("CTX_SERVER_LISTEN", "127.0.0.1:0").output().expect("ctx runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let problem: Value =
            serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a document");
        let message = problem["message"].as_str().expect("a message");
        assert!(message.contains("127.0.0.1:1/nowhere"), "{message}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_node_without_its_database_is_alive_and_not_ready() {
    let postgres = Postgres::start("", false);
    let (proxy, url) = behind_proxy(&postgres);
    let node = Server::spawn(home(), "127.0.0.1:0", |command| {
        command.env("CTX_STORE", &url).env("CTX_LOG", "off")
    });
    node.wait_until_ready();
    proxy.pause(true);
    node.get("/readyz").refuses(503, "unavailable");
    assert_eq!(node.get("/healthz").status, 200);
    proxy.pause(false);
    node.wait_until_ready();
}

#[test]
fn a_node_whose_renewal_hangs_stops_its_runs_and_keeps_their_words() {
    // R238
    let postgres = Postgres::start("", false);
    let (proxy, url) = behind_proxy(&postgres);
    let home = configured_home("[server]\nlease = \"3s\"\n");
    let log = home.path().join("log");
    let node =
        Server::spawn(home, "127.0.0.1:0", |command| log_to(command.env("CTX_STORE", &url), &log));
    node.session("one");
    node.post("/api/sessions/one/messages", &json!({"text": "slow 5000"})).is(202);
    let mut events = node.follow("/api/sessions/one/events", Some(0));
    while events.next().expect("an event").name != "message.delta" {}
    proxy.pause(true);
    wait_until("the runs are stopped", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("all runs are stopped"))
    });
    proxy.pause(false);
    let settled = node.settled("one");
    assert_eq!(settled["state"], "idle");
    let turns = node.read("/api/sessions/one/turns");
    assert_eq!(turns["turns"][0]["status"], "interrupted", "{turns}");
    let (messages, _) = node.everything("one");
    assert!(messages.iter().any(|message| message["role"] == "assistant"), "{messages:?}");
}
