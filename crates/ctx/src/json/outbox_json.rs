//! A delivery to a channel.

use ctx_engine::core::outbox::{Outgoing as CoreOutgoing, Recipient as CoreRecipient, Status};
use ctx_engine::core::suspension::Offer;
use serde::Serialize;
use utoipa::ToSchema;

use super::{optional_string, variant_name};

/// Where on a channel a delivery goes
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recipient {
    channel: String,
    account_id: Option<String>,
    /// `dm`, `group` or `channel`
    peer_kind: String,
    peer_id: String,
    thread_id: Option<String>,
    reply_to_id: Option<String>,
}

/// An offered answer
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutgoingOption {
    id: String,
    label: String,
    kind: Option<String>,
}

/// A delivery to a channel
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outgoing {
    /// The same for every attempt
    id: String,
    session: String,
    label: String,
    /// `reply`, `prompt`, `permission` or `question`
    kind: String,
    /// `pending`, `delivered` or `dead`
    status: String,
    to: Recipient,
    text: String,
    /// The turn that it answers; null while that turn is open
    turn: Option<String>,
    /// The messages of the recipient in that turn
    message_ids: Vec<String>,
    prompt_id: Option<String>,
    /// The choices of a prompt
    choices: Vec<String>,
    suspension_id: Option<String>,
    /// The offered answers of a permission or question
    options: Vec<OutgoingOption>,
    question: Option<String>,
    /// Whether the sender of the messages may answer the permission or question
    may_answer: Option<bool>,
    attempts: u64,
    /// Null unless it is pending
    next_attempt_at: Option<String>,
    /// `no_channel` if the channel is not configured
    last_error: Option<String>,
    created_at: String,
    delivered_at: Option<String>,
}

impl Outgoing {
    pub(crate) fn of(outgoing: &CoreOutgoing) -> Self {
        let body = &outgoing.body;
        let pending = outgoing.status == Status::Pending;
        Self {
            id: outgoing.id.to_string(),
            session: outgoing.session.to_string(),
            label: outgoing.label.clone(),
            kind: variant_name(&outgoing.kind),
            status: outgoing.status.name().to_owned(),
            to: recipient(&outgoing.to),
            text: body.text.clone(),
            turn: optional_string(&body.turn),
            message_ids: body.message_ids.iter().map(ToString::to_string).collect(),
            prompt_id: optional_string(&body.prompt_id),
            choices: body.choices.iter().map(|choice| choice.name().to_owned()).collect(),
            suspension_id: optional_string(&body.suspension_id),
            options: body.options.iter().map(option).collect(),
            question: body.question.clone(),
            may_answer: body.may_answer,
            attempts: outgoing.attempts,
            next_attempt_at: pending.then(|| outgoing.next_attempt_at.to_string()),
            last_error: outgoing.last_error.clone(),
            created_at: outgoing.created_at.to_string(),
            delivered_at: optional_string(&outgoing.delivered_at),
        }
    }
}

fn recipient(to: &CoreRecipient) -> Recipient {
    Recipient {
        channel: to.channel.clone(),
        account_id: to.account_id.clone(),
        peer_kind: variant_name(&to.peer_kind),
        peer_id: to.peer_id.clone(),
        thread_id: to.thread_id.clone(),
        reply_to_id: to.reply_to_id.clone(),
    }
}

fn option(offer: &Offer) -> OutgoingOption {
    OutgoingOption { id: offer.id.clone(), label: offer.label.clone(), kind: offer.kind.clone() }
}
