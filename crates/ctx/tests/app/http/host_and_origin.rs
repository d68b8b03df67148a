//! Loopback needs no token, but Host and Origin are checked.

use std::io::Write;

use serde_json::json;

use crate::harness::ctx;
use crate::harness::server::Server;

#[test]
fn requests_for_other_hosts_are_refused() {
    let server = Server::configured("[server]\nhosts = [\"ctx.example\"]\n");
    let port = server.address.port();
    for host in ["localhost", "127.0.0.1", "[::1]", "LocalHost", "ctx.example"] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            assert_eq!(
                server.ask("GET", "/healthz", &[("host", &host)], b"").status,
                200,
                "{host}"
            );
        }
    }
    for host in
        ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "a b"]
    {
        server.ask("GET", "/healthz", &[("host", host)], b"").refuses(421, "wrong_host");
    }
}

#[test]
fn requests_of_other_origins_are_refused() {
    let server = Server::start();
    let own = format!("http://{}", server.address);
    let ask = |origin: &str| {
        server.ask(
            "POST",
            "/api/sessions",
            &[("origin", origin), ("content-type", "application/json")],
            json!({}).to_string().as_bytes(),
        )
    };
    ask(&own).is(201);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://evil.example"] {
        ask(origin).refuses(403, "foreign_origin");
    }
    assert_eq!(server.labels("").len(), 1, "what was refused made nothing");
}

#[test]
fn every_response_has_nosniff_and_a_request_id() {
    let server = Server::start();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/healthz"),
        ("GET", "/nothing"),
        ("PUT", "/api/sessions"),
        ("POST", "/api/sessions"),
    ] {
        let answer = server.ask(method, path, &[], b"");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(answer.header("x-request-id").is_some_and(|id| id.len() == 26), "{path}");
    }
    let answer = server.ask("GET", "/healthz", &[("x-request-id", "mine-1")], b"");
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
}

#[test]
fn listening_beyond_loopback_needs_tokens() {
    let dir = tempfile::tempdir().expect("a directory");
    let output =
        ctx(dir.path()).args(["serve", "--listen", "0.0.0.0:0", "--json"]).output().expect("ctx");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("tokens_needed") && told.contains("ctx token create"), "{told}");
    assert!(!dir.path().join("data").exists(), "no store was made");
}

#[test]
fn a_partial_request_does_not_block_others() {
    let server = Server::start();
    let mut half = server.connect();
    half.write_all(
        b"POST /api/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
        application/json\r\ncontent-length: 100\r\n\r\n{",
    )
    .expect("half");
    let mut head = server.connect();
    head.write_all(b"GET /healthz HT").expect("half a head");
    server.get("/healthz").is(200);
    let (exit, took, _dir) = server.end();
    assert_eq!(exit, Some(0));
    assert!(took.as_secs() < 6, "{took:?}");
}
