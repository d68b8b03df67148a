//! Rows of `entities`, `identities` and `session_aliases`, and the way from the sender of a message
//! to its session.

use ctx_core::alias::{Alias, Reason};
use ctx_core::decide::Event;
use ctx_core::id::EntityId;
use ctx_core::identity::merge::{OwnedSession, merged_entity, merged_labels, plan};
use ctx_core::identity::{Address, Entity, Envelope, Identity, Principal};
use ctx_core::refusal::Refusal;
use ctx_core::routing::{Found, Inbound, Routed};
use ctx_core::time::Timestamp;

use crate::driver::{Db, Row, Tx, args, limit_arg};
use crate::{Error, PAGE_MAX, Target};

use super::session_rows::{self, SessionRow};
use super::{event_rows, from_id, from_name, to_name};

macro_rules! select_entity {
    ($condition:literal) => {
        concat!(
            "SELECT id, kind, name, relationship, owner, merged_into, created_at FROM entities ",
            $condition
        )
    };
}

fn entity_row(row: Row<'_>) -> Result<Entity, Error> {
    let into = row.get::<Option<&str>>(5)?;
    Ok(Entity {
        id: from_id("an entity's id", row.get(0)?)?,
        kind: from_name("an entity's kind", row.get(1)?)?,
        name: row.get(2)?,
        relationship: row.get(3)?,
        owner: row.get(4)?,
        merged_into: into.map(|into| from_id("a merged entity", into)).transpose()?,
        created_at: row.get(6)?,
    })
}

fn identity_row(row: Row<'_>) -> Result<Identity, Error> {
    Ok(Identity {
        address: Address { channel: row.get(0)?, account_id: row.get(1)?, sender_id: row.get(2)? },
        entity: from_id("an identity's entity", row.get(3)?)?,
        verified: row.get(4)?,
        linked_at: row.get(5)?,
    })
}

fn alias_row(row: Row<'_>) -> Result<Alias, Error> {
    Ok(Alias {
        alias: row.get(0)?,
        session_label: row.get(1)?,
        reason: from_name("an alias's reason", row.get(2)?)?,
        created_at: row.get(3)?,
    })
}

// ---- entities ----

pub(crate) fn entity(db: &dyn Db, id: EntityId) -> Result<Option<Entity>, Error> {
    db.row(select_entity!("WHERE id = ?1"), args![&id.to_string()], entity_row)
}

fn stored(db: &dyn Db, id: EntityId) -> Result<Entity, Error> {
    Ok(entity(db, id)?.ok_or(Refusal::NoEntity)?)
}

/// An entity that exists and was not merged.
fn present(db: &dyn Db, id: EntityId) -> Result<Entity, Error> {
    Ok(stored(db, id)?.unmerged()?)
}

/// The first two entities with a name that were not merged.
pub(crate) fn entities_named(db: &dyn Db, name: &str) -> Result<Vec<Entity>, Error> {
    db.rows(
        select_entity!("WHERE merged_into IS NULL AND name = ?1 ORDER BY id LIMIT 2"),
        args![name],
        entity_row,
    )
}

/// Entities after one, oldest first, without those that were merged.
pub(crate) fn entities(
    db: &dyn Db,
    after: Option<EntityId>,
    limit: usize,
) -> Result<Vec<Entity>, Error> {
    db.rows(
        select_entity!("WHERE merged_into IS NULL AND id > ?1 ORDER BY id LIMIT ?2"),
        args![
            &after.map(|id| id.to_string()).unwrap_or_default(),
            limit_arg(limit.min(PAGE_MAX + 1))
        ],
        entity_row,
    )
}

/// Inserts an entity, or updates what can change of it.
pub(crate) fn put_entity(tx: &mut dyn Tx, entity: &Entity) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO entities(id, kind, name, relationship, owner, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT(id) DO UPDATE SET kind = ?2, name = ?3, relationship = ?4, owner = ?5",
        args![
            &entity.id.to_string(),
            &to_name(&entity.kind)?,
            &entity.name,
            entity.relationship.as_ref(),
            entity.owner,
            entity.created_at,
        ],
    )?;
    Ok(())
}

// ---- identities ----

fn identity(db: &dyn Db, key: &str) -> Result<Option<Identity>, Error> {
    db.row(
        "SELECT channel, account_id, sender_id, entity, verified, linked_at FROM identities
         WHERE key = ?1",
        args![key],
        identity_row,
    )
}

/// The identities of an entity, oldest first.
pub(crate) fn identities(db: &dyn Db, entity: EntityId) -> Result<Vec<Identity>, Error> {
    db.rows(
        "SELECT channel, account_id, sender_id, entity, verified, linked_at FROM identities
         WHERE entity = ?1 ORDER BY linked_at, key LIMIT ?2",
        args![&entity.to_string(), limit_arg(PAGE_MAX)],
        identity_row,
    )
}

/// Links an address to an entity. Linking it again changes only whether it is verified.
///
/// # Errors
/// If the entity does not exist, or another entity has a verified link to the address.
pub(crate) fn link(tx: &mut dyn Tx, new: &Identity) -> Result<Identity, Error> {
    let (db, key): (&dyn Db, _) = (tx, new.address.key());
    present(db, new.entity)?;
    let count = db
        .int("SELECT COUNT(*) FROM identities WHERE entity = ?1", args![&new.entity.to_string()])?;
    let count = usize::try_from(count.unwrap_or(0)).unwrap_or(usize::MAX);
    new.check_link(identity(db, &key)?.as_ref(), count)?;
    tx.execute(
        "INSERT INTO identities(key, channel, account_id, sender_id, entity, verified, linked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT(key) DO UPDATE SET entity = ?5, verified = ?6, linked_at = ?7",
        args![
            &key,
            &new.address.channel,
            new.address.account_id.as_ref(),
            &new.address.sender_id,
            &new.entity.to_string(),
            new.verified,
            new.linked_at,
        ],
    )?;
    Ok(new.clone())
}

/// Removes the link of an address to an entity.
///
/// # Errors
/// If the address is not linked to the entity.
pub(crate) fn unlink(
    tx: &mut dyn Tx,
    entity: EntityId,
    address: &Address,
) -> Result<Identity, Error> {
    let key = address.key();
    let found = identity(tx, &key)?.filter(|found| found.entity == entity);
    let found = found.ok_or(Refusal::NoIdentity)?;
    tx.execute("DELETE FROM identities WHERE key = ?1", args![&key])?;
    Ok(found)
}

/// The sender of a message, and whether its identity is verified. A sender whose identity is only
/// claimed is unknown.
pub(crate) fn principal(db: &dyn Db, envelope: &Envelope) -> Result<(Principal, bool), Error> {
    let known = identity(db, &envelope.address().key())?.filter(|identity| identity.verified);
    Ok(match known.map(|identity| present(db, identity.entity)).transpose()? {
        Some(entity) => (Principal::of(&entity), true),
        None => (Principal::unknown(envelope.sender_name.clone()), false),
    })
}

// ---- the session of a message ----

/// Finds the sender, the policy and the session of a message (R118, R130, R136).
///
/// # Errors
/// If the policies deny the message.
pub(crate) fn route(
    db: &dyn Db,
    inbound: &Inbound,
    now: Timestamp,
) -> Result<(Routed, Option<SessionRow>), Error> {
    let envelope = &inbound.envelope;
    let (sender, verified) = principal(db, envelope)?;
    let access = inbound
        .policies
        .evaluate(&sender, envelope, &inbound.text, verified, now)
        .map_err(|denial| Refusal::AccessDenied { denial })?;
    let peer_kind = envelope.peer_kind;
    let mut routed = Routed { principal: sender, access, peer_kind, found: Found::Nothing };
    let label = &routed.access.label;
    if let Some(session) = session_rows::find(db, &Target::Label(label.clone()))? {
        routed.found = if session.session.label == *label { Found::Label } else { Found::Alias };
        return Ok((routed, Some(session)));
    }
    let Some(entity) = routed.entity() else { return Ok((routed, None)) };
    let persona = routed.access.persona.as_ref();
    let longest: Option<String> = db.row(
        "SELECT s.label FROM sessions s
         WHERE (s.entity = ?1 OR s.routing_key IN
                  (SELECT key FROM identities WHERE entity = ?1 AND verified <> 0))
           AND s.merged_into IS NULL AND COALESCE(s.persona, '') = COALESCE(?2, '')
         ORDER BY s.turn_count DESC, s.created_at, s.label LIMIT 1",
        args![&entity.to_string(), persona],
        |row| row.get(0),
    )?;
    let Some(longest) = longest else { return Ok((routed, None)) };
    routed.found = Found::Promotion;
    Ok((routed, session_rows::find(db, &Target::Label(longest))?))
}

/// Stores that a session receives the messages of an entity.
pub(crate) fn set_entity(tx: &mut dyn Tx, session: i64, entity: EntityId) -> Result<(), Error> {
    tx.execute(
        "UPDATE sessions SET entity = ?2 WHERE row = ?1",
        args![session, &entity.to_string()],
    )?;
    Ok(())
}

/// The labels of all sessions with direct messages of an entity, those with the newest activity
/// first.
pub(crate) fn session_labels(
    db: &dyn Db,
    entity: EntityId,
    limit: usize,
) -> Result<Vec<String>, Error> {
    db.rows(
        "SELECT s.label FROM sessions s WHERE s.row IN (
           SELECT row FROM sessions WHERE entity = ?1
           UNION SELECT t.row FROM identities i JOIN sessions t ON t.routing_key = i.key
           WHERE i.entity = ?1)
         ORDER BY s.last_activity_at DESC, s.label LIMIT ?2",
        args![&entity.to_string(), limit_arg(limit.min(PAGE_MAX))],
        |row| row.get(0),
    )
}

// ---- aliases ----

/// Aliases after one, in the order of their names, of one session if it is given.
pub(crate) fn aliases(
    db: &dyn Db,
    session_label: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Alias>, Error> {
    db.rows(
        "SELECT alias, session_label, reason, created_at FROM session_aliases
         WHERE (?1 IS NULL OR session_label = ?1) AND alias > ?2 ORDER BY alias LIMIT ?3",
        args![session_label, after.unwrap_or_default(), limit_arg(limit.min(PAGE_MAX + 1))],
        alias_row,
    )
}

/// Adds an alias of a session. The session may be given by a label or an alias.
///
/// # Errors
/// If there is no such session, the alias is not a valid label, or it is in use.
pub(crate) fn add_alias(
    tx: &mut dyn Tx,
    alias: &str,
    session: &Target,
    now: Timestamp,
) -> Result<Alias, Error> {
    let db: &dyn Db = tx;
    let found = session_rows::find(db, session)?.ok_or(Refusal::NoSession)?;
    let is_taken = session_rows::is_label_taken(db, alias)?;
    let new = Alias::manual(alias, &found.session.label, is_taken, now)?;
    insert_alias(tx, &new)?;
    Ok(new)
}

/// Inserts an alias, or lets it name another session.
pub(crate) fn insert_alias(tx: &mut dyn Tx, alias: &Alias) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO session_aliases(alias, session_label, created_at, reason)
         VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT(alias) DO UPDATE SET session_label = ?2, created_at = ?3, reason = ?4",
        args![&alias.alias, &alias.session_label, alias.created_at, &to_name(&alias.reason)?],
    )?;
    Ok(())
}

/// Removes an alias.
///
/// # Errors
/// If there is no such alias.
pub(crate) fn remove_alias(tx: &mut dyn Tx, alias: &str) -> Result<Alias, Error> {
    let db: &dyn Db = tx;
    let found = db.row(
        "SELECT alias, session_label, reason, created_at FROM session_aliases WHERE alias = ?1",
        args![alias],
        alias_row,
    )?;
    let found = found.ok_or(Refusal::NoAlias)?;
    tx.execute("DELETE FROM session_aliases WHERE alias = ?1", args![alias])?;
    Ok(found)
}

// ---- merging ----

/// Merges an entity into another one: its identities and sessions belong to the other one, and one
/// session receives the messages of both (R138–R140).
///
/// # Errors
/// If one of them does not exist or was merged already, or both are the same.
pub(crate) fn merge(
    tx: &mut dyn Tx,
    into: EntityId,
    from: EntityId,
    now: Timestamp,
) -> Result<Entity, Error> {
    let db: &dyn Db = tx;
    let kept = merged_entity(stored(db, into)?, stored(db, from)?)?;
    let mut sessions = owned_sessions(db, into)?;
    sessions.extend(owned_sessions(db, from)?);
    let plans = plan(&sessions);
    let mut renames = Vec::new();
    for merged in &plans {
        for label in &merged.others {
            for new_label in merged_labels(label) {
                if !session_rows::is_label_taken(db, &new_label)? {
                    renames.push((label, new_label, &merged.primary));
                    break;
                }
            }
        }
    }
    let (into_id, from_id) = (into.to_string(), from.to_string());
    tx.execute("UPDATE identities SET entity = ?1 WHERE entity = ?2", args![&into_id, &from_id])?;
    tx.execute("UPDATE sessions SET entity = ?1 WHERE entity = ?2", args![&into_id, &from_id])?;
    tx.execute("UPDATE entities SET merged_into = ?1 WHERE id = ?2", args![&into_id, &from_id])?;
    tx.execute("UPDATE entities SET owner = ?2 WHERE id = ?1", args![&into_id, kept.owner])?;
    for merged in &plans {
        tx.execute(
            "UPDATE sessions SET entity = ?2 WHERE label = ?1",
            args![&merged.primary, &into_id],
        )?;
    }
    for (label, new_label, primary) in renames {
        rename(tx, label, &new_label, primary, now)?;
    }
    Ok(kept)
}

/// The sessions that compete for the messages of an entity.
fn owned_sessions(db: &dyn Db, entity: EntityId) -> Result<Vec<OwnedSession>, Error> {
    db.rows(
        "SELECT s.label, s.entity IS NOT NULL, s.persona, s.turn_count, s.created_at
         FROM sessions s
         WHERE (s.entity = ?1 OR (s.entity IS NULL AND s.routing_key IN
                  (SELECT key FROM identities WHERE entity = ?1 AND verified <> 0)))
           AND s.merged_into IS NULL
         ORDER BY s.turn_count DESC, s.created_at, s.label LIMIT ?2",
        args![&entity.to_string(), limit_arg(PAGE_MAX)],
        |row| {
            Ok(OwnedSession {
                label: row.get(0)?,
                entity,
                has_entity_key: row.get(1)?,
                persona: row.get(2)?,
                turn_count: row.get(3)?,
                created_at: row.get(4)?,
            })
        },
    )
}

/// Gives a session another label. Its old label becomes an alias of it, so that every reference to
/// it still works.
///
/// # Errors
/// If there is no such session, or the label is not valid or in use.
pub(crate) fn relabel(
    tx: &mut dyn Tx,
    session: &Target,
    new_label: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let db: &dyn Db = tx;
    let found = session_rows::find(db, session)?.ok_or(Refusal::NoSession)?;
    let label = found.session.label.clone();
    if label == new_label {
        return Ok(());
    }
    let named = session_rows::find(db, &Target::Label(new_label.to_owned()))?;
    // An alias of the session itself may become its label.
    let is_taken = named.is_some_and(|other| other.session.id != found.session.id);
    let old = Alias::manual(new_label, &label, is_taken, now)?;
    tx.execute("DELETE FROM session_aliases WHERE alias = ?1", args![new_label])?;
    rename(tx, &label, new_label, new_label, now)?;
    tx.execute(
        "UPDATE sessions SET merged_into = ?2 WHERE row = ?1",
        args![found.row, found.session.routing.merged_into.as_ref()],
    )?;
    insert_alias(tx, &Alias { alias: label, session_label: new_label.to_owned(), ..old })
}

/// Gives a session another label. Its old label and its aliases name the primary session; its
/// workers still report to it.
fn rename(
    tx: &mut dyn Tx,
    label: &str,
    new_label: &str,
    primary: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let db: &dyn Db = tx;
    let found = session_rows::find(db, &Target::Label(label.to_owned()))?;
    let found = found.ok_or_else(|| Error::Damaged(format!("session {label} is missing")))?;
    let seq = found.session.seq + 1;
    let event = event_rows::insert(
        tx,
        found.row,
        found.last_event,
        seq,
        now,
        &[Event::SessionUpdated],
        None,
    )?;
    tx.execute(
        "UPDATE sessions SET label = ?2, merged_into = ?3, seq = ?4, last_event = ?5,
             updated_at = ?6 WHERE row = ?1",
        args![found.row, new_label, primary, seq, event, now],
    )?;
    tx.execute(
        "UPDATE sessions SET parent_session_label = ?2 WHERE parent_session_label = ?1",
        args![label, new_label],
    )?;
    tx.execute(
        "UPDATE sessions SET merged_into = ?2 WHERE merged_into = ?1",
        args![label, primary],
    )?;
    tx.execute(
        "UPDATE session_aliases SET session_label = ?2 WHERE session_label = ?1",
        args![label, primary],
    )?;
    let alias = Alias {
        alias: label.to_owned(),
        session_label: primary.to_owned(),
        reason: Reason::IdentityMerge,
        created_at: now,
    };
    insert_alias(tx, &alias)
}
