//! Fork a session: a new session whose head is a turn of an existing one. No turn is copied.

use crate::id::{SessionId, TurnId};
use crate::refusal::Refusal;
use crate::session::{self, Origin, Parent};

use super::{Change, Decided, Decision, Invocation, SessionView, create_session};

/// A fork to create.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct Fork {
    pub id: SessionId,
    pub label: String,
    /// The turn to fork at; absent for an origin without turns.
    pub turn: Option<TurnId>,
    /// The origin's title if absent.
    pub title: Option<String>,
    /// The origin's directory if absent.
    pub working_dir: Option<String>,
}

/// Creates a session that shares every turn up to the fork point. It inherits the persona,
/// provider, model and project of the origin, and the pins of the fork point and its ancestors.
///
/// `view` is the origin. It must be read with [`super::TurnNeed::ForkPoint`], the pins and the
/// label.
///
/// # Errors
/// If the turn is not in the origin's tree, or the label is invalid or in use.
pub fn fork(view: &SessionView, fork: &Fork, invocation: &Invocation) -> Decided<SessionId> {
    if view.label_taken {
        return Err(Refusal::LabelInUse { label: fork.label.clone() });
    }
    let (depth, pins) = match (fork.turn, &view.turn) {
        (None, _) => (0, &[][..]),
        (Some(turn), Some(position)) if position.turn == turn && position.reachable => {
            (position.depth, &position.pins[..])
        }
        (Some(turn), _) => return Err(Refusal::NotAnAncestor { turn }),
    };
    let from = &view.session;
    let new = session::New {
        routing: session::Routing::default(),
        id: fork.id,
        label: fork.label.clone(),
        title: fork.title.clone().or_else(|| from.title.clone()),
        project: from.project.clone(),
        working_dir: fork.working_dir.clone().or_else(|| from.working_dir.clone()),
        persona: from.persona.clone(),
        provider_id: from.provider_id.clone(),
        model: from.model.clone(),
        origin: Origin::Fork,
        parent: Some(Parent { session: from.label.clone(), turn: fork.turn, tool_call: None }),
        track_tasks: Some(from.track_tasks),
        head: fork.turn,
        turn_count: depth,
        created_at: invocation.now,
        last_activity_at: None,
    };
    let (mut batch, ()) = create_session(None, &new)?.into_parts();
    let pins = pins.iter().map(|pin| Change::Pin { turn: pin.turn, tokens: pin.tokens });
    batch.changes.extend(pins);
    Ok(Decision::new(batch, fork.id))
}
