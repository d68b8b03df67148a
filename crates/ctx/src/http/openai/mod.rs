//! The OpenAI-compatible API under `/v1`: clients of OpenAI's API hold durable sessions.
//!
//! | file | owns |
//! |---|---|
//! | this file | routes, ids |
//! | `api_error` | errors in OpenAI's form |
//! | `model_names` | models: `ctx/<provider>/<model>` |
//! | `content_parts`, `chat_messages`, `response_items` | what clients send, as turns |
//! | `client_request` | the session, the model and the key of a request; accepting it |
//! | `answer`, `answer_watch` | the answer of a run: read, or followed while it is written |
//! | `chat`, `chat_stream` | chat completions |
//! | `responses`, `response_object`, `response_stream` | responses |
//! | `conversations` | conversations, which are sessions |
//!
//! The history is compared with the stored one in `ctx_engine::ClientHistories`. The routes are not
//! part of the OpenAPI document of `/api`: OpenAI's own document describes them.

mod answer;
mod answer_watch;
mod api_error;
mod chat;
mod chat_messages;
mod chat_stream;
mod client_request;
mod content_parts;
mod conversations;
mod model_names;
mod response_items;
mod response_object;
mod response_stream;
mod responses;

pub(super) use api_error::{ApiError, Complete};

use axum::Router;
use axum::routing::{get, post};
use ctx_engine::core::id::{MessageId, SessionId};

use super::Shared;

/// Whether a path belongs to this API.
pub(super) fn is_openai(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/v1/models", get(model_names::list))
        .route("/v1/models/{*model}", get(model_names::read))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::read))
        .route("/v1/responses/{id}/cancel", post(responses::cancel))
        .route("/v1/responses/{id}/input_items", get(responses::input_items))
        .route("/v1/conversations", post(conversations::create))
        .route("/v1/conversations/{id}", get(conversations::read).delete(conversations::delete))
        .route("/v1/conversations/{id}/items", get(conversations::items))
}

const RESPONSE_PREFIX: &str = "resp_";
const CHAT_PREFIX: &str = "chatcmpl-";
const CONVERSATION_PREFIX: &str = "conv_";

/// Characters of a session id or a message id.
const ULID_CHARS: usize = 26;

/// The id of an answer: its session, and the message that it answers. So it names a turn for as
/// long as the session exists.
fn answer_id(prefix: &str, session: SessionId, message: MessageId) -> String {
    format!("{prefix}{session}{message}")
}

/// The session and the message of an answer's id.
fn parse_answer_id(id: &str) -> Option<(SessionId, MessageId)> {
    let rest = id.strip_prefix(RESPONSE_PREFIX).or_else(|| id.strip_prefix(CHAT_PREFIX))?;
    let (session, message) = rest.split_at_checked(ULID_CHARS)?;
    Some((session.parse().ok()?, message.parse().ok()?))
}

fn conversation_id(session: SessionId) -> String {
    format!("{CONVERSATION_PREFIX}{session}")
}

/// The id of a session from the id of a conversation.
fn parse_conversation_id(id: &str) -> Option<SessionId> {
    id.strip_prefix(CONVERSATION_PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    #[test]
    fn an_answer_id_names_the_session_and_the_message() {
        let (session, message) = (SessionId(Ulid(5)), MessageId(Ulid(u128::MAX)));
        for prefix in [RESPONSE_PREFIX, CHAT_PREFIX] {
            let id = answer_id(prefix, session, message);
            assert_eq!(parse_answer_id(&id), Some((session, message)), "{id}");
        }
        for bad in ["", "resp_", "resp_123", "msg_00000000000000000000000000", "resp_é"] {
            assert_eq!(parse_answer_id(bad), None, "{bad}");
        }
        assert_eq!(parse_conversation_id(&conversation_id(session)), Some(session));
        assert_eq!(parse_conversation_id("conv_x"), None);
    }

    #[test]
    fn only_paths_under_v1_belong_to_the_api() {
        for (path, expected) in
            [("/v1", true), ("/v1/models", true), ("/v10", false), ("/api/v1", false)]
        {
            assert_eq!(is_openai(path), expected, "{path}");
        }
    }
}
