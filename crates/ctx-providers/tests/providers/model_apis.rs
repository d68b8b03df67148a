//! The model APIs and, for each of them, the events that all tests need.

use std::sync::Arc;

use ctx_engine::provider::Provider;
use ctx_providers::openai::Api as OpenAiApi;
use ctx_providers::{Anthropic, OpenAi, ServerConfig};
use serde_json::json;

use super::fake_server::FakeServer;
use super::{chat_api, messages_api, responses_api};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ModelApi {
    Chat,
    Responses,
    Messages,
}

impl ModelApi {
    pub(crate) const ALL: [ModelApi; 3] = [Self::Chat, Self::Responses, Self::Messages];

    pub(crate) fn provider(self, config: ServerConfig) -> Arc<dyn Provider> {
        match self {
            Self::Chat => Arc::new(OpenAi::new(config, OpenAiApi::Chat)),
            Self::Responses => Arc::new(OpenAi::new(config, OpenAiApi::Responses)),
            Self::Messages => Arc::new(Anthropic::new(config, 1000)),
        }
    }

    pub(crate) fn base_url(self, server: &FakeServer) -> String {
        match self {
            Self::Chat | Self::Responses => format!("{}/v1", server.url),
            Self::Messages => server.url.clone(),
        }
    }

    /// Events with a text.
    pub(crate) fn text(self, text: &str) -> String {
        match self {
            Self::Chat => chat_api::text(text),
            Self::Responses => responses_api::text(text),
            Self::Messages => messages_api::text(text),
        }
    }

    /// Events of a complete call.
    pub(crate) fn call(self, id: &str) -> String {
        match self {
            Self::Chat => chat_api::delta(json!({"tool_calls": [
                {"index": 0, "id": id, "function": {"name": "a", "arguments": "{}"}},
            ]})),
            Self::Responses => responses_api::call(1, id, "a", "{}"),
            Self::Messages => messages_api::call(1, id, "a", &["{}"]),
        }
    }

    /// Events that end a response successfully.
    pub(crate) fn end(self) -> String {
        match self {
            Self::Chat => chat_api::finished("stop") + chat_api::DONE,
            Self::Responses => responses_api::completed(),
            Self::Messages => messages_api::finished("end_turn"),
        }
    }

    /// An error event.
    pub(crate) fn error(self, kind: &str, message: &str) -> String {
        match self {
            Self::Chat => super::event(&json!({"error": {"type": kind, "message": message}})),
            Self::Responses => responses_api::failed(kind, message),
            Self::Messages => {
                super::event(&json!({"type": "error", "error": {"type": kind, "message": message}}))
            }
        }
    }

    /// An error body.
    pub(crate) fn error_body(self, kind: &str, message: &str) -> String {
        let error = match self {
            Self::Chat | Self::Responses => {
                json!({"error": {"type": kind, "code": kind, "message": message, "param": null}})
            }
            Self::Messages => {
                let error = json!({"type": kind, "message": message});
                json!({"type": "error", "error": error, "request_id": "req_1"})
            }
        };
        error.to_string()
    }

    /// An error body that reports a context overflow.
    pub(crate) fn overflow(self) -> String {
        match self {
            Self::Chat | Self::Responses => self.error_body(
                "context_length_exceeded",
                "This model's maximum context length is 8192 tokens. However, your messages \
                 resulted in 9000 tokens.",
            ),
            Self::Messages => self.error_body(
                "invalid_request_error",
                "prompt is too long: 200251 tokens > 200000 maximum",
            ),
        }
    }
}
