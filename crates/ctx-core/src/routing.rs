//! Routing: from the sender of a message to its session (R118, R130, R136).
//!
//! The store reads the sender's identity, evaluates the policies and looks the session up in the
//! transaction that accepts the message. So a message and a change of identities never race.

use std::sync::Arc;

use crate::id::EntityId;
use crate::identity::{Envelope, PeerKind, Principal};
use crate::policy::{Access, Policies};

/// A message from a channel that has no session yet.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Inbound {
    pub policies: Arc<Policies>,
    pub envelope: Envelope,
    pub text: String,
}

/// How the session of a message was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// By its label.
    Label,
    /// By one of its aliases.
    Alias,
    /// It is the session of a channel of the entity. The label becomes an alias of it.
    Promotion,
    /// No session exists. It is created.
    Nothing,
}

/// Most other conversations of a person that the system prompt names.
pub const OTHER_SESSIONS_MAX: usize = 20;

/// The sender of a message, its rights, and how its session was found.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Routed {
    pub principal: Principal,
    pub access: Access,
    pub peer_kind: PeerKind,
    pub found: Found,
}

impl Routed {
    /// The entity whose direct messages all go to the session, on whatever channel they come.
    pub fn entity(&self) -> Option<EntityId> {
        let is_shared = self.access.has_entity_key && self.peer_kind == PeerKind::Dm;
        self.principal.entity_id.filter(|_| is_shared)
    }
}
