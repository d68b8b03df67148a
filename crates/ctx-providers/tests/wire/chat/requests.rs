//! What the server is asked: what the model would see.

use ctx_core::content::Content;
use ctx_core::inbox::Tool;
use ctx_core::message::{Part, Role, ToolStatus};
use ctx_engine::provider::{Delta, End, Request, Stop};
use ctx_providers::Config;
use serde_json::{Value, json};

use super::{DONE, finished, words};
use crate::api::Api;
use crate::server::{Reply, Server};
use crate::{config, failed, finish, hello, message, request, said, start};

async fn ask(config: Config, request: Request) -> (Vec<Delta>, End) {
    crate::ask(Api::Chat, config, request).await
}

fn ok() -> Reply {
    Reply::stream([words("ok"), finished("stop"), DONE.to_owned()])
}

#[tokio::test]
async fn the_model_sees_the_system_prompt_the_tools_and_their_results() {
    let server = Server::start([ok()]).await;
    let call = Part::ToolCall {
        id: "c1".into(),
        name: "weather".into(),
        params: json!({"city": "Oslo"}),
        status: ToolStatus::Completed,
    };
    let result = Part::ToolResult {
        tool_call_id: "c1".into(),
        content: Content::Text("rain".into()),
        is_error: false,
    };
    let mut asked = request(vec![
        said(Role::User, "weather?"),
        message(Role::Assistant, vec![call]),
        message(Role::Tool, vec![result]),
        said(Role::User, "and now?"),
    ]);
    asked.system = Some("Be brief.".to_owned());
    asked.model = Some("other".to_owned());
    asked.tools = vec![Tool {
        name: "weather".to_owned(),
        description: "Says it.".to_owned(),
        parameters: Value::Null,
    }];
    let config = Config {
        api_key: Some("sk-12345678".to_owned()),
        base_url: format!("{}/v1/", server.url),
        ..config("")
    };
    assert_eq!(ask(config, asked).await.1, End::Done(Stop::EndTurn));

    let [got] = server.asked().try_into().expect("one request");
    assert_eq!(got.what, "POST /v1/chat/completions");
    assert!(got.headers.contains("authorization: bearer sk-12345678"), "{}", got.headers);
    assert!(
        got.headers.contains("user-agent: ctx/")
            && got.headers.contains("content-type: application/json"),
        "{}",
        got.headers
    );
    let wanted = json!({
        "model": "other",
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "user", "content": "and now?"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "weather", "description": "Says it.", "parameters": {"type": "object", "properties": {}},
        }}],
    });
    assert_eq!(got.body, wanted);
}

#[tokio::test]
async fn where_no_model_is_named_the_servers_first_answers_and_it_is_asked_once() {
    let list =
        Reply::whole(200, "", r#"{"object":"list","data":[{"id":"first"},{"id":"second"}]}"#);
    let server = Server::start([list, ok(), ok()]).await;
    let provider =
        Api::Chat.provider(Config { model: None, ..config(&Api::Chat.base_url(&server)) });
    assert_eq!(provider.about().model, None);
    for _ in 0..2 {
        assert_eq!(finish(start(&provider, hello())).await.1, End::Done(Stop::EndTurn));
    }
    let asked = server.asked();
    let what: Vec<&str> = asked.iter().map(|asked| asked.what.as_str()).collect();
    assert_eq!(what, ["GET /v1/models", "POST /v1/chat/completions", "POST /v1/chat/completions"]);
    assert!(asked[1..].iter().all(|asked| asked.body["model"] == "first"));
    assert!(!asked[0].headers.contains("authorization"), "there is no key to send");
    assert_eq!(
        (provider.about().model.as_deref(), provider.about().models.len()),
        (Some("first"), 2)
    );
}

#[tokio::test]
async fn a_server_without_models_fails_and_is_asked_again() {
    let server =
        Server::start([Reply::whole(200, "", r#"{"data":[]}"#), Reply::whole(500, "", "")]).await;
    let provider =
        Api::Chat.provider(Config { model: None, ..config(&Api::Chat.base_url(&server)) });
    assert_eq!(failed(finish(start(&provider, hello())).await.1).code, "model_not_found");
    assert_eq!(failed(finish(start(&provider, hello())).await.1).code, "provider_error");
}
