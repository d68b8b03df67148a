//! Content of requests: what the model receives.

use ctx_core::inbox::Tool;
use ctx_core::message::{Part, Role, ToolStatus};
use ctx_engine::provider::{Delta, End, Request, Stop};
use ctx_providers::ServerConfig;
use serde_json::{Value, json};

use super::{DONE, finished, text};
use crate::fake_server::{FakeServer, Reply};
use crate::model_apis::ModelApi;
use crate::test_harness::{finish, message, request, start, text_message, tool_result};
use crate::{config, expect_failure, hello};

async fn run(config: ServerConfig, request: Request) -> (Vec<Delta>, End) {
    crate::run(ModelApi::Chat, config, request).await
}

fn ok() -> Reply {
    Reply::stream([text("ok"), finished("stop"), DONE.to_owned()])
}

#[tokio::test]
async fn request_contains_system_prompt_tools_and_results() {
    let server = FakeServer::start([ok()]).await;
    let call = Part::ToolCall {
        id: "c1".into(),
        name: "weather".into(),
        params: json!({"city": "Oslo"}),
        status: ToolStatus::Completed,
    };
    let result = tool_result("c1", "rain", false);
    let mut requests = request(vec![
        text_message(Role::User, "weather?"),
        message(Role::Assistant, vec![call]),
        message(Role::Tool, vec![result]),
        text_message(Role::User, "and now?"),
    ]);
    requests.system = Some("Be brief.".to_owned());
    requests.model = Some("other".to_owned());
    requests.tools = vec![std::sync::Arc::new(Tool {
        name: "weather".to_owned(),
        description: "Shows it.".to_owned(),
        parameters: Value::Null,
    })];
    let config = ServerConfig {
        api_key: Some("sk-12345678".to_owned()),
        base_url: format!("{}/v1/", server.url),
        ..config("")
    };
    assert_eq!(run(config, requests).await.1, End::Done(Stop::EndTurn));

    let [got] = server.requests().try_into().expect("one request");
    assert_eq!(got.target, "POST /v1/chat/completions");
    assert!(got.headers.contains("authorization: bearer sk-12345678"), "{}", got.headers);
    assert!(
        got.headers.contains("user-agent: ctx/")
            && got.headers.contains("content-type: application/json"),
        "{}",
        got.headers
    );
    let expected = json!({
        "model": "other",
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {
                    "name": "weather", "arguments": "{\"city\":\"Oslo\"}",
                }},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "user", "content": "and now?"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "weather",
            "description": "Shows it.",
            "parameters": {"type": "object", "properties": {}},
        }}],
    });
    assert_eq!(got.body, expected);
}

#[tokio::test]
async fn first_listed_model_is_used_and_the_list_is_requested_once() {
    let list =
        Reply::whole(200, "", r#"{"object":"list","data":[{"id":"first"},{"id":"second"}]}"#);
    let server = FakeServer::start([list, ok(), ok()]).await;
    let provider = ModelApi::Chat
        .provider(ServerConfig { model: None, ..config(&ModelApi::Chat.base_url(&server)) });
    assert_eq!(provider.about().model, None);
    for _ in 0..2 {
        assert_eq!(finish(start(&provider, hello())).await.1, End::Done(Stop::EndTurn));
    }
    let requests = server.requests();
    let target: Vec<&str> = requests.iter().map(|requests| requests.target.as_str()).collect();
    assert_eq!(
        target,
        ["GET /v1/models", "POST /v1/chat/completions", "POST /v1/chat/completions"]
    );
    assert!(requests[1..].iter().all(|requests| requests.body["model"] == "first"));
    assert!(!requests[0].headers.contains("authorization"), "no key is configured");
    assert_eq!(
        (provider.about().model.as_deref(), provider.about().models.len()),
        (Some("first"), 2)
    );
}

#[tokio::test]
async fn empty_model_list_is_a_failure_and_is_requested_again() {
    let server =
        FakeServer::start([Reply::whole(200, "", r#"{"data":[]}"#), Reply::whole(500, "", "")])
            .await;
    let provider = ModelApi::Chat
        .provider(ServerConfig { model: None, ..config(&ModelApi::Chat.base_url(&server)) });
    assert_eq!(expect_failure(finish(start(&provider, hello())).await.1).code, "model_not_found");
    assert_eq!(expect_failure(finish(start(&provider, hello())).await.1).code, "provider_error");
}
