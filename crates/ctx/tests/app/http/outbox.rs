//! Deliveries to channels: signed, in order, again after a failure or a crash, and retried by hand.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::hook_server::{Answer, HookServer, SECRET, SECRET_VARIABLE, message_from};
use crate::harness::server::{Home, Server, configure, configured_home, home};
use crate::harness::test_store::on_postgres;
use crate::harness::{ctx, verify, wait_for, wait_until};

fn serve(home: &Home) -> Server {
    let server = Server::spawn(home.clone(), "127.0.0.1:0", |command| {
        command.env("CTX_LOG", "error").env(SECRET_VARIABLE, SECRET)
    });
    server.wait_until_ready();
    server
}

/// A home directory with a store and a receiver as the channel `irc`.
fn home_with(hook: &HookServer, timeout: &str) -> Home {
    configured_home(&hook.config(timeout))
}

fn deliveries(client: &Client, query: &str) -> Vec<Value> {
    let page = client.read(&format!("/api/outbox?{query}"));
    page["deliveries"].as_array().expect("a list").clone()
}

/// Runs `ctx outbox …` with `--json`.
fn outbox(home: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let mut command = ctx(home);
    let output = command.arg("outbox").args(args).arg("--json").output().expect("ctx runs");
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    (output.status.code(), serde_json::from_slice(text).expect("one document"))
}

#[test]
fn an_answer_is_posted_with_a_valid_signature() {
    let hook = HookServer::responding(|_, _| Answer::Status(204));
    let home = home_with(&hook, "10s");
    let server = serve(&home);
    message_from(home.path(), "irc", "mom", "family", "hello there");
    let delivery = hook.wait_for(1).remove(0);
    let row = wait_for("it is stored", || deliveries(&server, "status=delivered").pop());
    let session = server.read("/api/sessions/family");
    let body = &delivery.body;
    assert_eq!(delivery.path, "/hook");
    assert_eq!((&body["kind"], &body["label"]), (&json!("reply"), &json!("family")));
    assert_eq!((&body["session"], &body["turn"]), (&session["id"], &session["head"]));
    assert_eq!(body["to"], json!({"channel": "irc", "peer_kind": "dm", "peer_id": "mom"}));
    assert_eq!((&row["id"], &row["text"]), (&json!(delivery.id), &body["text"]));
    assert_eq!((&row["attempts"], &row["last_error"]), (&json!(1), &Value::Null));
    let messages = server.read("/api/sessions/family/messages")["messages"].clone();
    assert_eq!(body["message_ids"], json!([messages[0]["id"]]));
    assert_eq!(messages[1]["content"][0]["text"].as_str().map(str::trim), body["text"].as_str());
    // A permission is asked on the channel, and the rest follows after the answer.
    message_from(home.path(), "irc", "mom", "family", "ask for permission");
    let asked = hook.wait_for(2).remove(1).body;
    assert_eq!(asked["kind"], "permission");
    assert!(asked["options"].as_array().is_some_and(|options| options.len() >= 2), "{asked}");
    assert_eq!(asked["turn"], Value::Null);
    let answer = json!({
        "suspension_id": asked["suspension_id"],
        "choice": asked["options"][0]["id"],
    });
    server.post("/api/sessions/family/resume", &answer).is(202);
    let rest = hook.wait_for(3).remove(2).body;
    let so_far = asked["text"].as_str().expect("a text").split("\n\n").next().expect("a part");
    assert!(!rest["text"].as_str().expect("a text").contains(so_far), "{rest} {asked}");
    // A command to ctx is answered as well.
    message_from(home.path(), "irc", "mom", "family", "/help");
    assert!(hook.wait_for(4)[3].text().contains("/done"));
    verify(home.path(), "after the deliveries");
}

#[test]
fn a_receiver_that_fails_hangs_redirects_or_is_slow_gets_it_again() {
    let hook = HookServer::responding(|before, delivery| match (before, delivery.peer()) {
        (0, "fails") => Answer::Status(500),
        (0, "hangs") => Answer::Hang,
        (0, "redirects") => Answer::Redirect,
        (0, "is slow") => Answer::Slow,
        _ => Answer::Status(200),
    });
    let home = home_with(&hook, "500ms");
    let server = serve(&home);
    let cases = [
        ("fails", "status 500"),
        ("hangs", "no complete answer within 0.5 s"),
        ("redirects", "status 307: redirects are not followed"),
        ("is slow", "no complete answer within 0.5 s"),
    ];
    for (peer, _) in cases {
        message_from(home.path(), "irc", peer, peer, "hello");
    }
    for (peer, error) in cases {
        let label = peer.replace(' ', "%20");
        let row = wait_for("a failed attempt", || {
            deliveries(&server, &format!("session={label}"))
                .pop()
                .filter(|row| !row["last_error"].is_null() || row["status"] == "delivered")
        });
        if row["status"] == "pending" {
            assert_eq!(row["last_error"], error, "{peer}");
        }
    }
    wait_until("all are delivered", || deliveries(&server, "status=delivered").len() == 4);
    let sent = hook.deliveries();
    assert!(sent.iter().all(|delivery| delivery.path == "/hook"), "no redirect is followed");
    for (peer, _) in cases {
        let ids: Vec<&str> = sent
            .iter()
            .filter(|delivery| delivery.peer() == peer)
            .map(|delivery| delivery.id.as_str())
            .collect();
        assert_eq!((ids.len(), ids[0]), (2, ids[1]), "{peer}");
    }
}

#[test]
fn a_delivery_survives_the_death_of_the_server() {
    let hook = HookServer::responding(|before, _| match before {
        0 => Answer::Hang,
        _ => Answer::Status(200),
    });
    // In a directory the lease of a delivery is not awaited after its process has ended.
    let home = home_with(&hook, if on_postgres() { "2s" } else { "60s" });
    let server = serve(&home);
    message_from(home.path(), "irc", "mom", "family", "hello");
    let first = hook.wait_for(1).remove(0);
    server.kill();
    let server = serve(&home);
    let second = hook.wait_for(2).remove(1);
    assert_eq!((&second.id, &second.body), (&first.id, &first.body));
    wait_until("it is stored", || deliveries(&server, "status=delivered").len() == 1);
    // A stopped server gives up its deliveries as well.
    message_from(home.path(), "irc", "mom", "family", "again");
    hook.wait_for(3);
    server.end();
    let server = serve(&home);
    hook.wait_for(4);
    wait_until("it is stored", || deliveries(&server, "status=delivered").len() == 2);
    verify(home.path(), "after the crash");
}

#[test]
fn dead_deliveries_are_listed_and_retried_over_http_and_on_the_command_line() {
    let hook = HookServer::responding(|before, _| match before {
        0 => Answer::Status(410),
        _ => Answer::Status(200),
    });
    let home = home_with(&hook, "10s");
    let server = serve(&home);
    for sender in ["mom", "dad"] {
        message_from(home.path(), "irc", sender, sender, "hello");
    }
    wait_until("they are dead", || deliveries(&server, "status=dead").len() == 2);
    let dead = deliveries(&server, "status=dead&channel=irc&session=dad").remove(0);
    assert_eq!((&dead["last_error"], &dead["attempts"]), (&json!("status 410"), &json!(1)));
    let id = dead["id"].as_str().expect("an id");
    let path = format!("/api/outbox/{id}");
    assert_eq!(server.read(&path), dead);
    let retried = server.post(&format!("{path}/retry"), &json!({})).is(200);
    assert_eq!((&retried["status"], &retried["attempts"]), (&json!("pending"), &json!(0)));
    wait_until("it is delivered", || server.read(&path)["status"] == "delivered");
    server.post(&format!("{path}/retry"), &json!({})).refuses(409, "not_dead");
    // The other one by the command line, which the server notices.
    let (code, listed) = outbox(home.path(), &["list", "--status", "dead", "--channel", "irc"]);
    assert_eq!((code, listed["deliveries"].as_array().map(Vec::len)), (Some(0), Some(1)));
    let id = listed["deliveries"][0]["id"].as_str().expect("an id").to_owned();
    let (code, shown) = outbox(home.path(), &["show", &id]);
    assert_eq!((code, &shown), (Some(0), &server.read(&format!("/api/outbox/{id}"))));
    let (code, retried) = outbox(home.path(), &["retry", &id]);
    assert_eq!((code, &retried["status"]), (Some(0), &json!("pending")));
    wait_until("it is delivered", || {
        outbox(home.path(), &["show", &id]).1["status"] == "delivered"
    });
    let (code, refused) = outbox(home.path(), &["retry", &id]);
    assert_eq!((code, &refused["code"]), (Some(1), &json!("not_dead")));
    // Pages, and what does not exist.
    let page = server.read("/api/outbox?limit=1");
    let next = page["next_cursor"].as_str().expect("another page");
    let last = server.read(&format!("/api/outbox?limit=1&cursor={next}"));
    assert_eq!(last["next_cursor"], Value::Null);
    assert_ne!(last["deliveries"][0]["id"], page["deliveries"][0]["id"]);
    let (_, page) = outbox(home.path(), &["list", "-n", "1"]);
    let next = page["next_cursor"].as_str().expect("another page");
    let (_, last) = outbox(home.path(), &["list", "-n", "1", "--before", next]);
    assert_eq!(last["next_cursor"], Value::Null);
    for (path, status, code) in [
        ("/api/outbox/01ARZ3NDEKTSV4RRFFQ69G5FAV", 404, "not_found"),
        ("/api/outbox/x", 404, "not_found"),
        ("/api/outbox?session=nobody", 404, "no_session"),
        ("/api/outbox?status=lost", 422, "invalid_query"),
        ("/api/outbox?cursor=h0000000000000001", 422, "invalid_cursor"),
    ] {
        server.get(path).refuses(status, code);
    }
    assert_eq!(outbox(home.path(), &["show", "x"]).0, Some(2));
    assert_eq!(outbox(home.path(), &["show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]).1["code"], "not_found");
}

#[test]
fn deliveries_to_a_channel_without_configuration_wait_for_it() {
    let hook = HookServer::responding(|_, _| Answer::Status(200));
    let home = home();
    let server = Server::in_dir(home.clone());
    server.wait_until_ready();
    message_from(home.path(), "irc", "mom", "family", "hello");
    let row = wait_for("a row", || deliveries(&server, "").pop());
    assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(0)));
    assert_eq!(row["last_error"], "no_channel");
    assert_eq!(outbox(home.path(), &["list"]).1["deliveries"][0]["last_error"], "no_channel");
    server.end();
    configure(home.path(), &hook.config("10s"));
    let server = serve(&home);
    assert_eq!(hook.wait_for(1)[0].id, row["id"].as_str().expect("an id"));
    wait_until("it is stored", || deliveries(&server, "status=delivered").len() == 1);
}

#[test]
fn a_wrong_channel_is_refused_before_the_server_starts() {
    let secret = format!("secret_env = \"{SECRET_VARIABLE}\"\n");
    let table = [
        ("url = \"http://127.0.0.1:1/\"\n".to_owned(), "secret_env"),
        (secret.clone(), "url"),
        (format!("url = \"http://example.org/\"\n{secret}"), "channels.irc.url"),
        (format!("url = \"ftp://127.0.0.1/\"\n{secret}"), "channels.irc.url"),
        (format!("url = \"http://[::1]:1/\"\n{secret}timeout = \"1h\"\n"), "channels.irc.timeout"),
        (
            "url = \"https://[::1]:1/\"\nsecret_env = \"NOT_SET\"\n".to_owned(),
            "`NOT_SET` is not set",
        ),
        (format!("url = \"https://[::1]:1/\"\n{secret}retries = 3\n"), "retries"),
    ];
    for (settings, word) in table {
        let home = configured_home(&format!("[channels.irc]\n{settings}"));
        let mut command = ctx(home.path());
        command.env(SECRET_VARIABLE, SECRET).args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let output = command.output().expect("ctx runs");
        let problem: Value = serde_json::from_slice(&output.stderr).expect("a problem");
        assert_eq!((output.status.code(), &problem["code"]), (Some(2), &json!("bad_config")));
        assert!(problem["message"].as_str().is_some_and(|text| text.contains(word)), "{problem}");
        assert!(!home.has_store(), "no store is left behind");
    }
}
