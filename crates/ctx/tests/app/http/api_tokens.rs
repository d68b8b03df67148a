//! Beyond loopback every request needs a token with sufficient scope; only the hash of a token is
//! stored.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::client::Response;
use crate::harness::ctx;
use crate::harness::server::{Server, configure, home};

/// A server on all interfaces, a token of each scope, and a log outside the store.
struct Place {
    server: Server,
    read: Value,
    write: Value,
    admin: Value,
    log: PathBuf,
    _logs: TempDir,
}

fn token(dir: &Path, arguments: &[&str]) -> Output {
    ctx(dir).arg("token").args(arguments).arg("--json").output().expect("ctx token")
}

fn made(dir: &Path, scope: &str) -> Value {
    let output = token(dir, &["create", "--scope", scope, "--name", &format!("for {scope}")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

impl Place {
    fn new() -> Self {
        let (dir, logs) = (home(), tempfile::tempdir().expect("a directory"));
        let [read, write, admin] = ["read", "write", "admin"].map(|scope| made(dir.path(), scope));
        let config = format!("[server]\nhosts = [\"ctx.example\"]\nroots = [{:?}]\n", dir.path());
        configure(dir.path(), &config);
        let log = logs.path().join("log");
        Self { server: Server::on_all_interfaces(dir, &log), read, write, admin, log, _logs: logs }
    }

    fn ask(&self, token: &Value, method: &str, path: &str, body: &Value) -> Response {
        let bearer = format!("Bearer {}", token["token"].as_str().expect("a token"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.ask(
            method,
            path,
            &[("authorization", &bearer), ("content-type", "application/json")],
            body.as_bytes(),
        )
    }

    fn revoke(&self, token: &Value) {
        let output =
            self::token(self.server.dir.path(), &["revoke", token["id"].as_str().expect("an id")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn each_scope_allows_its_requests_and_no_others() {
    let place = Place::new();
    let none = &Value::Null;
    let new = json!({"label": "s"});
    place.ask(&place.read, "POST", "/api/sessions", &new).refuses(403, "forbidden_scope");
    place.ask(&place.write, "POST", "/api/sessions", &new).is(201);
    for token in [&place.read, &place.write, &place.admin] {
        place.ask(token, "GET", "/api/sessions/s", none).is(200);
        assert_eq!(place.ask(token, "GET", "/metrics", none).status, 200);
    }
    place
        .ask(&place.read, "PATCH", "/api/sessions/s", &json!({"title": "t"}))
        .refuses(403, "forbidden_scope");
    place.ask(&place.write, "PATCH", "/api/sessions/s", &json!({"title": "t"})).is(200);
    for token in [&place.read, &place.write] {
        let problem =
            place.ask(token, "DELETE", "/api/sessions/s", none).refuses(403, "forbidden_scope");
        assert!(
            problem["hint"].as_str().is_some_and(|hint| hint.contains("--scope admin")),
            "{problem}"
        );
    }
    assert_eq!(place.ask(&place.admin, "DELETE", "/api/sessions/s", none).status, 204);
}

#[test]
fn requests_without_a_valid_token_are_refused() {
    let place = Place::new();
    for (method, path) in [
        ("GET", "/api/sessions"),
        ("GET", "/api/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/api/nothing"),
        ("POST", "/api/sessions"),
    ] {
        let answer = place.server.ask(method, path, &[], b"");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path}");
        answer.refuses(401, "unauthorized");
    }
    let right = place.admin["token"].as_str().expect("a token");
    let wrong = [
        format!("Bearer {}0", &right[..right.len() - 1]),
        format!("Bearer {right}x"),
        "Bearer ".to_owned(),
        right.to_owned(),
        format!("Basic {right}"),
        format!("Bearer {}", "x".repeat(10_000)),
    ];
    for wrong in
        wrong.iter().filter(|wrong| !wrong.ends_with(right) || !wrong.starts_with("Bearer"))
    {
        place
            .server
            .ask("GET", "/api/sessions", &[("authorization", wrong)], b"")
            .refuses(401, "unauthorized");
    }
    let twice =
        [("authorization", format!("Bearer {right}")), ("authorization", "Bearer x".to_owned())];
    let twice: Vec<(&str, &str)> =
        twice.iter().map(|(name, value)| (*name, value.as_str())).collect();
    place.server.ask("GET", "/api/sessions", &twice, b"").refuses(401, "unauthorized");
    for open in ["/healthz", "/readyz", "/"] {
        assert!([200, 503].contains(&place.server.get(open).status), "{open} is open");
    }
    assert_eq!(place.server.ask("GET", "/healthz", &[("host", "ctx.example")], b"").status, 200);
    place.server.ask("GET", "/healthz", &[("host", "192.0.2.77")], b"").refuses(421, "wrong_host");
}

#[test]
fn a_revoked_token_ends_its_streams_and_is_refused() {
    let place = Place::new();
    place.ask(&place.write, "POST", "/api/sessions", &json!({"label": "s"})).is(201);
    let secret = place.read["token"].as_str().expect("a token");
    let mut streams = Vec::new();
    for path in ["/api/sessions/s/events", "/api/events"] {
        let bearer = format!("Bearer {secret}");
        streams.push(place.server.follow_with(path, &[("authorization", &bearer)]));
    }
    place.revoke(&place.read);
    let began = Instant::now();
    place.ask(&place.read, "GET", "/api/sessions", &Value::Null).refuses(401, "unauthorized");
    for stream in &mut streams {
        while stream.next().is_some() {}
    }
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    place.ask(&place.write, "GET", "/api/sessions", &Value::Null).is(200);
    let again =
        token(place.server.dir.path(), &["revoke", place.read["id"].as_str().expect("an id")]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("not_found"));
}

#[test]
fn a_token_is_shown_once_and_never_stored_in_clear() {
    let place = Place::new();
    for token in [&place.read, &place.write, &place.admin] {
        place.ask(token, "GET", "/api/sessions", &Value::Null).is(200);
    }
    let list = token(place.server.dir.path(), &["list"]);
    let list: Value = serde_json::from_slice(&list.stdout).expect("a document");
    let shown: Vec<_> = list["tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["id"], &one["scope"], &one["name"]))
        .collect();
    assert_eq!(shown[0], (&place.read["id"], &json!("read"), &json!("for read")));
    assert_eq!(shown.len(), 3);
    let log = std::fs::read_to_string(&place.log).expect("the log");
    assert!(log.matches("/api/sessions").count() >= 3, "the requests were logged: {log}");
    let mut everything = [list.to_string(), log].concat().into_bytes();
    for file in std::fs::read_dir(place.server.dir.path().join("data")).expect("the store") {
        everything.extend(std::fs::read(file.expect("a file").path()).unwrap_or_default());
    }
    everything.extend(place.server.dir.sql().content().into_iter().flat_map(|(_, bytes)| bytes));
    for token in [&place.read, &place.write, &place.admin] {
        // Without the prefix that all tokens share.
        let digits = &token["token"].as_str().expect("a token").as_bytes()[4..];
        assert!(
            !everything.windows(digits.len()).any(|window| window == digits),
            "a token is in clear somewhere"
        );
    }
}

#[test]
fn on_loopback_no_token_is_needed_but_a_wrong_one_is_refused() {
    let server = Server::start();
    server.session("s");
    let read = made(server.dir.path(), "read");
    let bearer = format!("Bearer {}", read["token"].as_str().expect("a token"));
    let ask = |method: &str, value: &str| {
        server.ask(method, "/api/sessions/s", &[("authorization", value)], b"")
    };
    ask("GET", &bearer).is(200);
    ask("DELETE", &bearer).refuses(403, "forbidden_scope");
    ask("GET", "Bearer wrong").refuses(401, "unauthorized");
    ask("GET", "Basic abc").is(200);
    server.get("/api/sessions/s").is(200);
}

#[test]
fn listening_beyond_loopback_needs_configured_roots() {
    let dir = tempfile::tempdir().expect("a directory");
    made(dir.path(), "admin");
    let output =
        ctx(dir.path()).args(["serve", "--listen", "0.0.0.0:0", "--json"]).output().expect("ctx");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && told.contains("roots_needed")
            && told.contains("[server]"),
        "{told}"
    );
}
