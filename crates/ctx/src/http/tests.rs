//! Requests to the router in process, with a provider that echoes the last message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Request;
use ctx_engine::core::message::Part;
use ctx_engine::provider::{
    About, Delta, End, Link, Provider, ProviderFeatures, Request as ProviderRequest, Stop,
};
use ctx_engine::{Engine, EngineTimeouts, Options, Providers};
use futures_util::StreamExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{ServeOptions, new_state, router, setup};

struct Echo;

#[async_trait]
impl Provider for Echo {
    fn about(&self) -> About {
        About {
            kind: "demo",
            can: ProviderFeatures::default(),
            models: Vec::new(),
            model: None,
            context_window: 1000,
            unavailable: None,
            ..About::default()
        }
    }

    async fn run(&self, request: ProviderRequest, link: Link) -> End {
        let text = request
            .messages
            .last()
            .and_then(|message| message.content.iter().find_map(Part::searchable_text))
            .unwrap_or_default()
            .to_owned();
        for word in text.split_inclusive(' ') {
            link.send(Delta::Text(word.to_owned())).await;
            tokio::time::sleep(Duration::from_millis(if text.starts_with("slowly") {
                300
            } else {
                1
            }))
            .await;
        }
        End::Done(Stop::EndTurn)
    }
}

struct TestServer {
    service: TowerToHyperService<axum::Router>,
    engine: Engine,
    _dir: TempDir,
}

impl TestServer {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Engine::init(dir.path(), "demo").expect("a store");
        let engine = Engine::open(dir.path(), Options::default()).expect("an engine");
        let engine = engine
            .with_providers(Providers::only("echo", Arc::new(Echo)), EngineTimeouts::default());
        let listen = "127.0.0.1:7420".parse().expect("an address");
        let options = ServeOptions {
            listen,
            roots: Vec::new(),
            hosts: Vec::new(),
            hooks: BTreeMap::new(),
            mcp: None,
            config: setup::ConfigSource::default(),
            draining: CancellationToken::new(),
        };
        let state = new_state(engine.clone(), options, CancellationToken::new()).expect("a state");
        Self { service: TowerToHyperService::new(router(state)), engine, _dir: dir }
    }

    async fn response(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> axum::response::Response {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request");
        self.service.call(request).await.expect("an answer")
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (u16, Value) {
        let response = self.response(method, path, headers, &body).await;
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, serde_json::from_slice(&bytes).expect("json"))
    }
}

#[tokio::test]
async fn send_returns_at_once_unless_the_client_prefers_to_wait() {
    let server = TestServer::new();
    let (status, made) = server
        .request(
            "POST",
            "/api/sessions",
            &[("prefer", "wait=10")],
            json!({"label": "s", "message": "one two"}),
        )
        .await;
    assert_eq!(
        (status, &made["state"], &made["message"]["state"]),
        (201, &json!("idle"), &json!("idle")),
        "{made}"
    );
    let (status, sent) = server
        .request("POST", "/api/sessions/s/messages", &[], json!({"text": "slowly three"}))
        .await;
    assert_eq!((status, &sent["state"]), (202, &json!("running")), "{sent}");
    assert!(sent["run_id"].is_string() && sent["message_id"].is_string());
    let content = json!([{"type": "text", "text": "four"}]);
    let wait = [("prefer", "wait=10")];
    let (status, sent) = server
        .request(
            "POST",
            "/api/sessions/s/messages",
            &wait,
            json!({"content": content, "queue_mode": "queue"}),
        )
        .await;
    assert_eq!((status, &sent["state"]), (200, &json!("idle")), "{sent}");
    let (_, list) =
        server.request("GET", "/api/sessions/s/messages?limit=4", &[], Value::Null).await;
    let texts = |list: &Value| -> Vec<String> {
        let messages = list["messages"].as_array().expect("messages").iter();
        messages
            .map(|one| one["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(texts(&list), ["one two", "one two", "slowly three", "slowly three"]);
    let next = format!(
        "/api/sessions/s/messages?cursor={}",
        list["next_cursor"].as_str().expect("another page")
    );
    let (_, list) = server.request("GET", &next, &[], Value::Null).await;
    assert_eq!(
        (texts(&list), &list["next_cursor"]),
        (vec!["four".to_owned(), "four".to_owned()], &Value::Null)
    );
    let (_, list) = server
        .request("GET", "/api/sessions/s/messages?order=desc&limit=1", &[], Value::Null)
        .await;
    assert_eq!(texts(&list), ["four"]);
    let (_, list) = server.request("GET", "/api/sessions/s/turns?limit=2", &[], Value::Null).await;
    let turn = list["turns"][1]["id"].as_str().expect("a turn");
    assert!(list["next_cursor"].is_string());
    let (status, fork) =
        server.request("POST", "/api/sessions/s/fork", &[], json!({"turn_id": turn})).await;
    assert_eq!((status, &fork["turn_count"], &fork["head"]), (201, &json!(2), &json!(turn)));
    let (status, back) =
        server.request("POST", "/api/sessions/s/rewind", &[], json!({"turn_id": turn})).await;
    assert_eq!((status, &back["turn_count"]), (200, &json!(2)));
    server.engine.background().shutdown().await;
}

#[tokio::test]
async fn repeated_idempotency_key_gets_the_first_response() {
    let server = TestServer::new();
    server.request("POST", "/api/sessions", &[], json!({"label": "s"})).await;
    let key = [("idempotency-key", "k"), ("prefer", "wait=10")];
    let first =
        server.request("POST", "/api/sessions/s/messages", &key, json!({"text": "one"})).await;
    let again =
        server.request("POST", "/api/sessions/s/messages", &key, json!({"text": "one"})).await;
    assert_eq!(first, again);
    let (status, other) =
        server.request("POST", "/api/sessions/s/messages", &key, json!({"text": "two"})).await;
    assert_eq!((status, &other["code"]), (422, &json!("idempotency_mismatch")));
    let (_, session) = server.request("GET", "/api/sessions/s", &[], Value::Null).await;
    assert_eq!(session["turn_count"], 1);
    server.engine.background().shutdown().await;
}

#[tokio::test]
async fn text_deltas_are_sent_while_the_run_is_open() {
    let server = TestServer::new();
    server
        .request("POST", "/api/sessions", &[], json!({"label": "s", "message": "slowly one two"}))
        .await;
    tokio::time::sleep(Duration::from_millis(450)).await;
    let response = server.response("GET", "/api/sessions/s/events", &[], &Value::Null).await;
    let mut stream = response.into_body().into_data_stream();
    let mut text = String::new();
    while !text.contains("run.completed") {
        let chunk = tokio::time::timeout(Duration::from_secs(10), stream.next())
            .await
            .expect("in time")
            .expect("more")
            .expect("bytes");
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let mut received = String::new();
    for block in text.split("\n\n").filter(|block| block.starts_with("event: message.delta")) {
        assert!(!block.contains("\nid:"), "deltas have no id: {block}");
        let data: Value =
            serde_json::from_str(block.split_once("data: ").expect("data").1).expect("json");
        assert_eq!(data["offset"], json!(received.chars().count()), "{block}");
        assert_eq!(
            data.get("draft").is_some(),
            received.is_empty(),
            "the first delta is the draft"
        );
        received.push_str(data["text"].as_str().expect("text"));
    }
    assert_eq!(received, "slowly one two");
    server.engine.background().shutdown().await;
}
