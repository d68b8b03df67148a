//! The OpenAPI document is generated from the handlers.

use serde_json::Value;

use crate::harness::server::Server;

/// Every route of this server.
const ROUTES: &[(&str, &str)] = &[
    ("/api/sessions", "get post"),
    ("/api/sessions/{id}", "get patch delete"),
    ("/api/sessions/{id}/archive", "post"),
    ("/api/sessions/{id}/unarchive", "post"),
    ("/api/sessions/{id}/fork", "post"),
    ("/api/sessions/{id}/cancel", "post"),
    ("/api/sessions/{id}/compact", "post"),
    ("/api/sessions/{id}/pins", "get"),
    ("/api/sessions/{id}/pins/{turn}", "post delete"),
    ("/api/sessions/{id}/messages", "get post"),
    ("/api/sessions/{id}/events", "get"),
    ("/api/sessions/{id}/stream", "get head"),
    ("/api/sessions/{id}/inbox", "get"),
    ("/api/sessions/{id}/inbox/{item}", "patch delete"),
    ("/api/sessions/{id}/turns", "get"),
    ("/api/sessions/{id}/tree", "get"),
    ("/api/sessions/{id}/diff/{other}", "get"),
    ("/api/sessions/{id}/export", "get"),
    ("/api/sessions/import", "post"),
    ("/api/sync/heads", "get"),
    ("/api/sync/have", "post"),
    ("/api/sync/objects/out", "post"),
    ("/api/sync/objects/in", "post"),
    ("/api/sessions/{id}/history", "get"),
    ("/api/sessions/{id}/retry", "post"),
    ("/api/sessions/{id}/rewind", "post"),
    ("/api/sessions/{id}/task", "get"),
    ("/api/sessions/{id}/tasks", "get"),
    ("/api/sessions/{id}/task/confirm", "post"),
    ("/api/sessions/{id}/task/abandon", "post"),
    ("/api/sessions/{id}/task/reopen", "post"),
    ("/api/sessions/{id}/answer", "post"),
    ("/api/sessions/{id}/resume", "post"),
    ("/api/tasks/{task}", "get"),
    ("/api/tasks/{task}/steps", "get"),
    ("/api/tasks/{task}/files", "get"),
    ("/api/turns/{turn}", "get"),
    ("/api/runs/{run}", "get"),
    ("/api/blobs/{hash}", "get"),
    ("/api/commits", "get"),
    ("/api/commits/{commit}", "get"),
    ("/api/search", "get"),
    ("/api/usage", "get"),
    ("/api/providers", "get"),
    ("/api/setup", "get"),
    ("/api/setup/providers/{name}", "put delete"),
    ("/api/setup/settings", "patch"),
    ("/api/setup/models", "get"),
    ("/api/setup/test", "post"),
    ("/api/directories", "get"),
    ("/api/providers/{id}/models", "get"),
    ("/api/files", "get"),
    ("/api/schedules", "get"),
    ("/api/hooks/{name}", "post"),
    ("/api/outbox", "get"),
    ("/api/outbox/{delivery}", "get"),
    ("/api/outbox/{delivery}/retry", "post"),
    ("/api/inbound", "post"),
    ("/api/entities", "get post"),
    ("/api/entities/merge", "post"),
    ("/api/entities/{id}", "get patch"),
    ("/api/entities/{id}/identities", "get post delete"),
    ("/api/entities/{id}/sessions", "get"),
    ("/api/aliases", "get post"),
    ("/api/aliases/{alias}", "delete"),
    ("/api/events", "get"),
    ("/api/openapi.json", "get"),
    ("/healthz", "get"),
    ("/readyz", "get"),
    ("/metrics", "get"),
];

#[test]
fn the_document_lists_every_route_and_no_other() {
    let server = Server::start();
    let document = server.get("/api/openapi.json").is(200);
    assert!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")),
        "{}",
        document["openapi"]
    );
    let paths = document["paths"].as_object().expect("paths");
    for (path, methods) in ROUTES {
        let described =
            paths.get(*path).and_then(Value::as_object).unwrap_or_else(|| panic!("{path}"));
        let mut known: Vec<&str> = described.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = methods.split(' ').collect();
        known.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(known, wanted, "{path}");
    }
    let known: Vec<&String> =
        paths.keys().filter(|path| !ROUTES.iter().any(|(known, _)| known == path)).collect();
    assert!(known.is_empty(), "{known:?}");
    assert_refers_to_nothing_missing(&document, &document);
}

/// Asserts that every `$ref` resolves.
fn assert_refers_to_nothing_missing(document: &Value, at: &Value) {
    match at {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get("$ref") {
                let pointer = to.strip_prefix('#').expect("a reference inside");
                assert!(document.pointer(pointer).is_some(), "{to}");
            }
            fields.values().for_each(|value| assert_refers_to_nothing_missing(document, value));
        }
        Value::Array(values) => {
            values.iter().for_each(|value| assert_refers_to_nothing_missing(document, value));
        }
        _ => {}
    }
}

#[test]
fn the_root_document_links_the_api() {
    let server = Server::start();
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    assert!(page.text().contains("/api/openapi.json"));
}

#[test]
fn the_page_may_run_only_its_own_files() {
    let server = Server::start();
    let page = server.get("/");
    let policy = page.header("content-security-policy").expect("a policy").to_owned();
    assert!(
        policy.contains("default-src 'none'")
            && policy.contains("script-src 'self'")
            && !policy.contains("unsafe"),
        "{policy}"
    );
    let text = page.text();
    for file in ["/assets/app.js", "/assets/app.css", "/assets/icon.svg"] {
        assert!(text.contains(file), "{file}");
        let answer = server.get(file);
        assert_eq!(
            (answer.status, answer.header("x-content-type-options")),
            (200, Some("nosniff")),
            "{file}"
        );
        let tag = answer.header("etag").expect("a tag").to_owned();
        assert_eq!(server.ask("GET", file, &[("if-none-match", &tag)], b"").status, 304, "{file}");
    }
    server.get("/assets/SOURCE_HASH").refuses(404, "not_found");
    server.get("/assets/..%2f..%2fCargo.toml").refuses(404, "not_found");
}
