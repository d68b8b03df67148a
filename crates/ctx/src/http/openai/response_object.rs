//! The object of a response, and its output items.

use ctx_engine::Submitted;
use ctx_engine::core::id::{MessageId, SessionId};
use serde_json::{Value, json};

use super::answer::{Answer, ClientCall, Finish, response_usage};
use super::{RESPONSE_PREFIX, answer_id, conversation_id};

/// What a response object repeats of its request.
pub(super) struct ResponseObject {
    session: SessionId,
    message: MessageId,
    created: i64,
    model: String,
    body: Value,
}

impl ResponseObject {
    /// `body` is the request, or null if it is not known any more.
    pub(super) fn new(submitted: &Submitted, created: i64, model: String, body: Value) -> Self {
        let (session, message) = (submitted.session, submitted.message_id);
        Self { session, message, created, model, body }
    }

    pub(super) fn of_message(
        session: SessionId,
        message: MessageId,
        created: i64,
        model: String,
    ) -> Self {
        Self { session, message, created, model, body: Value::Null }
    }

    /// The response before its end.
    pub(super) fn unfinished(&self, status: &str) -> Value {
        self.object(status, Vec::new(), None)
    }

    /// The response with its answer.
    pub(super) fn finished(&self, answer: &Answer) -> Value {
        let status = self.status(answer);
        let mut response =
            self.object(status, self.output(answer), response_usage(answer.usage.as_ref()));
        if let Some(failure) = &answer.failure {
            response["error"] = json!({"code": failure.code(), "message": failure.message()});
        }
        response["incomplete_details"] = match answer.finish {
            Finish::Length => json!({"reason": "max_output_tokens"}),
            Finish::Refused => json!({"reason": "content_filter"}),
            _ => Value::Null,
        };
        response
    }

    pub(super) fn status(&self, answer: &Answer) -> &'static str {
        match answer.finish {
            _ if answer.failure.is_some() => "failed",
            Finish::Length | Finish::Refused => "incomplete",
            Finish::Cancelled => "cancelled",
            Finish::Stop | Finish::ToolCalls => "completed",
        }
    }

    pub(super) fn output(&self, answer: &Answer) -> Vec<Value> {
        let text = (!answer.text.is_empty() || answer.calls.is_empty())
            .then(|| self.message_item("completed", Some(&answer.text)));
        let calls = answer.calls.iter().enumerate();
        text.into_iter().chain(calls.map(|(at, call)| self.call_item(at, call))).collect()
    }

    pub(super) fn message_id(&self) -> String {
        format!("msg_{}", self.message)
    }

    pub(super) fn message_item(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(text_part).into_iter().collect();
        json!({
            "id": self.message_id(), "type": "message", "status": status,
            "role": "assistant", "content": content,
        })
    }

    pub(super) fn call_item(&self, at: usize, call: &ClientCall) -> Value {
        json!({
            "id": format!("fc_{}_{at}", self.message), "type": "function_call",
            "status": "completed", "call_id": call.id, "name": call.name,
            "arguments": call.arguments,
        })
    }

    fn object(&self, status: &str, output: Vec<Value>, usage: Option<Value>) -> Value {
        let given = |field: &str, default: Value| match &self.body[field] {
            Value::Null => default,
            value => value.clone(),
        };
        json!({
            "id": answer_id(RESPONSE_PREFIX, self.session, self.message),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": given("background", json!(false)),
            "error": null,
            "incomplete_details": null,
            "instructions": given("instructions", Value::Null),
            "max_output_tokens": given("max_output_tokens", Value::Null),
            "model": self.model,
            "output": output,
            "parallel_tool_calls": given("parallel_tool_calls", json!(true)),
            "previous_response_id": given("previous_response_id", Value::Null),
            "conversation": {"id": conversation_id(self.session)},
            "reasoning": given("reasoning", json!({"effort": null, "summary": null})),
            "store": true,
            "temperature": given("temperature", json!(1.0)),
            "text": given("text", json!({"format": {"type": "text"}})),
            "tool_choice": given("tool_choice", json!("auto")),
            "tools": given("tools", json!([])),
            "top_p": given("top_p", json!(1.0)),
            "truncation": given("truncation", json!("disabled")),
            "usage": usage,
            "user": given("user", Value::Null),
            "metadata": given("metadata", json!({})),
        })
    }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}
