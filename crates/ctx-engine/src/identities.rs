//! Entities, their identities on channels, and aliases of sessions.

use ctx_core::alias::Alias;
use ctx_core::id::EntityId;
use ctx_core::identity::{Address, Entity, EntityKind, Identity, check_field};
use ctx_core::refusal::Refusal;
use ctx_store::PAGE_MAX;

use crate::engine::{Engine, Error};
use crate::sessions::Info;

/// An entity to be created.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the fields of `Entity` under the same names")]
pub struct NewEntity {
    pub name: String,
    pub kind: EntityKind,
    pub relationship: Option<String>,
    pub owner: bool,
}

/// People, agents and services that send messages, and their addresses on channels.
#[derive(Clone, Copy)]
pub struct Entities<'a> {
    pub(crate) engine: &'a Engine,
}

/// Further labels of sessions.
#[derive(Clone, Copy)]
pub struct Aliases<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Entities and their identities.
    pub const fn entities(&self) -> Entities<'_> {
        Entities { engine: self }
    }

    /// Aliases of sessions.
    pub const fn aliases(&self) -> Aliases<'_> {
        Aliases { engine: self }
    }
}

fn check(new: &NewEntity) -> Result<(), Refusal> {
    check_field("name", &new.name)?;
    new.relationship.as_deref().map(|text| check_field("relationship", text)).transpose()?;
    Ok(())
}

impl Entities<'_> {
    /// Creates an entity.
    ///
    /// Fails if the name is empty or too long.
    pub async fn create(self, new: NewEntity) -> Result<Entity, Error> {
        check(&new)?;
        let entity = Entity {
            id: EntityId(self.engine.new_id()),
            kind: new.kind,
            name: new.name,
            relationship: new.relationship,
            owner: new.owner,
            merged_into: None,
            created_at: self.engine.now(),
        };
        self.engine.store().put_entity(&entity).await?;
        Ok(entity)
    }

    /// Replaces the name, kind, relationship and ownership of an entity.
    ///
    /// Fails if there is no such entity, or a text is not valid.
    pub async fn update(self, id: EntityId, new: NewEntity) -> Result<Entity, Error> {
        check(&new)?;
        let NewEntity { name, kind, relationship, owner } = new;
        let entity = Entity { name, kind, relationship, owner, ..self.get(id).await? };
        self.engine.store().put_entity(&entity).await?;
        Ok(entity)
    }

    /// The entity with an id or a name, or whose id begins with a text.
    ///
    /// Fails if there is none, or several have the name.
    pub async fn find(self, name: &str) -> Result<Entity, Error> {
        if let Ok(id) = name.parse() {
            return self.get(id).await;
        }
        let mut named = self.engine.store().entities_named(name).await?;
        match (named.pop(), named.is_empty()) {
            (None, _) => match self.engine.ids().entity(name).await? {
                Some(id) => self.get(id).await,
                None => Err(Refusal::NoEntity.into()),
            },
            (Some(entity), true) => Ok(entity),
            (Some(_), false) => {
                let name = name.chars().take(80).collect();
                Err(Refusal::AmbiguousName { name }.into())
            }
        }
    }

    /// An entity.
    ///
    /// Fails if there is no such entity.
    pub async fn get(self, id: EntityId) -> Result<Entity, Error> {
        Ok(self.engine.store().entity(id).await?.ok_or(Refusal::NoEntity)?)
    }

    /// Entities that were not merged, oldest first, after one.
    ///
    /// Fails if the store fails.
    pub async fn list(self, after: Option<EntityId>, limit: usize) -> Result<Vec<Entity>, Error> {
        Ok(self.engine.store().entities(after, limit).await?)
    }

    /// The identities of an entity, oldest first.
    ///
    /// Fails if there is no such entity.
    pub async fn identities(self, id: EntityId) -> Result<Vec<Identity>, Error> {
        self.get(id).await?;
        Ok(self.engine.store().identities(id).await?)
    }

    /// Links an address to an entity. A link that is not verified leaves the sender unknown.
    ///
    /// Fails if there is no such entity, or another one has a verified link to the address.
    pub async fn link(
        self,
        entity: EntityId,
        address: Address,
        verified: bool,
    ) -> Result<Identity, Error> {
        address.check()?;
        let linked_at = self.engine.now();
        let identity = Identity { address, entity, verified, linked_at };
        Ok(self.engine.store().link_identity(&identity).await?)
    }

    /// Removes the link of an address to an entity.
    ///
    /// Fails if the address is not linked to it.
    pub async fn unlink(self, entity: EntityId, address: &Address) -> Result<Identity, Error> {
        Ok(self.engine.store().unlink_identity(entity, address).await?)
    }

    /// Merges an entity into another one. The session with more turns receives the messages of both
    /// (R138).
    ///
    /// Fails if one of them does not exist or was merged, or both are the same.
    pub async fn merge(self, into: EntityId, from: EntityId) -> Result<Entity, Error> {
        Ok(self.engine.store().merge_entities(into, from, self.engine.now()).await?)
    }

    /// The sessions with direct messages of an entity, those with the newest activity first (R141).
    ///
    /// Fails if there is no such entity.
    pub async fn sessions(self, id: EntityId) -> Result<Vec<Info>, Error> {
        self.get(id).await?;
        let mut sessions = Vec::new();
        for label in self.engine.store().entity_sessions(id, PAGE_MAX).await? {
            match self.engine.sessions().get(&label).await {
                Ok(info) => sessions.push(info),
                // It was deleted or renamed since the list was read.
                Err(error) if error.code() == "no_session" => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sessions)
    }
}

impl Aliases<'_> {
    /// Adds an alias of a session. If the session is given by an alias, the new alias names the
    /// session itself.
    ///
    /// Fails if there is no such session, or the alias is not valid or in use.
    pub async fn add(self, alias: &str, session: &str) -> Result<Alias, Error> {
        let now = self.engine.now();
        Ok(self.engine.store().add_alias(alias, &self.engine.target(session).await?, now).await?)
    }

    /// Removes an alias and returns it. The session stays.
    ///
    /// Fails if there is no such alias.
    pub async fn remove(self, alias: &str) -> Result<Alias, Error> {
        Ok(self.engine.store().remove_alias(alias).await?)
    }

    /// Aliases in the order of their names, after one; of one session if it is given.
    ///
    /// Fails if there is no such session.
    pub async fn list(
        self,
        session: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Alias>, Error> {
        let label = match session {
            Some(session) => Some(self.engine.sessions().get(session).await?.session.label),
            None => None,
        };
        Ok(self.engine.store().aliases(label.as_deref(), after, limit).await?)
    }
}
