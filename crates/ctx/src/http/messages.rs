//! Messages: sent to a session, and read back from its history. Their texts are never logged.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use ctx_engine::core::id::SessionId;
use ctx_engine::core::inbox::{Mode, Overrides, Tool};
use ctx_engine::core::message::{Part, Source};
use ctx_engine::core::session::Activity;
use ctx_engine::{Order, Outgoing};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::shape::talk::{Accepted, Message};

use super::error::{Answer, Document, Error};
use super::extract::{Json, Once, Path, Query, given, page_limit, preferred_wait};
use super::parts::{self, GivenPart};
use super::{Shared, cursor};

/// A message that is sent: `text` or `content`.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageBody {
    #[serde(default, deserialize_with = "given")]
    text: Option<String>,
    #[serde(default, deserialize_with = "given")]
    content: Option<Vec<GivenPart>>,
    provider_id: Option<String>,
    model: Option<String>,
    /// `interrupt`, `steer`, `followup`, `collect`, `steer-backlog` or `queue`
    #[schema(value_type = Option<String>)]
    queue_mode: Option<Mode>,
    /// `human` if none
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// `{name, description, parameters}`: tools that the client answers
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Tool>>,
}

impl MessageBody {
    fn outgoing(self) -> Answer<Outgoing> {
        let overrides = Overrides {
            provider_id: self.provider_id,
            model: self.model,
            tools: self.tools.unwrap_or_default(),
        };
        let mut message = Outgoing {
            mode: self.queue_mode,
            source: self.source.unwrap_or_default(),
            overrides,
            ..Outgoing::default()
        };
        match (self.text, self.content) {
            (Some(text), None) => message.content.push(Part::Text { text }),
            (None, Some(parts)) => parts::put(parts, &mut message)?,
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "invalid_body",
                    "a message has `text` or `content`, not both",
                ));
            }
            (None, None) => {
                return Err(Error::invalid("invalid_body", "a message has `text` or `content`"));
            }
        }
        Ok(message)
    }
}

/// The first message of a session: its words, or all that a message may have.
#[derive(Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "`message` is a text or an object like the body of POST /api/sessions/{id}/messages"
)]
pub(super) enum FirstMessage {
    /// Its words.
    Text(String),
    /// All of it.
    Whole(Box<MessageBody>),
}

impl FirstMessage {
    pub(super) fn outgoing(self) -> Answer<Outgoing> {
        match self {
            Self::Text(text) => Ok(Outgoing::text(text)),
            Self::Whole(body) => body.outgoing(),
        }
    }
}

/// Sends a message; what comes back is on disk. With an `Idempotency-Key` that came before: the first answer again, and nothing done twice.
#[utoipa::path(post, path = "/api/sessions/{id}/messages", tag = "messages", request_body = MessageBody,
    params(("id" = String, Path, description = "Id, label or alias"),
           ("Prefer" = Option<String>, Header, description = "`wait=N`: answer when the run has ended or suspended, or after N seconds")),
    responses((status = 202, body = Accepted), (status = 200, body = Accepted, description = "It was waited for"),
              (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 409, body = Document, content_type = "application/problem+json"),
              (status = 422, body = Document, content_type = "application/problem+json"),
              (status = 429, body = Document, content_type = "application/problem+json")))]
pub(super) async fn send(
    State(state): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Once { body, key }: Once<MessageBody>,
) -> Answer<(StatusCode, HeaderMap, Json<Accepted>)> {
    let sent = state.engine.messages().submit(&id, body.outgoing()?, key).await?;
    let accepted = Accepted::from(&sent);
    let mut told = HeaderMap::new();
    let Some(wait) = preferred_wait(&headers) else {
        return Ok((StatusCode::ACCEPTED, told, Json(accepted)));
    };
    if let Ok(value) = HeaderValue::from_str(&format!("wait={}", wait.as_secs())) {
        told.insert("preference-applied", value);
    }
    Ok(match waited(&state, sent.session, wait).await {
        Some(Activity::Running) | None => (StatusCode::ACCEPTED, told, Json(accepted)),
        Some(now) => (StatusCode::OK, told, Json(accepted.with_state(now))),
    })
}

/// What a session does when its run has ended or suspended; nothing where that cannot be told, for the message is taken either way.
pub(super) async fn waited(state: &Shared, session: SessionId, wait: Duration) -> Option<Activity> {
    let session = session.to_string();
    tokio::select! {
        () = state.shutdown.cancelled() => None,
        settled = state.engine.sessions().settled(&session, wait) => settled.ok().map(|info| info.session.state),
    }
}

/// Which messages.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MessagesQuery {
    /// `asc`, oldest first, or `desc`
    #[param(inline)]
    order: Option<Direction>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// In which order.
#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// A page of messages.
#[derive(Serialize, ToSchema)]
pub(super) struct Messages {
    messages: Vec<Message>,
    next_cursor: Option<String>,
}

/// The history at the head.
#[utoipa::path(get, path = "/api/sessions/{id}/messages", tag = "messages",
    params(("id" = String, Path, description = "Id, label or alias"), MessagesQuery),
    responses((status = 200, body = Messages), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
) -> Answer<Json<Messages>> {
    let order = match query.order {
        Some(Direction::Desc) => Order::Desc,
        Some(Direction::Asc) | None => Order::Asc,
    };
    let limit = page_limit(query.limit)?;
    let from = query.cursor.as_deref().map(|cursor| cursor::to_place(order, cursor)).transpose()?;
    let page = match state.engine.messages().page(&id, order, from, limit).await {
        Err(error) if from.is_some() && error.code() == "not_found" => return Err(cursor::gone()),
        page => page?,
    };
    let next_cursor = page.next.map(|place| cursor::of_place(order, place));
    Ok(Json(Messages {
        messages: page.messages.into_iter().map(Message::from).collect(),
        next_cursor,
    }))
}
