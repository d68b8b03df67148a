//! `POST /v1/chat/completions`.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use ctx_engine::Submitted;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::extractors::Json;
use super::answer::{Answer, ClientCall, Finish, chat_usage};
use super::answer_watch::AnswerWatch;
use super::api_error::ApiResult;
use super::client_request::{AcceptedRequest, ClientBody};
use super::{CHAT_PREFIX, answer_id, chat_messages, chat_stream};

/// The id of the session that has the conversation.
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-ctx-session");

pub(super) async fn create(
    State(state): State<Shared>,
    request: ClientBody,
) -> ApiResult<Response> {
    let conversation = chat_messages::conversation(&request.body["messages"])?;
    let streams = request.streams();
    let accepted = request.accept(&state, conversation).await?;
    let watch = AnswerWatch::new(&state, &accepted.submitted).await?;
    let response = if streams {
        chat_stream::response(watch, &accepted, state.engine.now()).await?
    } else {
        let answer = watch.whole().await?;
        if let Some(failure) = answer.failure {
            return Err(failure);
        }
        Json(completion(&accepted, &answer, state.engine.now().unix_seconds())).into_response()
    };
    Ok(with_session(response, &accepted.submitted))
}

pub(super) fn with_session(mut response: Response, submitted: &Submitted) -> Response {
    if let Ok(value) = HeaderValue::from_str(&submitted.session.to_string()) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    response
}

pub(super) fn id(submitted: &Submitted) -> String {
    answer_id(CHAT_PREFIX, submitted.session, submitted.message_id)
}

pub(super) const fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Cancelled => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Refused => "content_filter",
    }
}

pub(super) fn tool_call(call: &ClientCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

fn completion(accepted: &AcceptedRequest, answer: &Answer, created: i64) -> Value {
    let content = if answer.text.is_empty() && !answer.calls.is_empty() {
        Value::Null
    } else {
        json!(answer.text)
    };
    let mut message =
        json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !answer.calls.is_empty() {
        message["tool_calls"] = answer.calls.iter().map(tool_call).collect();
    }
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_reason(answer.finish),
    });
    let mut completion = json!({
        "id": id(&accepted.submitted),
        "object": "chat.completion",
        "created": created,
        "model": accepted.model,
        "choices": [choice],
        "system_fingerprint": null,
    });
    if let Some(usage) = chat_usage(answer.usage.as_ref()) {
        completion["usage"] = usage;
    }
    completion
}
