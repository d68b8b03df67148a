//! Messages as clients send them, with a provider that says back what it hears.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Request;
use ctx_engine::core::message::Part;
use ctx_engine::provider::{About, Can, Delta, End, Link, Provider, Request as Asked, Stop};
use ctx_engine::{Engine, EngineTimeouts, Options, Providers};
use futures_util::StreamExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{ServeOptions, router, shared};

struct Echo;

#[async_trait]
impl Provider for Echo {
    fn about(&self) -> About {
        About {
            kind: "demo",
            can: Can::default(),
            models: Vec::new(),
            model: None,
            context_window: 1000,
            unavailable: None,
            ..About::default()
        }
    }

    async fn run(&self, request: Asked, link: Link) -> End {
        let heard = request
            .messages
            .last()
            .and_then(|message| message.content.iter().find_map(Part::words))
            .unwrap_or_default()
            .to_owned();
        for word in heard.split_inclusive(' ') {
            link.say(Delta::Text(word.to_owned())).await;
            tokio::time::sleep(Duration::from_millis(if heard.starts_with("slowly") {
                300
            } else {
                1
            }))
            .await;
        }
        End::Done(Stop::EndTurn)
    }
}

struct Lab {
    service: TowerToHyperService<axum::Router>,
    engine: Engine,
    _dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Engine::init(dir.path(), "demo").expect("a store");
        let engine = Engine::sqlite(dir.path(), Options::default()).expect("an engine");
        let engine = engine
            .with_providers(Providers::only("echo", Arc::new(Echo)), EngineTimeouts::default());
        let listen = "127.0.0.1:7420".parse().expect("an address");
        let options = ServeOptions { listen, roots: Vec::new(), hosts: Vec::new() };
        let state = shared(engine.clone(), options, CancellationToken::new()).expect("a state");
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

    async fn ask(
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
async fn a_message_is_taken_at_once_or_waited_for() {
    let lab = Lab::new();
    let (status, made) = lab
        .ask(
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
    let (status, sent) =
        lab.ask("POST", "/api/sessions/s/messages", &[], json!({"text": "slowly three"})).await;
    assert_eq!((status, &sent["state"]), (202, &json!("running")), "{sent}");
    assert!(sent["run_id"].is_string() && sent["message_id"].is_string());
    let content = json!([{"type": "text", "text": "four"}]);
    let wait = [("prefer", "wait=10")];
    let (status, sent) = lab
        .ask(
            "POST",
            "/api/sessions/s/messages",
            &wait,
            json!({"content": content, "queue_mode": "queue"}),
        )
        .await;
    assert_eq!((status, &sent["state"]), (200, &json!("idle")), "{sent}");
    let (_, list) = lab.ask("GET", "/api/sessions/s/messages?limit=4", &[], Value::Null).await;
    let said = |list: &Value| -> Vec<String> {
        let messages = list["messages"].as_array().expect("messages").iter();
        messages
            .map(|one| one["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(said(&list), ["one two", "one two", "slowly three", "slowly three"]);
    let next = format!(
        "/api/sessions/s/messages?cursor={}",
        list["next_cursor"].as_str().expect("another page")
    );
    let (_, list) = lab.ask("GET", &next, &[], Value::Null).await;
    assert_eq!(
        (said(&list), &list["next_cursor"]),
        (vec!["four".to_owned(), "four".to_owned()], &Value::Null)
    );
    let (_, list) =
        lab.ask("GET", "/api/sessions/s/messages?order=desc&limit=1", &[], Value::Null).await;
    assert_eq!(said(&list), ["four"]);
    let (_, list) = lab.ask("GET", "/api/sessions/s/turns?limit=2", &[], Value::Null).await;
    let turn = list["turns"][1]["id"].as_str().expect("a turn");
    assert!(list["next_cursor"].is_string());
    let (status, fork) =
        lab.ask("POST", "/api/sessions/s/fork", &[], json!({"turn_id": turn})).await;
    assert_eq!((status, &fork["turn_count"], &fork["head"]), (201, &json!(2), &json!(turn)));
    let (status, back) =
        lab.ask("POST", "/api/sessions/s/rewind", &[], json!({"turn_id": turn})).await;
    assert_eq!((status, &back["turn_count"]), (200, &json!(2)));
    lab.engine.background().shutdown().await;
}

#[tokio::test]
async fn the_same_key_is_answered_the_same() {
    let lab = Lab::new();
    lab.ask("POST", "/api/sessions", &[], json!({"label": "s"})).await;
    let key = [("idempotency-key", "k"), ("prefer", "wait=10")];
    let first = lab.ask("POST", "/api/sessions/s/messages", &key, json!({"text": "one"})).await;
    let again = lab.ask("POST", "/api/sessions/s/messages", &key, json!({"text": "one"})).await;
    assert_eq!(first, again);
    let (status, other) =
        lab.ask("POST", "/api/sessions/s/messages", &key, json!({"text": "two"})).await;
    assert_eq!((status, &other["code"]), (422, &json!("idempotency_mismatch")));
    let (_, session) = lab.ask("GET", "/api/sessions/s", &[], Value::Null).await;
    assert_eq!(session["turn_count"], 1);
    lab.engine.background().shutdown().await;
}

#[tokio::test]
async fn words_reach_a_client_while_they_are_said() {
    let lab = Lab::new();
    lab.ask("POST", "/api/sessions", &[], json!({"label": "s", "message": "slowly one two"})).await;
    tokio::time::sleep(Duration::from_millis(450)).await;
    let response = lab.response("GET", "/api/sessions/s/events", &[], &Value::Null).await;
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
    let mut heard = String::new();
    for block in text.split("\n\n").filter(|block| block.starts_with("event: message.delta")) {
        assert!(!block.contains("\nid:"), "words have no id: {block}");
        let data: Value =
            serde_json::from_str(block.split_once("data: ").expect("data").1).expect("json");
        assert_eq!(data["offset"], json!(heard.chars().count()), "{block}");
        assert_eq!(data.get("draft").is_some(), heard.is_empty(), "the first is the draft so far");
        heard.push_str(data["text"].as_str().expect("text"));
    }
    assert_eq!(heard, "slowly one two");
    lab.engine.background().shutdown().await;
}
