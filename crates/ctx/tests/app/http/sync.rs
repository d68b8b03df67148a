//! A server as the remote of `ctx push` and `ctx pull`: `/api/sync/…`.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::repo::Repo;
use crate::harness::server::{Server, configure, home};

fn head(repo: &Repo, label: &str) -> Value {
    repo.ok(["session", "show", label])["session"]["head"].clone()
}

#[test]
fn a_server_is_a_remote() {
    let server = Server::start();
    let (a, b) = (Repo::new(), Repo::new());
    a.ok(["session", "new", "--label", "talk"]);
    a.ok(["session", "send", "talk", "hello"]);
    let url = format!("http://{}/", server.client().address);
    for repo in [&a, &b] {
        repo.ok(["remote", "add", "hub", &url]);
    }
    let pushed = a.ok(["push"]);
    assert_eq!(pushed["up_to_date"], false, "{pushed}");
    assert_eq!(a.ok(["push"])["up_to_date"], true);
    assert_eq!(server.get("/api/sessions/talk").is(200)["head"], head(&a, "talk"));
    b.ok(["pull"]);
    assert_eq!(head(&b, "talk"), head(&a, "talk"));
    b.ok(["session", "send", "talk", "of b"]);
    a.ok(["session", "send", "talk", "of a"]);
    b.ok(["push"]);
    let diverged = a.ok(["sync"]);
    assert_eq!(diverged["branched"].as_array().map(Vec::len), Some(2), "{diverged}");
    assert_eq!(a.ok(["sync"])["up_to_date"], true);
    a.assert_whole();
}

#[test]
fn bad_messages_are_refused_and_change_nothing() {
    let server = Server::start();
    let media = ("content-type", "application/vnd.ctx.exchange");
    let before = server.get("/api/sessions?status=all").is(200);
    for route in ["/api/sync/have", "/api/sync/objects/out", "/api/sync/objects/in"] {
        for body in [&b""[..], b"{}", b"\x28\xb5\x2f\xfd\x00\x00", &[0; 1000]] {
            server.ask("POST", route, &[media], body).refuses(422, "invalid_body");
        }
        server
            .ask("POST", route, &[("content-type", "application/json")], b"{}")
            .refuses(415, "not_an_exchange");
    }
    assert_eq!(server.get("/api/sessions?status=all").is(200), before);
    assert_eq!(before["sessions"], json!([]));
}

#[test]
fn a_token_to_read_can_pull_and_one_to_write_can_push() {
    let (dir, logs) = (home(), tempfile::tempdir().expect("a directory"));
    let token = |scope: &str| {
        let made = ctx(dir.path()).args(["token", "create", "--scope", scope, "--json"]).output();
        let made: Value = serde_json::from_slice(&made.expect("it runs").stdout).expect("JSON");
        made["token"].as_str().expect("a token").to_owned()
    };
    let (read, write) = (token("read"), token("write"));
    configure(dir.path(), &format!("[server]\nroots = [{:?}]\n", dir.path()));
    let server = Server::on_all_interfaces(dir, &logs.path().join("log"));
    let mut repo = Repo::new();
    repo.ok(["session", "new", "--label", "talk"]);
    repo.ok(["session", "send", "talk", "hello"]);
    let url = format!("http://127.0.0.1:{}", server.client().address.port());
    repo.ok(["remote", "add", "open", &url]);
    assert_eq!(repo.fails(["pull", "open"]).1["code"], "unauthorized");
    repo.ok(["remote", "add", "hub", &url, "--token-env", "HUB_TOKEN"]);
    repo.set("HUB_TOKEN", &read);
    assert_eq!(repo.ok(["pull", "hub"])["up_to_date"], true);
    assert_eq!(repo.fails(["push", "hub"]).1["code"], "forbidden_scope");
    repo.set("HUB_TOKEN", &write);
    assert_eq!(repo.ok(["push", "hub"])["pushed"][0]["label"], "talk");
    repo.set("HUB_TOKEN", "wrong");
    assert_eq!(repo.fails(["push", "hub"]).1["code"], "unauthorized");
}
