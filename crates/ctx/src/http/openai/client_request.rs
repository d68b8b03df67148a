//! A request of a client: the session that it names, its model, and the key under which a repeated
//! request gets the first answer.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode};
use ctx_engine::core::id::ObjectId;
use ctx_engine::core::inbox::Overrides;
use ctx_engine::core::time::Span;
use ctx_engine::{ClientRequest, ClientSession, NewSession, OnceKey, Submitted};
use serde_json::Value;

use super::super::Shared;
use super::super::authorization::Caller;
use super::super::extractors::{self, check_json, is_json, key_of};
use super::api_error::{ApiError, ApiResult};
use super::chat_messages::{self, Conversation};
use super::{model_names, parse_answer_id, parse_conversation_id};

/// Chat clients send the whole history, with its images.
const BODY_MAX_BYTES: usize = 32 << 20;
/// How long a repeated request gets the answer of the first one.
const RETRY_WINDOW: Span = Span::minutes(10);
/// OpenAI's clients number their attempts from 0. They send no idempotency key.
const RETRY_COUNT: &str = "x-stainless-retry-count";

/// A JSON object of which unknown fields are ignored, and who sent it.
pub(super) struct ClientBody {
    pub(super) body: Value,
    pub(super) caller: Caller,
    once: OnceKey,
}

impl<S: Send + Sync> FromRequest<S> for ClientBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        is_json(request.headers())?;
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.unwrap_or_else(|| Caller("local".to_owned()));
        let (path, headers) = (request.uri().path().to_owned(), request.headers().clone());
        let bytes = extractors::bytes(request.into_body(), BODY_MAX_BYTES).await?;
        let once = once_key(&headers, &caller, ObjectId::of(&[path.as_bytes(), b"\n", &bytes]))?;
        check_json(&bytes)?;
        let body: Value = serde_json::from_slice(&bytes).map_err(|why| {
            ApiError::new(StatusCode::BAD_REQUEST, "bad_json", format!("invalid body: {why}"))
        })?;
        if !body.is_object() {
            let message = "the body must be a JSON object";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_body", message));
        }
        Ok(Self { body, caller, once })
    }
}

/// The key under which the request is stored.
fn once_key(headers: &HeaderMap, caller: &Caller, request: ObjectId) -> ApiResult<OnceKey> {
    if let Some(key) = key_of(headers, "idempotency-key")? {
        return Ok(OnceKey { scope: format!("v1 key {}", caller.0), key, request, max_age: None });
    }
    let count = headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok()?.parse::<u64>().ok());
    // A first attempt is executed in any case: the same body may be sent on purpose.
    let max_age = if count.unwrap_or(0) > 0 { RETRY_WINDOW } else { Span(0) };
    let scope = format!("v1 {}", caller.0);
    Ok(OnceKey { scope, key: request.to_string(), request, max_age: Some(max_age) })
}

/// An accepted request.
pub(super) struct AcceptedRequest {
    pub(super) submitted: Submitted,
    /// The name of the model, as the client sent it.
    pub(super) model: String,
    pub(super) body: Value,
}

impl ClientBody {
    /// Whether the answer is streamed.
    pub(super) fn streams(&self) -> bool {
        self.body["stream"] == true
    }

    /// Accepts the request: the message is stored, and its run is opened or waits.
    pub(super) async fn accept(
        self,
        state: &Shared,
        conversation: Conversation,
    ) -> ApiResult<AcceptedRequest> {
        let Self { body, caller, once } = self;
        let model = body["model"]
            .as_str()
            .ok_or_else(|| ApiError::invalid("model", "you must provide a model, such as `ctx`"))?;
        let choice = model_names::choice(model, &state.engine.providers())?;
        let session = session_name(&body)?;
        let Conversation { turns, instructions, blobs } = conversation;
        let instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
        let overrides = Overrides {
            provider_id: choice.provider.clone(),
            model: choice.model.clone(),
            tools: chat_messages::tools(&body),
            instructions,
            ..Overrides::default()
        };
        let new = NewSession {
            provider_id: choice.provider,
            model: choice.model,
            track_tasks: Some(false),
            ..NewSession::default()
        };
        let request = ClientRequest {
            session: session.clone(),
            turns,
            blobs,
            overrides,
            new,
            scope: caller.0,
            once: Some(once),
        };
        let submitted = state.engine.client_histories().submit(request).await;
        let submitted = submitted.map_err(|error| refused(error, &session))?;
        Ok(AcceptedRequest { submitted, model: model.to_owned(), body })
    }
}

/// A session that does not exist is reported by the field that names it.
fn refused(error: ctx_engine::Error, session: &ClientSession) -> ApiError {
    if error.code() != "no_session" {
        return error.into();
    }
    match session {
        ClientSession::After { .. } => previous_response_not_found(),
        _ => conversation_not_found(),
    }
}

fn previous_response_not_found() -> ApiError {
    let message = "there is no response with the id of `previous_response_id`";
    ApiError::not_found("previous_response_not_found", "previous_response_id", message)
}

pub(super) fn conversation_not_found() -> ApiError {
    let message = "there is no conversation with this id or name";
    ApiError::not_found("conversation_not_found", "conversation", message)
}

/// The session that a request names: by `metadata.session`, `conversation`, `previous_response_id`
/// or `user`, in this order.
fn session_name(body: &Value) -> ApiResult<ClientSession> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(name) = text(&body["metadata"]["session"]) {
        return Ok(named_or_existing(name));
    }
    let conversation = text(&body["conversation"]).or_else(|| text(&body["conversation"]["id"]));
    if let Some(name) = conversation {
        return Ok(existing(name));
    }
    if let Some(id) = text(&body["previous_response_id"]) {
        let found = parse_answer_id(&id).ok_or_else(previous_response_not_found)?;
        return Ok(ClientSession::After { session: found.0, message: found.1 });
    }
    Ok(text(&body["user"]).map_or(ClientSession::ByHistory, named_or_existing))
}

/// A session by the id of its conversation, or by any of its names.
pub(super) fn existing(name: String) -> ClientSession {
    let name = parse_conversation_id(&name).map_or(name, |id| id.to_string());
    ClientSession::Existing(name)
}

fn named_or_existing(name: String) -> ClientSession {
    let is_id = parse_conversation_id(&name).is_some()
        || name.parse::<ctx_engine::core::id::SessionId>().is_ok();
    if is_id { existing(name) } else { ClientSession::Named(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_engine::core::id::{MessageId, SessionId};
    use serde_json::json;
    use ulid::Ulid;

    #[test]
    fn the_first_of_four_fields_names_the_session() {
        let (session, message) = (SessionId(Ulid(1)), MessageId(Ulid(2)));
        let response = super::super::answer_id("resp_", session, message);
        let mut body = json!({
            "metadata": {"session": "a"}, "conversation": {"id": "b"},
            "previous_response_id": response, "user": "d",
        });
        let name = |body: &Value| session_name(body).expect("valid");
        assert_eq!(name(&body), ClientSession::Named("a".into()));
        body["metadata"] = json!({"other": "x"});
        assert_eq!(name(&body), ClientSession::Existing("b".into()));
        body["conversation"] = json!(format!("conv_{session}"));
        assert_eq!(name(&body), ClientSession::Existing(session.to_string()));
        body["conversation"] = Value::Null;
        assert_eq!(name(&body), ClientSession::After { session, message });
        body["previous_response_id"] = json!("resp_none");
        assert!(
            session_name(&body).is_err_and(|error| error.code() == "previous_response_not_found")
        );
        body["previous_response_id"] = Value::Null;
        assert_eq!(name(&body), ClientSession::Named("d".into()));
        body["user"] = json!("");
        assert_eq!(name(&body), ClientSession::ByHistory);
    }

    #[test]
    fn only_a_repeated_request_gets_an_earlier_answer() {
        let caller = Caller("local".to_owned());
        let request = ObjectId::of(&[b"x"]);
        let key = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            once_key(&headers, &caller, request).expect("a key")
        };
        for (count, max_age) in [("0", 0), ("1", 600_000), ("2", 600_000), ("x", 0)] {
            assert_eq!(key(RETRY_COUNT, count).max_age, Some(Span(max_age)), "{count}");
        }
        let own = key("idempotency-key", "k1");
        assert_eq!((own.key.as_str(), own.max_age), ("k1", None));
        assert_ne!(own.scope, key(RETRY_COUNT, "1").scope);
    }
}
