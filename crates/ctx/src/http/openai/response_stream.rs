//! A response as server-sent events, in the order in which OpenAI's clients expect them.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::events::{HEARTBEAT, PING, sse_response};
use super::answer::Answer;
use super::answer_watch::{AnswerWatch, Progress};
use super::api_error::ApiResult;
use super::chat_stream::first_progress;
use super::response_object::{ResponseObject, text_part};

/// The events of one response, numbered from 0.
struct Events {
    object: ResponseObject,
    next_number: u64,
    /// The text so far; `None` before the first.
    text: Option<String>,
}

impl Events {
    fn event(&mut self, kind: &str, mut fields: Value) -> Bytes {
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.next_number);
        self.next_number += 1;
        format!("event: {kind}\ndata: {fields}\n\n").into()
    }

    fn begin(&mut self) -> Vec<Bytes> {
        let response = self.object.unfinished("in_progress");
        ["response.created", "response.in_progress"]
            .map(|kind| self.event(kind, json!({"response": response})))
            .into()
    }

    fn text(&mut self, delta: &str) -> Vec<Bytes> {
        let mut events = Vec::new();
        let id = self.object.message_id();
        if self.text.is_none() {
            let item = self.object.message_item("in_progress", None);
            let added = json!({"output_index": 0, "item": item});
            events.push(self.event("response.output_item.added", added));
            let part = json!({
                "item_id": id, "output_index": 0, "content_index": 0, "part": text_part(""),
            });
            events.push(self.event("response.content_part.added", part));
        }
        self.text.get_or_insert_default().push_str(delta);
        if !delta.is_empty() {
            let delta = json!({
                "item_id": id, "output_index": 0, "content_index": 0, "delta": delta,
                "logprobs": [],
            });
            events.push(self.event("response.output_text.delta", delta));
        }
        events
    }

    fn end_text(&mut self) -> Vec<Bytes> {
        let Some(text) = self.text.clone() else { return Vec::new() };
        let id = self.object.message_id();
        let place = |field: &str, value: Value| {
            let mut fields = json!({"item_id": id, "output_index": 0, "content_index": 0});
            fields[field] = value;
            fields
        };
        let mut done = place("text", json!(text));
        done["logprobs"] = json!([]);
        let item = self.object.message_item("completed", Some(&text));
        vec![
            self.event("response.output_text.done", done),
            self.event("response.content_part.done", place("part", text_part(&text))),
            self.event("response.output_item.done", json!({"output_index": 0, "item": item})),
        ]
    }

    fn end(&mut self, answer: &Answer) -> Vec<Bytes> {
        let mut events = Vec::new();
        if self.text.is_none() && answer.calls.is_empty() && answer.failure.is_none() {
            events.extend(self.text(""));
        }
        events.extend(self.end_text());
        let first = usize::from(self.text.is_some());
        for (at, call) in answer.calls.iter().enumerate() {
            let (index, item) = (first + at, self.object.call_item(at, call));
            let mut begun = item.clone();
            (begun["arguments"], begun["status"]) = (json!(""), json!("in_progress"));
            let id = item["id"].clone();
            let added = json!({"output_index": index, "item": begun});
            events.push(self.event("response.output_item.added", added));
            let delta = json!({"item_id": id, "output_index": index, "delta": call.arguments});
            events.push(self.event("response.function_call_arguments.delta", delta));
            let done = json!({
                "item_id": id, "output_index": index, "name": call.name,
                "arguments": call.arguments,
            });
            events.push(self.event("response.function_call_arguments.done", done));
            let done = json!({"output_index": index, "item": item});
            events.push(self.event("response.output_item.done", done));
        }
        let kind = match self.object.status(answer) {
            "failed" => "response.failed",
            "incomplete" => "response.incomplete",
            _ => "response.completed",
        };
        let response = self.object.finished(answer);
        events.push(self.event(kind, json!({"response": response})));
        events
    }
}

/// Starts the stream. A failure before the first text is returned.
pub(super) async fn response(
    mut watch: AnswerWatch,
    object: ResponseObject,
) -> ApiResult<Response> {
    let mut first = first_progress(&mut watch).await?;
    let mut events = Events { object, next_number: 0, text: None };
    let stream = async_stream::stream! {
        for event in events.begin() {
            yield Ok::<_, Infallible>(event);
        }
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
                    for event in events.text(&text) {
                        yield Ok(event);
                    }
                }
                Ok(Progress::Done(answer)) => {
                    for event in events.end(&answer) {
                        yield Ok(event);
                    }
                    return;
                }
                Err(error) => {
                    let fields = json!({
                        "code": error.code(), "message": error.message(), "param": null,
                    });
                    yield Ok(events.event("error", fields));
                    return;
                }
            }
        }
    };
    Ok(sse_response(stream))
}
