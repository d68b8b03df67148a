//! Accept a message from a channel. Its session was found by the sender's identity and the policies
//! in the same transaction (R118–R143). The message may answer a suspension instead.

use crate::alias::{Alias, Reason};
use crate::answer_match::numbered_option;
use crate::id::SuspensionId;
use crate::identity::{PeerKind, Principal};
use crate::inbox::{Admission, Overrides, Rights};
use crate::refusal::Refusal;
use crate::routing::{Found, Routed};
use crate::session::{self, Routing};
use crate::suspension::{Answer, Kind};

use super::delivery::delivery_block;
use super::resume::answer_suspension;
use super::session_changes::{RunHost, SessionChanges};
use super::submit::accept_message;
use super::{Accepted, Change, Decided, Invocation, SessionView, Settings, Submit, create_session};

/// A message from a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Receive {
    /// The session to create if there is none. The policies give its label, persona and routing.
    pub new: session::New,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub submit: Submit,
    /// The key of the sender's address.
    pub sender_key: String,
    /// The suspension that the message answers, and the option that it chooses.
    pub answer: Option<(SuspensionId, String)>,
}

/// What came of a message from a channel.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Received {
    pub accepted: Accepted,
    pub principal: Principal,
    /// The policy that gave the session.
    pub policy: String,
    /// The label of the session that received the message.
    pub label: String,
}

/// Accepts a message from a channel.
///
/// Fails as [`super::submit`] does, and if the sender may not answer the suspension.
pub fn receive(
    view: Option<&SessionView>,
    routed: &Routed,
    receive: &Receive,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Received> {
    let access = &routed.access;
    let decision = match (view, &receive.answer) {
        (Some(view), Some((id, choice))) => {
            answer(view, *id, choice, routed, receive, run_host, invocation)?
        }
        (None, Some(_)) => return Err(Refusal::NoSuspension),
        (view, None) => {
            let mut submit = receive.submit.clone();
            submit.mode = submit.mode.or(access.queue_mode);
            submit.overrides = Overrides {
                rights: Some(Rights { tools: vec![access.tools.clone()], approve: access.approve }),
                ..submit.overrides
            };
            match view {
                Some(view) => {
                    let before = promotion(view, routed, invocation);
                    accept_message(view, before, &submit, run_host, settings, invocation)?
                }
                None => {
                    let new = new_session(routed, receive);
                    let made = create_session(None, &new)?;
                    let fresh = SessionView::bare(new.session());
                    let mut decision = accept_message(
                        &fresh,
                        made.changes,
                        &submit,
                        run_host,
                        settings,
                        invocation,
                    )?;
                    decision.events.splice(0..0, made.events);
                    decision
                }
            }
        }
    };
    let label = view.map_or_else(|| access.label.clone(), |view| view.session.label.clone());
    Ok(decision.map(|accepted| Received {
        accepted,
        principal: routed.principal.clone(),
        policy: access.policy.clone(),
        label,
    }))
}

/// The session that the policies describe.
fn new_session(routed: &Routed, receive: &Receive) -> session::New {
    let (access, entity) = (&routed.access, routed.entity());
    let is_dm = routed.peer_kind == PeerKind::Dm;
    session::New {
        label: access.label.clone(),
        persona: access.persona.clone().or_else(|| receive.new.persona.clone()),
        track_tasks: access.track_tasks.or(receive.new.track_tasks),
        routing: Routing {
            key: is_dm.then(|| receive.sender_key.clone()),
            entity,
            policy: Some(access.policy.clone()),
            merged_into: None,
        },
        ..receive.new.clone()
    }
}

/// The session of a channel goes on as the session of the entity, which its sender is now known to
/// be (R136).
fn promotion(view: &SessionView, routed: &Routed, invocation: &Invocation) -> Vec<Change> {
    if routed.found != Found::Promotion {
        return Vec::new();
    }
    let alias = Alias {
        alias: routed.access.label.clone(),
        session_label: view.session.label.clone(),
        reason: Reason::IdentityPromotion,
        created_at: invocation.now,
    };
    let entity = routed.entity().map(Change::SetEntity);
    std::iter::once(Change::PutAlias(Box::new(alias))).chain(entity).collect()
}

/// The sender answers a suspension. Only a sender with the right to approve answers a permission.
fn answer(
    view: &SessionView,
    id: SuspensionId,
    choice: &str,
    routed: &Routed,
    receive: &Receive,
    run_host: &RunHost,
    invocation: &Invocation,
) -> Decided<Accepted> {
    let Some(suspension) = view.suspensions.iter().find(|suspension| suspension.id == id) else {
        let consumed = view.suspension_consumed;
        return Err(if consumed { Refusal::SuspensionConsumed } else { Refusal::NoSuspension });
    };
    if suspension.awaited.kind == Kind::Permission && !routed.access.approve {
        return Err(Refusal::ApprovalDenied);
    }
    let choice = suspension
        .matching_option(choice)
        .or_else(|| numbered_option(&suspension.awaited.options, choice))
        .map_or_else(|| choice.to_owned(), |offer| offer.id.clone());
    let by = routed.principal.name.clone().unwrap_or_else(|| receive.sender_key.clone());
    let answer = Answer { choice: Some(choice), by: Some(by), ..Answer::default() };
    suspension.check(&answer)?;
    let mut changes = SessionChanges::new(view, invocation);
    answer_suspension(&mut changes, suspension, answer, None, run_host)?;
    let accepted = Accepted {
        message_id: receive.submit.message_id,
        position: None,
        state: changes.session.state,
        delivery_block: delivery_block(&changes.session, changes.tasks.prompt()),
        intent: None,
        admission: Admission::Steer,
        prompt: None,
        opened_run: changes.opened_run.take(),
    };
    Ok(changes.finish(accepted))
}
