//! Entities, identities and aliases.

use ctx_engine::core::alias::Alias as CoreAlias;
use ctx_engine::core::identity::{
    Entity as CoreEntity, Identity as CoreIdentity, Principal as CorePrincipal,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{optional_string, variant_name};

/// A person, agent or service that sends messages
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entity {
    id: String,
    name: String,
    /// `person`, `agent` or `service`
    kind: String,
    /// What the entity is to the owner; policies can match it
    relationship: Option<String>,
    /// Whether the entity owns this store
    owner: bool,
    /// The entity that this one was merged into
    merged_into: Option<String>,
    identities: Vec<Identity>,
    created_at: String,
}

impl Entity {
    pub(crate) fn new(entity: &CoreEntity, identities: &[CoreIdentity]) -> Self {
        Self {
            id: entity.id.to_string(),
            name: entity.name.clone(),
            kind: variant_name(&entity.kind),
            relationship: entity.relationship.clone(),
            owner: entity.owner,
            merged_into: optional_string(&entity.merged_into),
            identities: identities.iter().map(Identity::from).collect(),
            created_at: entity.created_at.to_string(),
        }
    }
}

/// An address of an entity on a channel
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Identity {
    entity: String,
    channel: String,
    account_id: Option<String>,
    sender_id: String,
    /// A sender whose identity is not verified stays unknown
    verified: bool,
    linked_at: String,
}

impl From<&CoreIdentity> for Identity {
    fn from(identity: &CoreIdentity) -> Self {
        Self {
            entity: identity.entity.to_string(),
            channel: identity.address.channel.clone(),
            account_id: identity.address.account_id.clone(),
            sender_id: identity.address.sender_id.clone(),
            verified: identity.verified,
            linked_at: identity.linked_at.to_string(),
        }
    }
}

/// Another label of a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alias {
    alias: String,
    session_label: String,
    /// `identity_promotion`, `identity_merge` or `manual`
    reason: String,
    created_at: String,
}

impl From<&CoreAlias> for Alias {
    fn from(alias: &CoreAlias) -> Self {
        Self {
            alias: alias.alias.clone(),
            session_label: alias.session_label.clone(),
            reason: variant_name(&alias.reason),
            created_at: alias.created_at.to_string(),
        }
    }
}

/// The sender of a message, as far as the store knows it
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Principal {
    /// `owner`, `known`, `unknown`, `system`, `webhook` or `agent`
    r#type: String,
    entity_id: Option<String>,
    name: Option<String>,
    relationship: Option<String>,
}

impl From<&CorePrincipal> for Principal {
    fn from(principal: &CorePrincipal) -> Self {
        Self {
            r#type: variant_name(&principal.kind),
            entity_id: optional_string(&principal.entity_id),
            name: principal.name.clone(),
            relationship: principal.relationship.clone(),
        }
    }
}
