//! Messages from channels: the policies, and the transaction that finds the session of a message
//! and accepts it there.

use std::sync::Arc;

use ctx_core::decide::{self, Needs, Receive, RunPolicy};
use ctx_core::id::SuspensionId;
use ctx_core::identity::{Envelope, Principal, channel_key};
use ctx_core::policy::{Explanation, Policies};
use ctx_core::refusal::Refusal;
use ctx_core::routing;
use ctx_core::session::Origin;
use ctx_store::{Executed, Once, Target, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{Engine, Error};
use crate::submit::{Key, NewMessage, NewSession, Submitted, replayed, to_completion};

/// A message from a channel.
#[derive(Debug, Clone)]
pub struct NewInbound {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub envelope: Envelope,
    /// The message. Its mode overrides the mode of the policies.
    pub message: NewMessage,
    /// The suspension that it answers, and the option that it chooses.
    pub answer: Option<(SuspensionId, String)>,
}

/// What came of a message from a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceivedMessage {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    #[serde(flatten)]
    pub submitted: Submitted,
    /// The label of the session that received it.
    pub label: String,
    /// The policy that gave the session.
    pub policy: String,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub principal: Principal,
    /// Whether this is the stored answer to a key that was used before.
    #[serde(skip)]
    pub replayed: bool,
}

impl ReceivedMessage {
    fn of(session: ctx_core::id::SessionId, received: &decide::Received) -> Self {
        Self {
            submitted: Submitted::of(session, &received.accepted),
            label: received.label.clone(),
            policy: received.policy.clone(),
            principal: received.principal.clone(),
            replayed: false,
        }
    }
}

fn remembered(session: ctx_core::id::SessionId, received: &decide::Received) -> Value {
    json!(ReceivedMessage::of(session, received))
}

/// Messages from channels.
#[derive(Clone, Copy)]
pub struct InboundMessages<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Messages from channels.
    pub const fn inbound(&self) -> InboundMessages<'_> {
        InboundMessages { engine: self }
    }
}

impl InboundMessages<'_> {
    /// Replaces the policies, for all clones of the engine. Without policies no message is
    /// admitted.
    pub fn set_policies(self, policies: Option<Policies>) {
        self.engine.shared().set_policies(policies.map(Arc::new));
    }

    /// The policies in force.
    pub fn policies(self) -> Option<Arc<Policies>> {
        self.engine.shared().policies()
    }

    /// Accepts a message: the identity of the sender and the policies give its session, which is
    /// created if it does not exist.
    ///
    /// Fails if the policies do not admit the message, or the session does not accept it.
    pub async fn receive(
        self,
        new: NewInbound,
        key: Option<Key>,
    ) -> Result<ReceivedMessage, Error> {
        let engine = self.engine;
        let NewInbound { envelope, message, answer } = new;
        envelope.check()?;
        let policies = self.policies().ok_or(Refusal::NoPolicy)?;
        engine.ensure_lease().await?;
        let channel = channel_key(&envelope.channel, envelope.account_id.as_deref());
        let once = key
            .map(|key| Once { key: key.scoped(format!("inbound {channel}")), answer: remembered });
        let text = ctx_core::inbox::text_of(&message.content);
        let session = NewSession { origin: Some(Origin::Inbound), ..NewSession::default() };
        let slot = engine.shared().slots.take();
        let policy = if slot.is_some() { RunPolicy::StartRun } else { RunPolicy::NoRoom };
        let (mut submit, blobs) = engine.submission(message, policy);
        submit.overrides.envelope = Some(envelope.clone());
        let receive = Receive {
            new: engine.new_session(session)?,
            submit,
            sender_key: envelope.address().key(),
            answer,
        };
        let (run_host, settings, invocation) =
            (engine.shared().run_host(), engine.settings().clone(), engine.invocation());
        let target = Target::Inbound(Arc::new(routing::Inbound { policies, envelope, text }));
        let suspension = receive.answer.as_ref().map(|(id, _)| *id);
        let needs = Needs { suspension, ..Needs::MESSAGE };
        let write = Write { target, needs, objects: blobs, now: invocation.now };
        let rule = move |view: Option<&_>, routed: Option<&routing::Routed>| {
            let routed = routed.ok_or(Refusal::NoPolicy)?;
            decide::receive(view, routed, &receive, &run_host, &settings, &invocation)
        };
        let engine = engine.clone();
        to_completion(async move {
            let written = match engine.execute_routed(write, once, rule).await? {
                Executed::Written(written) => written,
                Executed::Replayed(answer) => {
                    return Ok(ReceivedMessage { replayed: true, ..replayed(answer)? });
                }
            };
            let (session, reply) = (written.session, written.reply);
            let received = ReceivedMessage::of(session, &reply);
            engine.hand_over(session, reply.accepted, slot).await;
            Ok(received)
        })
        .await
    }

    /// The decision about a message with this envelope, and the part that each policy has in it.
    /// Nothing is stored.
    ///
    /// Fails if there are no policies, or the store fails.
    pub async fn explain(self, envelope: &Envelope, text: &str) -> Result<Explained, Error> {
        envelope.check()?;
        let policies = self.policies().ok_or(Refusal::NoPolicy)?;
        let (principal, verified) = self.engine.store().principal(envelope).await?;
        let now = self.engine.now();
        let explanation = policies.explain(&principal, envelope, text, verified, now);
        Ok(Explained { principal, explanation })
    }
}

/// The sender of a message, and the decision about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub principal: Principal,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    #[serde(flatten)]
    pub explanation: Explanation,
}
