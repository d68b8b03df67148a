//! A chat completion as server-sent events: chunks, and `[DONE]` at the end.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use ctx_engine::core::time::Timestamp;
use serde_json::{Value, json};

use super::super::events::{HEARTBEAT, PING, sse_response};
use super::answer::{Answer, chat_usage};
use super::answer_watch::{AnswerWatch, Progress};
use super::api_error::{ApiError, ApiResult};
use super::chat::{finish_reason, id, tool_call};
use super::client_request::AcceptedRequest;

/// How long the response waits for the first text. A failure before it is a response with its
/// status; later it is an event of the stream.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(10);

/// The parts of all chunks of a stream.
struct Chunks {
    id: String,
    model: String,
    created: i64,
    /// Whether the client asked for usage: then every chunk has the field.
    usage: bool,
}

impl Chunks {
    fn chunk(&self, choices: Value) -> Bytes {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": null,
            "choices": choices,
        });
        if self.usage {
            chunk["usage"] = Value::Null;
        }
        data(&chunk)
    }

    fn delta(&self, delta: Value, finish: Value) -> Bytes {
        self.chunk(json!([
            {"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}
        ]))
    }

    /// The calls and the end of an answer.
    fn end(&self, answer: &Answer) -> Vec<Bytes> {
        if let Some(failure) = &answer.failure {
            return vec![data(&failure.document())];
        }
        let mut chunks = Vec::new();
        for (index, call) in answer.calls.iter().enumerate() {
            let mut call = tool_call(call);
            call["index"] = json!(index);
            chunks.push(self.delta(json!({"tool_calls": [call]}), Value::Null));
        }
        chunks.push(self.delta(json!({}), json!(finish_reason(answer.finish))));
        if self.usage {
            let mut last = json!({
                "id": self.id, "object": "chat.completion.chunk", "created": self.created,
                "model": self.model, "system_fingerprint": null, "choices": [],
            });
            last["usage"] = json!(chat_usage(answer.usage.as_ref()));
            chunks.push(data(&last));
        }
        chunks
    }
}

fn data(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

/// Starts the stream. A failure before the first text is returned.
pub(super) async fn response(
    mut watch: AnswerWatch,
    accepted: &AcceptedRequest,
    now: Timestamp,
) -> ApiResult<Response> {
    let mut first = first_progress(&mut watch).await?;
    let chunks = Chunks {
        id: id(&accepted.submitted),
        model: accepted.model.clone(),
        created: now.unix_seconds(),
        usage: accepted.body["stream_options"]["include_usage"] == true,
    };
    let stream = async_stream::stream! {
        let begin = json!({"role": "assistant", "content": ""});
        yield Ok::<_, Infallible>(chunks.delta(begin, Value::Null));
        loop {
            let progress = match first.take() {
                Some(progress) => Ok(progress),
                None => tokio::select! {
                    progress = watch.next() => progress,
                    () = tokio::time::sleep(HEARTBEAT) => {
                        yield Ok(PING);
                        continue;
                    }
                },
            };
            match progress {
                Ok(Progress::Text(text)) => {
                    yield Ok(chunks.delta(json!({"content": text}), Value::Null));
                }
                Ok(Progress::Done(answer)) => {
                    for chunk in chunks.end(&answer) {
                        yield Ok(chunk);
                    }
                    break;
                }
                Err(error) => {
                    yield Ok(data(&error.document()));
                    break;
                }
            }
        }
        yield Ok(Bytes::from_static(b"data: [DONE]\n\n"));
    };
    Ok(sse_response(stream))
}

/// The first progress, if it comes soon; an answer that failed is an error.
pub(super) async fn first_progress(watch: &mut AnswerWatch) -> Result<Option<Progress>, ApiError> {
    let Ok(first) = tokio::time::timeout(FIRST_WAIT, watch.next()).await else { return Ok(None) };
    match first? {
        Progress::Done(answer) if answer.failure.is_some() => {
            let failure = answer.failure.clone();
            failure.map_or(Ok(Some(Progress::Done(answer))), Err)
        }
        progress => Ok(Some(progress)),
    }
}
