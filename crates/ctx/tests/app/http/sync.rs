//! A server as the remote of `ctx push` and `ctx pull`: `/api/sync/…`.

use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::server::Server;

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
