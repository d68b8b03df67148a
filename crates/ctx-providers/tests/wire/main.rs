//! The adapters of HTTP APIs, each against a real server on a real socket that speaks its wire format.

mod agents;
mod anthropic;
mod api;
mod chat;
mod failures;
mod responses;
mod server;

use std::sync::Arc;
use std::time::Duration;

use ctx_core::id::{MessageId, RunId, SessionId};
use ctx_core::message::{Message, Part, Role};
use ctx_core::time::Timestamp;
use ctx_engine::provider::{DELTAS_MAX, Delta, End, Failure, Link, Provider, Request, STEERS_MAX};
use ctx_providers::{Config, Timeouts};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use api::Api;
use server::{Reply, Server};

/// Whatever takes longer hangs.
const GUARD: Duration = Duration::from_secs(60);

fn message(role: Role, content: Vec<Part>) -> Message {
    Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
}

fn said(role: Role, text: &str) -> Message {
    message(role, vec![Part::Text { text: text.to_owned() }])
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        session: SessionId(Ulid(1)),
        run: RunId(Ulid(1)),
        working_dir: None,
        model: None,
        system: None,
        messages,
        images: Default::default(),
        tools: Vec::new(),
        options: Default::default(),
        resumes: Vec::new(),
        open: 0,
        own: None,
    }
}

fn hello() -> Request {
    request(vec![said(Role::User, "hello")])
}

fn config(base_url: &str) -> Config {
    Config {
        base_url: base_url.to_owned(),
        api_key: None,
        key_variable: None,
        model: Some("m".to_owned()),
        context_window: 4096,
        images: true,
        timeouts: Timeouts::default(),
    }
}

/// A run, with both of its ends.
struct Run {
    heard: mpsc::Receiver<Delta>,
    cancel: CancellationToken,
    end: JoinHandle<End>,
    /// Kept open: a closed one is another case.
    _steers: mpsc::Sender<ctx_engine::provider::Steer>,
}

fn start(provider: &Arc<dyn Provider>, request: Request) -> Run {
    let (out, heard) = mpsc::channel(DELTAS_MAX);
    let (steers, inbox) = mpsc::channel(STEERS_MAX);
    let cancel = CancellationToken::new();
    let (link, provider) = (
        Link { out, cancel: cancel.clone(), steers: inbox, tools: mpsc::channel(1).0 },
        Arc::clone(provider),
    );
    let end = tokio::spawn(async move { provider.run(request, link).await });
    Run { heard, cancel, end, _steers: steers }
}

async fn finish(mut run: Run) -> (Vec<Delta>, End) {
    let all = async {
        let mut deltas = Vec::new();
        while let Some(delta) = run.heard.recv().await {
            deltas.push(delta);
        }
        (deltas, run.end.await.expect("no panic"))
    };
    tokio::time::timeout(GUARD, all).await.expect("it ends")
}

async fn ask(api: Api, config: Config, request: Request) -> (Vec<Delta>, End) {
    finish(start(&api.provider(config), request)).await
}

/// What becomes of one answer.
async fn answer(api: Api, reply: Reply) -> (Vec<Delta>, End) {
    let server = Server::start([reply]).await;
    ask(api, config(&api.base_url(&server)), hello()).await
}

async fn failure(api: Api, reply: Reply) -> Failure {
    failed(answer(api, reply).await.1)
}

fn failed(end: End) -> Failure {
    match end {
        End::Failed(failure) => failure,
        other => panic!("it does not fail: {other:?}"),
    }
}

fn text_of(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect()
}

fn called(id: &str, name: &str, params: Value) -> Delta {
    Delta::ToolCall { id: id.to_owned(), name: name.to_owned(), params }
}

/// An event without a name.
fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}
