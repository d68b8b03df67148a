//! `POST /api/hooks/{name}`: an outside event with the right secret becomes one message.

use serde_json::{Value, json};

use crate::harness::client::Response;
use crate::harness::ctx;
use crate::harness::server::{Home, Server, configure, configured_home};

const SECRET: &str = "It's a Secret to Everybody";
const HOOKS: &str = r#"
[hooks.ci]
secret_env = "CI_SECRET"
text = "A build has ended. Look at it."

[hooks.plain]
secret_env = "PLAIN_SECRET"
session = "events"
queue_mode = "collect"
"#;
/// HMAC-SHA256 of `Hello, World!` under the secret, from the documentation of GitHub's webhooks.
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

fn serve(home: Home, listen: &str) -> Server {
    Server::spawn(home, listen, |command| {
        command
            .env("CTX_LOG", "error")
            .env("CI_SECRET", SECRET)
            .env("PLAIN_SECRET", "another secret")
    })
}

fn start() -> Server {
    serve(configured_home(HOOKS), "127.0.0.1:0")
}

fn bearer(secret: &str) -> String {
    format!("Bearer {secret}")
}

/// Sends an event to the hook `ci` with its secret.
fn send(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let bearer = bearer(SECRET);
    let headers = [&[("authorization", bearer.as_str())], headers].concat();
    server.ask("POST", "/api/hooks/ci", &headers, body)
}

/// The messages of the user in a session, with their sources.
fn received(server: &Server, session: &str) -> Vec<(String, String)> {
    server.settled(session);
    let of = |message: &Value| {
        let text = message["content"][0]["text"].as_str().expect("a text").to_owned();
        (message["source"].as_str().expect("a source").to_owned(), text)
    };
    let (messages, _) = server.everything(session);
    messages.iter().filter(|message| message["role"] == "user").map(of).collect()
}

fn webhook(text: &str) -> (String, String) {
    ("webhook".to_owned(), text.to_owned())
}

#[test]
fn an_event_with_the_secret_becomes_a_message_of_its_session() {
    let server = start();
    let body = br#"{"status":"failed","jobs":[1,2]}"#;
    let accepted = send(&server, &[("content-type", "application/json")], body).is(202);
    assert_eq!(accepted["session"], "system:ci");
    assert!(accepted["message_id"].is_string() && accepted["run_id"].is_string(), "{accepted}");
    let session = server.read("/api/sessions/system:ci");
    assert_eq!(accepted["session_id"], session["id"]);
    send(&server, &[("content-type", "text/plain")], b"as text").is(202);
    send(&server, &[], b"").is(202);
    let text = "A build has ended. Look at it.";
    let json = "{\n  \"status\": \"failed\",\n  \"jobs\": [\n    1,\n    2\n  ]\n}";
    assert_eq!(
        received(&server, "system:ci"),
        [
            webhook(&format!("{text}\n\n{json}")),
            webhook(&format!("{text}\n\nas text")),
            webhook(text)
        ]
    );
}

#[test]
fn a_request_without_the_right_secret_changes_nothing() {
    let server = start();
    let wrong = [
        ("authorization", bearer("another secret")),
        ("authorization", bearer("")),
        ("authorization", format!("Basic {SECRET}")),
        ("x-hub-signature-256", SIGNATURE.replace("757", "757107")),
        ("x-hub-signature-256", SIGNATURE.replace("sha256=7", "sha256=8")),
        ("x-hub-signature-256", SIGNATURE.replace("sha256", "sha1")),
        ("x-hub-signature-256", String::new()),
        ("accept", "*/*".to_owned()),
    ];
    for (name, value) in &wrong {
        let answer = server.ask("POST", "/api/hooks/ci", &[(name, value)], b"Hello, World!");
        let problem = answer.refuses(401, "bad_secret");
        assert!(!problem.to_string().contains(SECRET), "{problem}");
    }
    let signed = [("x-hub-signature-256", SIGNATURE)];
    server.ask("POST", "/api/hooks/ci", &signed, b"Hello, World?").refuses(401, "bad_secret");
    server.ask("POST", "/api/hooks/plain", &signed, b"Hello, World!").refuses(401, "bad_secret");
    for unknown in ["/api/hooks/unknown", "/api/hooks/CI", "/api/hooks/%00"] {
        server.ask("POST", unknown, &signed, b"Hello, World!").refuses(404, "no_hook");
    }
    server.get("/api/hooks/ci").refuses(405, "method_not_allowed");
    assert_eq!(server.labels(""), [""; 0]);
}

#[test]
fn a_signature_of_the_body_replaces_the_secret() {
    let server = start();
    let headers = [("x-hub-signature-256", SIGNATURE)];
    server.ask("POST", "/api/hooks/ci", &headers, b"Hello, World!").is(202);
    let both = [("authorization", "Bearer wrong"), ("x-hub-signature-256", SIGNATURE)];
    server.ask("POST", "/api/hooks/ci", &both, b"Hello, World!").is(202);
    assert_eq!(received(&server, "system:ci").len(), 2);
}

#[test]
fn a_repeated_delivery_gives_one_message() {
    let server = start();
    for header in ["idempotency-key", "x-github-delivery"] {
        let key = [(header, "1f0b3c9e")];
        let first = send(&server, &key, b"one").is(202);
        assert_eq!(send(&server, &key, b"one").is(202), first);
        send(&server, &key, b"two").refuses(422, "idempotency_mismatch");
        // The two headers are two names of one key.
        if header == "idempotency-key" {
            assert_eq!(send(&server, &[("x-github-delivery", "1f0b3c9e")], b"one").is(202), first);
        }
        send(&server, &[(header, "")], b"one").refuses(422, "invalid_header");
    }
    assert_eq!(received(&server, "system:ci").len(), 1);
    // Another hook with the same key.
    let headers = [("authorization", "Bearer another secret"), ("idempotency-key", "1f0b3c9e")];
    let other = server.ask("POST", "/api/hooks/plain", &headers, b"one").is(202);
    assert_eq!(other["session"], "events");
    assert_eq!(received(&server, "events"), [webhook("one")]);
    // Also after a restart.
    let (_, _, home) = server.end();
    let server = serve(home, "127.0.0.1:0");
    send(&server, &[("idempotency-key", "1f0b3c9e")], b"one").is(202);
    assert_eq!(received(&server, "system:ci").len(), 1);
}

#[test]
fn a_wrong_body_is_refused() {
    let server = start();
    send(&server, &[], &vec![b'x'; 1_000_001]).refuses(413, "body_too_large");
    send(&server, &[("content-type", "application/json")], b"{\"a\":").refuses(400, "bad_json");
    send(&server, &[], b"\xff\xfe").refuses(422, "bad_text");
    send(&server, &[], b"a\0b").refuses(422, "bad_text");
    let plain = [("authorization", "Bearer another secret")];
    server.ask("POST", "/api/hooks/plain", &plain, b"").refuses(422, "bad_text");
    server.ask("POST", "/api/hooks/plain", &plain, b" \n").refuses(422, "bad_text");
    assert_eq!(server.labels(""), [""; 0], "no session was created");
    // The largest body; nesting that cannot be indented within the limit.
    server.ask("POST", "/api/hooks/plain", &plain, &vec![b'x'; 1_000_000]).is(202);
    let deep = "[".repeat(400_000) + &"]".repeat(400_000);
    server.ask("POST", "/api/hooks/plain", &plain, deep.as_bytes()).is(202);
    assert_eq!(received(&server, "events")[1], webhook(&deep));
}

#[test]
fn beyond_loopback_a_hook_needs_its_secret_and_no_token() {
    let home = configured_home("");
    let made = ctx(home.path())
        .args(["token", "create", "--scope", "admin", "--json"])
        .output()
        .expect("ctx token");
    let token: Value = serde_json::from_slice(&made.stdout).expect("a document");
    let token = bearer(token["token"].as_str().expect("a token"));
    configure(home.path(), &format!("{HOOKS}\n[server]\nroots = [{:?}]\n", home.path()));
    let server = serve(home, "0.0.0.0:0");
    send(&server, &[], b"event").is(202);
    server.post("/api/hooks/ci", &json!({})).refuses(401, "bad_secret");
    let with_token = [("authorization", token.as_str())];
    server.ask("POST", "/api/hooks/ci", &with_token, b"event").refuses(401, "bad_secret");
    let secret = bearer(SECRET);
    for (method, path) in
        [("GET", "/api/sessions"), ("GET", "/api/hooks/ci"), ("GET", "/api/schedules")]
    {
        let answer = server.ask(method, path, &[("authorization", &secret)], b"");
        answer.refuses(401, "unauthorized");
    }
    server.ask("GET", "/api/sessions/system:ci", &with_token, b"").is(200);
}

#[test]
fn a_wrong_hook_stops_the_server_and_names_itself() {
    let table = [
        ("[hooks.ci]\nsecret_env = \"CTX_UNSET_SECRET\"\n", "CTX_UNSET_SECRET"),
        ("[hooks.ci]\ntext = \"x\"\n", "secret_env"),
        ("[hooks.ci]\nsecret_env = \"\"\n", "secret_env"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\ntext = \" \"\n", "text: the text is empty"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\nqueue_mode = \"soon\"\n", "soon"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\nsession = \" x\"\n", "invalid label"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\nprovider = \"nope\"\n", "unknown provider `nope`"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\npersona = \"nope\"\n", "unknown persona `nope`"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\nworking_dir = \"x\"\n", "working_dir"),
        ("[hooks.ci]\nsecret_env = \"PATH\"\nurl = \"x\"\n", "url"),
        ("[hooks.CI]\nsecret_env = \"PATH\"\n", "invalid name"),
    ];
    for (config, named) in table {
        let home = configured_home(config);
        let output = ctx(home.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .output()
            .expect("ctx serve");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{config}: {error}");
        for part in ["bad_config", "ctx.toml", named] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        assert!(error.contains("`ci`") || error.contains("line") || error.contains("`CI`"));
    }
}
