//! Messages from channels: the sender's identity and the policies give their session.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::id::{ObjectId, SuspensionId};
use ctx_engine::core::identity::{Envelope, PeerKind, check_field};
use ctx_engine::core::inbox::Mode;
use ctx_engine::{Key, NewInbound, NewMessage, ReceivedMessage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::entity_json::Principal;
use crate::json::message_json::Accepted;

use super::Shared;
use super::extractors::{IdempotentJson, Json};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// A message from a channel: either `text`, or `suspension_id` and `choice`
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InboundBody {
    channel: String,
    /// The account of ctx on the channel, where it has several
    account_id: Option<String>,
    sender_id: String,
    sender_name: Option<String>,
    /// `dm` (default), `group` or `channel`
    #[schema(value_type = Option<String>)]
    peer_kind: Option<PeerKind>,
    /// The group or channel; for a direct message where the answer goes, if not to the sender
    peer_id: Option<String>,
    thread_id: Option<String>,
    /// The message on the channel that this one answers
    reply_to_id: Option<String>,
    /// The id of this message on the channel. A message with an id that was received before gets
    /// the first response again and has no other effect
    message_id: Option<String>,
    text: Option<String>,
    /// Overrides the mode of the policies
    #[schema(value_type = Option<String>)]
    queue_mode: Option<Mode>,
    /// The suspension that the message answers
    suspension_id: Option<String>,
    /// The id, number or label of an option of the suspension
    choice: Option<String>,
}

/// The response to a message from a channel
#[derive(Serialize, ToSchema)]
pub(super) struct Received {
    /// The id of the session that received the message
    session: String,
    label: String,
    /// The policy that gave the session
    policy: String,
    principal: Principal,
    #[serde(flatten)]
    accepted: Accepted,
}

impl From<&ReceivedMessage> for Received {
    fn from(received: &ReceivedMessage) -> Self {
        Self {
            session: received.submitted.session.to_string(),
            label: received.label.clone(),
            policy: received.policy.clone(),
            principal: Principal::from(&received.principal),
            accepted: Accepted::from(&received.submitted),
        }
    }
}

impl InboundBody {
    /// What must be the same if a message is sent again with the same id.
    fn identity(&self) -> ObjectId {
        let same = serde_json::json!([
            self.channel,
            self.account_id,
            self.sender_id,
            self.peer_kind,
            self.peer_id,
            self.thread_id,
            self.text,
            self.suspension_id,
            self.choice,
        ]);
        ObjectId::of(&[same.to_string().as_bytes()])
    }

    fn answer(&self) -> HttpResult<Option<(SuspensionId, String)>> {
        match (&self.suspension_id, &self.choice, &self.text) {
            (None, None, Some(_)) => Ok(None),
            (Some(id), Some(choice), None) => {
                let id = id.parse().map_err(|_| Error::not_found("suspension", id))?;
                Ok(Some((id, choice.clone())))
            }
            _ => Err(Error::invalid(
                "invalid_body",
                "the message needs either `text`, or `suspension_id` and `choice`",
            )),
        }
    }
}

/// Receive a message from a channel
///
/// The message is on disk when the response arrives. The policies give its session, which is
/// created if it does not exist.
#[utoipa::path(
    post, path = "/api/inbound", tag = "channels", request_body = InboundBody,
    responses(
        (status = 202, body = Received),
        (status = 403, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 429, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn receive(
    State(state): State<Shared>,
    IdempotentJson { body, key }: IdempotentJson<InboundBody>,
) -> HttpResult<(StatusCode, Json<Received>)> {
    let answer = body.answer()?;
    let key = match &body.message_id {
        Some(id) => {
            check_field("message_id", id).map_err(ctx_engine::Error::from)?;
            Some(Key { key: id.clone(), request: body.identity() })
        }
        None => key,
    };
    let mut message = NewMessage::text(body.text.unwrap_or_default());
    message.mode = body.queue_mode;
    let envelope = Envelope {
        channel: body.channel,
        account_id: body.account_id,
        sender_id: body.sender_id,
        sender_name: body.sender_name,
        peer_kind: body.peer_kind.unwrap_or_default(),
        peer_id: body.peer_id,
        thread_id: body.thread_id,
        reply_to_id: body.reply_to_id,
    };
    let new = NewInbound { envelope, message, answer };
    let received = state.engine.inbound().receive(new, key).await?;
    Ok((StatusCode::ACCEPTED, Json(Received::from(&received))))
}
