//! Messages: sent to a session and read from its history. Their texts are never logged.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use ctx_engine::core::id::SessionId;
use ctx_engine::core::inbox::{Mode, Overrides, Tool};
use ctx_engine::core::message::{Part, Source};
use ctx_engine::core::session::Activity;
use ctx_engine::{NewMessage, Order};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::json::message_json::{Accepted, Message};

use super::extractors::{IdempotentJson, Json, Path, Query, page_limit, preferred_wait, present};
use super::message_content::{self, PartBody};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, cursor};

/// A message to send: either `text` or `content`
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageBody {
    #[serde(default, deserialize_with = "present")]
    text: Option<String>,
    #[serde(default, deserialize_with = "present")]
    content: Option<Vec<PartBody>>,
    provider_id: Option<String>,
    model: Option<String>,
    /// What happens if the session is busy: `interrupt`, `steer`, `followup`, `collect`,
    /// `steer-backlog` or `queue`
    #[schema(value_type = Option<String>)]
    queue_mode: Option<Mode>,
    /// `human` (default), `agent`, `trigger`, `webhook`, `timer` or `event`
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// Tools that the client executes: `{name, description, parameters}`
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Tool>>,
}

impl MessageBody {
    fn outgoing(self) -> HttpResult<NewMessage> {
        let overrides = Overrides {
            provider_id: self.provider_id,
            model: self.model,
            tools: self.tools.unwrap_or_default(),
            ..Overrides::default()
        };
        let mut message = NewMessage {
            mode: self.queue_mode,
            source: self.source.unwrap_or_default(),
            overrides,
            ..NewMessage::default()
        };
        match (self.text, self.content) {
            (Some(text), None) => message.content.push(Part::Text { text }),
            (None, Some(parts)) => message_content::add_parts(parts, &mut message)?,
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "invalid_body",
                    "the message has both `text` and `content`: send only one",
                ));
            }
            (None, None) => {
                return Err(Error::invalid(
                    "invalid_body",
                    "the message has neither `text` nor `content`",
                ));
            }
        }
        Ok(message)
    }
}

/// The first message of a session: a text, or an object like the body of a sent message
#[derive(Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "`message` must be a string or a body of POST /api/sessions/{id}/messages"
)]
pub(super) enum FirstMessage {
    Text(String),
    Full(Box<MessageBody>),
}

impl FirstMessage {
    pub(super) fn outgoing(self) -> HttpResult<NewMessage> {
        match self {
            Self::Text(text) => Ok(NewMessage::text(text)),
            Self::Full(body) => body.outgoing(),
        }
    }
}

/// Send a message
///
/// The message is on disk when the response arrives. A request with an `Idempotency-Key` that was
/// used before gets the first response again and has no other effect.
#[utoipa::path(
    post, path = "/api/sessions/{id}/messages", tag = "messages", request_body = MessageBody,
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        (
            "Prefer" = Option<String>, Header,
            description = "`wait=N`: respond when the run has ended or suspended, or after N s"
        ),
    ),
    responses(
        (status = 202, body = Accepted),
        (status = 200, body = Accepted, description = "The run has ended or suspended"),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 429, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn send(
    State(state): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    IdempotentJson { body, key }: IdempotentJson<MessageBody>,
) -> HttpResult<(StatusCode, HeaderMap, Json<Accepted>)> {
    let sent = state.engine.messages().submit(&id, body.outgoing()?, key).await?;
    let accepted = Accepted::from(&sent);
    let mut response_headers = HeaderMap::new();
    let Some(wait) = preferred_wait(&headers) else {
        return Ok((StatusCode::ACCEPTED, response_headers, Json(accepted)));
    };
    if let Ok(value) = HeaderValue::from_str(&format!("wait={}", wait.as_secs())) {
        response_headers.insert("preference-applied", value);
    }
    Ok(match wait_until_settled(&state, sent.session, wait).await {
        Some(Activity::Running) | None => (StatusCode::ACCEPTED, response_headers, Json(accepted)),
        Some(now) => (StatusCode::OK, response_headers, Json(accepted.with_state(now))),
    })
}

/// Waits until the run has ended or suspended and returns the state of the session. `None` if the
/// server shuts down or the session cannot be read; the message is accepted in any case.
pub(super) async fn wait_until_settled(
    state: &Shared,
    session: SessionId,
    wait: Duration,
) -> Option<Activity> {
    tokio::select! {
        () = state.shutdown.cancelled() => None,
        settled = state.engine.sessions().settled_state(session, wait) => settled.ok(),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MessagesQuery {
    /// `asc` (default): oldest first; `desc`: newest first
    #[param(inline)]
    order: Option<Direction>,
    cursor: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    Asc,
    Desc,
}

/// The order of a list, or the route's default.
pub(super) fn order_or(order: Option<Direction>, default: Order) -> Order {
    match order {
        Some(Direction::Desc) => Order::Desc,
        Some(Direction::Asc) => Order::Asc,
        None => default,
    }
}

/// A page of messages
#[derive(Serialize, ToSchema)]
pub(super) struct Messages {
    messages: Vec<Message>,
    next_cursor: Option<String>,
}

/// Read the messages of a session
///
/// Returns the history of the current head. A cursor stays valid while the head moves.
#[utoipa::path(
    get, path = "/api/sessions/{id}/messages", tag = "messages",
    params(("id" = String, Path, description = "Id, short id, label or alias"), MessagesQuery),
    responses(
        (status = 200, body = Messages),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
) -> HttpResult<Json<Messages>> {
    let order = order_or(query.order, Order::Asc);
    let limit = page_limit(query.limit)?;
    let from = query.cursor.as_deref().map(|cursor| cursor::to_place(order, cursor)).transpose()?;
    let page = match state.engine.messages().page(&id, order, from, limit).await {
        Err(error) if from.is_some() && error.code() == "not_found" => {
            return Err(cursor::not_found());
        }
        page => page?,
    };
    let next_cursor = page.next.map(|place| cursor::of_place(order, place));
    Ok(Json(Messages {
        messages: page.messages.into_iter().map(Message::from).collect(),
        next_cursor,
    }))
}
