//! Integration tests of the providers: each HTTP API against a fake model server on a socket, and
//! ACP against the scripted agent.

mod acp_agent;
mod chat_api;
mod fake_server;
mod http_failures;
mod messages_api;
mod model_apis;
mod reading_pauses;
mod responses_api;
#[allow(dead_code, reason = "the unit tests use more of the harness")]
#[path = "../../src/test_harness.rs"]
mod test_harness;

use ctx_core::message::Role;
use ctx_engine::provider::{Delta, End, Failure, Request};
use ctx_providers::{ServerConfig, Timeouts};
use serde_json::Value;

use fake_server::{FakeServer, Reply};
use model_apis::ModelApi;
use test_harness::{finish, request, start, text_message};

fn hello() -> Request {
    request(vec![text_message(Role::User, "hello")])
}

fn config(base_url: &str) -> ServerConfig {
    ServerConfig {
        base_url: base_url.to_owned(),
        api_key: None,
        key_variable: None,
        model: Some("m".to_owned()),
        context_window: 4096,
        images: true,
        timeouts: Timeouts::default(),
    }
}

async fn run(api: ModelApi, config: ServerConfig, request: Request) -> (Vec<Delta>, End) {
    finish(start(&api.provider(config), request)).await
}

/// The run of a request to which the server sends this reply.
async fn run_with_reply(api: ModelApi, reply: Reply) -> (Vec<Delta>, End) {
    let server = FakeServer::start([reply]).await;
    run(api, config(&api.base_url(&server)), hello()).await
}

async fn failure_of_reply(api: ModelApi, reply: Reply) -> Failure {
    expect_failure(run_with_reply(api, reply).await.1)
}

fn expect_failure(end: End) -> Failure {
    match end {
        End::Failed(failure) => failure,
        other => panic!("not a failure: {other:?}"),
    }
}

fn call_delta(id: &str, name: &str, params: Value) -> Delta {
    Delta::ToolCall { id: id.to_owned(), name: name.to_owned(), params }
}

/// A server-sent event without a name.
fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}
