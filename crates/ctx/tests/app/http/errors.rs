//! Invalid input gets a 4xx problem document with a reason and changes nothing.

use serde_json::json;

use crate::harness::server::Server;

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn invalid_json_and_an_invalid_body_have_different_errors() {
    let server = Server::start();
    let post = |body: &[u8]| server.ask("POST", "/api/sessions", &[JSON], body);
    for body in [
        &b"{"[..],
        b"{\"label\": }",
        b"label=x",
        b"\xff\xfe",
        b"{\"label\": 5, oops",
        &b"[".repeat(500),
    ] {
        post(body).refuses(400, "bad_json");
    }
    server.ask("POST", "/api/sessions", &[JSON], b"").refuses(400, "bad_json");
    for body in [
        "{\"label\": 5}",
        "{\"lable\": \"x\"}",
        "[]",
        "\"x\"",
        "null",
        "{\"track_tasks\": \"yes\"}",
        "{\"label\": \"a\", \"label\": \"b\"}",
    ] {
        post(body.as_bytes()).refuses(422, "invalid_body");
    }
    let problem = post(b"{\"lable\": \"x\"}").refuses(422, "invalid_body");
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|text| text.contains("lable") && text.contains("label")),
        "{problem}"
    );
    for field in ["title", "model", "project"] {
        for text in ["x".repeat(2000), "a\0b".to_owned(), String::new()] {
            server.post("/api/sessions", &json!({field: text})).refuses(422, "bad_text");
        }
    }
    assert!(server.labels("?status=all").is_empty(), "nothing was made");
}

#[test]
fn a_message_has_text_or_content() {
    let server = Server::start();
    server.session("s");
    for body in [
        json!({}),
        json!({"text": "a", "content": [{"type": "text", "text": "b"}]}),
        json!({"content": []}),
        json!({"content": [{"type": "image", "blob": "x"}]}),
        json!({"content": [{"type": "text", "text": "b", "colour": "red"}]}),
        json!({"text": 5}),
        json!({"text": "a", "queue_mode": "now"}),
        json!({"text": "a", "source": "nobody"}),
        json!({"text": "a", "tools": [{"title": "x"}]}),
    ] {
        server.post("/api/sessions/s/messages", &body).refuses(422, "invalid_body");
        server
            .post("/api/sessions", &json!({"label": "new", "message": body}))
            .refuses(422, "invalid_body");
    }
    server
        .post("/api/sessions/s/messages", &json!({"text": "a", "provider_id": "nobody"}))
        .refuses(422, "unknown_provider");
    server.post("/api/sessions/nobody/messages", &json!({"text": "a"})).refuses(404, "no_session");
    assert_eq!(server.labels(""), ["s"], "nothing was made");
}

#[test]
fn a_body_has_a_maximum_size_and_a_content_type() {
    let server = Server::start();
    let large = format!("{{\"title\": \"{}\"}}", "x".repeat(9 << 20));
    server.ask("POST", "/api/sessions", &[JSON], large.as_bytes()).refuses(413, "body_too_large");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
        server
            .ask("POST", "/api/sessions", &[("content-type", kind)], b"{}")
            .refuses(415, "not_json");
    }
    server.ask("POST", "/api/sessions", &[], b"{}").refuses(415, "not_json");
    server
        .ask("POST", "/api/sessions", &[("content-type", "application/json; charset=utf-8")], b"{}")
        .is(201);
    server
        .ask("POST", "/api/sessions/x/fork", &[("content-type", "text/plain")], b"{}")
        .refuses(415, "not_json");
}

#[test]
fn unknown_paths_and_methods_are_problems_too() {
    let server = Server::start();
    for path in ["/api", "/api/nothing", "/api/sessions/x/nothing", "/nothing"] {
        server.get(path).refuses(404, "not_found");
    }
    let answer = server.ask("PUT", "/api/sessions/x", &[], b"");
    let allow = answer.header("allow").expect("what is allowed").to_owned();
    answer.refuses(405, "method_not_allowed");
    for method in ["GET", "PATCH", "DELETE"] {
        assert!(allow.contains(method), "{allow}");
    }
    server.ask("DELETE", "/api/sessions", &[], b"").refuses(405, "method_not_allowed");
}

#[test]
fn a_missing_resource_gets_404() {
    let server = Server::start();
    server.session("s");
    let ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let hash = "0".repeat(64);
    for path in [
        "turns", "tree", "history", "inbox", "task", "tasks", "messages", "events", "export",
        "diff/s",
    ] {
        server.get(&format!("/api/sessions/nobody/{path}")).refuses(404, "no_session");
        server.get(&format!("/api/sessions/{ulid}/{path}")).refuses(404, "no_session");
    }
    for path in ["turns", "commits", "blobs"] {
        for name in [hash.as_str(), "x"] {
            server.get(&format!("/api/{path}/{name}")).refuses(404, "not_found");
        }
    }
    for name in [ulid, "x"] {
        server.get(&format!("/api/runs/{name}")).refuses(404, "not_found");
        server
            .ask("DELETE", &format!("/api/sessions/s/inbox/{name}"), &[], b"")
            .refuses(404, "no_item");
        server
            .send("PATCH", &format!("/api/sessions/s/inbox/{name}"), &json!({"position": 1}))
            .refuses(404, "no_item");
        server
            .post("/api/sessions/s/resume", &json!({"suspension_id": name, "choice": "x"}))
            .refuses(404, "no_suspension");
    }
    server.get("/api/sessions/%ff").refuses(404, "not_found");
}

#[test]
fn an_action_that_is_not_possible_now_gets_409() {
    let server = Server::start();
    server.session("s");
    server.post("/api/sessions/s/answer", &json!({"choice": "continue"})).refuses(409, "no_prompt");
    server.post("/api/sessions/s/retry", &json!({})).refuses(409, "nothing_to_retry");
    server.post("/api/sessions/s/task/reopen", &json!({})).refuses(409, "nothing_to_reopen");
    server
        .post("/api/sessions/s/rewind", &json!({"turn_id": "0".repeat(64)}))
        .refuses(404, "not_found");
    server
        .post("/api/sessions/s/answer", &json!({"choice": "perhaps"}))
        .refuses(422, "invalid_body");
    server.send("PATCH", "/api/sessions/s", &json!({"delivery": "refuse"})).is(200);
    server
        .post("/api/sessions/s/messages", &json!({"text": "hello"}))
        .refuses(409, "delivery_refused");
}

#[test]
fn page_sizes_and_cursors_are_validated() {
    let server = Server::start();
    server.session("s");
    for query in ["limit=0", "limit=1001", "limit=-1", "order=up", "cursor=zz", "nonsense=1"] {
        assert_eq!(server.get(&format!("/api/sessions/s/messages?{query}")).status, 422, "{query}");
    }
    let unknown = format!("d{}{}{}", "0".repeat(64), "0".repeat(16), "0".repeat(16));
    server
        .get(&format!("/api/sessions/s/messages?order=desc&cursor={unknown}"))
        .refuses(404, "no_cursor");
    server
        .get(&format!("/api/sessions/s/turns?cursor={}", "0".repeat(64)))
        .refuses(404, "no_cursor");
    server.get("/api/commits?type=strange").refuses(422, "invalid_query");
    server.get("/api/search").refuses(422, "invalid_query");
}
