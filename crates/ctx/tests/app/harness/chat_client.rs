//! A client of the OpenAI-compatible API that keeps its history, as chat clients do.

use serde_json::{Value, json};

use super::client::{Client, Response};
use super::model_server::Request;

/// A chat client and its history.
pub(crate) struct ChatClient {
    client: Client,
    /// Fields of every request besides the messages.
    pub(crate) fields: Value,
    pub(crate) messages: Vec<Value>,
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

impl ChatClient {
    pub(crate) fn new(client: Client, fields: Value) -> Self {
        Self { client, fields, messages: Vec::new() }
    }

    pub(crate) fn body(&self, messages: &[Value]) -> Value {
        let mut body = json!({"model": "ctx", "messages": messages});
        for (key, value) in self.fields.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        body
    }

    /// Sends any messages instead of the history.
    pub(crate) fn send(&self, messages: &[Value]) -> Response {
        self.client.post("/v1/chat/completions", &self.body(messages))
    }

    /// Sends the history with a message, and adds the message and its answer to the history.
    #[track_caller]
    pub(crate) fn say(&mut self, text: &str) -> String {
        self.messages.push(user(text));
        let answer = self.send(&self.messages).is(200);
        let message = answer["choices"][0]["message"].clone();
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
        self.messages.push(message.clone());
        message["content"].as_str().expect("a text").to_owned()
    }
}

/// The texts that the model received, without those of the system.
pub(crate) fn seen(request: &Request) -> Vec<String> {
    let messages = request.body["messages"].as_array().expect("messages");
    let others = messages.iter().filter(|message| message["role"] != "system");
    let text = |message: &Value| match &message["content"] {
        Value::Array(parts) => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    others.map(text).collect()
}

/// The data of an event stream, up to its end.
pub(crate) fn events(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let text = response.text();
    let data = text.split("\n\n").filter_map(|block| {
        block.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned)
    });
    data.map(|data| serde_json::from_str(&data).unwrap_or(Value::String(data))).collect()
}
