//! What the APIs have in common, each in its own words.

use std::sync::Arc;

use ctx_engine::provider::Provider;
use ctx_providers::openai::Api as Dialect;
use ctx_providers::{Anthropic, Config, OpenAi};
use serde_json::{Value, json};

use super::server::Server;
use super::{anthropic, chat, responses};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Api {
    Chat,
    Responses,
    Anthropic,
}

impl Api {
    pub(crate) const ALL: [Api; 3] = [Self::Chat, Self::Responses, Self::Anthropic];

    pub(crate) fn provider(self, config: Config) -> Arc<dyn Provider> {
        match self {
            Self::Chat => Arc::new(OpenAi::new(config, Dialect::Chat)),
            Self::Responses => Arc::new(OpenAi::new(config, Dialect::Responses)),
            Self::Anthropic => Arc::new(Anthropic::new(config, 1000)),
        }
    }

    pub(crate) fn base_url(self, server: &Server) -> String {
        match self {
            Self::Chat | Self::Responses => format!("{}/v1", server.url),
            Self::Anthropic => server.url.clone(),
        }
    }

    /// An event that says some words.
    pub(crate) fn words(self, text: &str) -> String {
        match self {
            Self::Chat => chat::words(text),
            Self::Responses => responses::words(text),
            Self::Anthropic => anthropic::words(text),
        }
    }

    /// The events of a whole call.
    pub(crate) fn call(self, id: &str) -> String {
        match self {
            Self::Chat => chat::delta(
                json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "a", "arguments": "{}"}}]}),
            ),
            Self::Responses => responses::call(1, id, "a", "{}"),
            Self::Anthropic => anthropic::call(1, id, "a", &["{}"]),
        }
    }

    /// The events that end an answer well.
    pub(crate) fn end(self) -> String {
        match self {
            Self::Chat => chat::finished("stop") + chat::DONE,
            Self::Responses => responses::completed(),
            Self::Anthropic => anthropic::finished("end_turn"),
        }
    }

    /// An error inside an answer.
    pub(crate) fn error(self, kind: &str, message: &str) -> String {
        match self {
            Self::Chat => super::event(&json!({"error": {"type": kind, "message": message}})),
            Self::Responses => responses::failed(kind, message),
            Self::Anthropic => {
                super::event(&json!({"type": "error", "error": {"type": kind, "message": message}}))
            }
        }
    }

    /// A body that tells an error.
    pub(crate) fn error_body(self, kind: &str, message: &str) -> String {
        let error = match self {
            Self::Chat | Self::Responses => {
                json!({"error": {"type": kind, "code": kind, "message": message, "param": Value::Null}})
            }
            Self::Anthropic => {
                json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
            }
        };
        error.to_string()
    }

    /// How it says that a conversation is too long.
    pub(crate) fn overflow(self) -> String {
        match self {
            Self::Chat | Self::Responses => self.error_body(
                "context_length_exceeded",
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            ),
            Self::Anthropic => self.error_body("invalid_request_error", "prompt is too long: 200251 tokens > 200000 maximum"),
        }
    }
}
