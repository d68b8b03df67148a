//! Which session receives the messages of two entities after they were merged (R138–R140).

use crate::id::EntityId;
use crate::identity::Entity;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// The end of the label of a session that was merged into another one.
pub const MERGED: &str = "~merged";

/// A session with direct messages of one of two entities.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct OwnedSession {
    pub label: String,
    pub entity: EntityId,
    /// Whether the entity's key leads to it. Otherwise it is the session of one of its channels.
    pub has_entity_key: bool,
    pub persona: Option<String>,
    pub turn_count: u64,
    pub created_at: Timestamp,
}

/// What a merge does to sessions of one persona. Turn trees are never merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedSessions {
    /// The label of the session that receives all messages of both.
    pub primary: String,
    /// The labels that become aliases of the primary session. Their sessions keep their history
    /// under another label.
    pub others: Vec<String>,
}

/// The entity that stays after a merge. It owns the store if one of the two did.
///
/// Fails if one of them was merged before, or both are the same.
pub fn merged_entity(into: Entity, from: Entity) -> Result<Entity, Refusal> {
    if into.id == from.id {
        return Err(Refusal::SameEntity);
    }
    let (into, from) = (into.unmerged()?, from.unmerged()?);
    Ok(Entity { owner: into.owner || from.owner, ..into })
}

/// Plans the merge of two entities. The sessions that the entities' keys lead to compete; an entity
/// that has none for a persona competes with its longest channel session.
pub fn plan(sessions: &[OwnedSession]) -> Vec<MergedSessions> {
    let mut personas: Vec<&Option<String>> = Vec::new();
    for session in sessions.iter().filter(|session| session.has_entity_key) {
        if !personas.contains(&&session.persona) {
            personas.push(&session.persona);
        }
    }
    personas.into_iter().filter_map(|persona| plan_persona(sessions, persona)).collect()
}

fn plan_persona(sessions: &[OwnedSession], persona: &Option<String>) -> Option<MergedSessions> {
    let here = || sessions.iter().filter(move |session| session.persona == *persona);
    let keyed: Vec<&OwnedSession> = here().filter(|session| session.has_entity_key).collect();
    let channels = here().filter(|session| {
        !session.has_entity_key && keyed.iter().all(|other| other.entity != session.entity)
    });
    let primary = keyed.iter().copied().chain(channels).reduce(longer)?;
    let others: Vec<String> = keyed
        .iter()
        .filter(|session| session.label != primary.label)
        .map(|session| session.label.clone())
        .collect();
    (!others.is_empty()).then(|| MergedSessions { primary: primary.label.clone(), others })
}

/// The session with more turns, and of two equal ones the older.
pub fn longer<'a>(one: &'a OwnedSession, other: &'a OwnedSession) -> &'a OwnedSession {
    let rank = |session: &OwnedSession| {
        (session.turn_count, std::cmp::Reverse(session.created_at), session.label.clone())
    };
    if rank(other) > rank(one) { other } else { one }
}

/// The labels under which a merged session can keep its history, best first.
pub fn merged_labels(label: &str) -> impl Iterator<Item = String> {
    let first = format!("{label}{MERGED}");
    let more = (2_u32..).map(move |n| format!("{label}~{n}{MERGED}"));
    std::iter::once(first).chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn session(label: &str, entity: u128, keyed: bool, turns: u64) -> OwnedSession {
        OwnedSession {
            label: label.to_owned(),
            entity: EntityId(Ulid(entity)),
            has_entity_key: keyed,
            persona: None,
            turn_count: turns,
            created_at: Timestamp(entity as i64),
        }
    }

    fn merged(primary: &str, others: &[&str]) -> Vec<MergedSessions> {
        let others = others.iter().map(|&label| label.to_owned()).collect();
        vec![MergedSessions { primary: primary.to_owned(), others }]
    }

    #[test]
    fn the_session_with_more_turns_receives_the_messages_of_both() {
        // R138, R139
        let (long, short) = (session("dm:a", 1, true, 5), session("dm:b", 2, true, 4));
        assert_eq!(plan(&[long.clone(), short.clone()]), merged("dm:a", &["dm:b"]));
        assert_eq!(plan(&[short, long]), merged("dm:a", &["dm:b"]));
        let equal = [session("dm:b", 2, true, 4), session("dm:a", 1, true, 4)];
        assert_eq!(plan(&equal), merged("dm:a", &["dm:b"]), "the older one");
    }

    #[test]
    fn an_entity_without_a_session_of_its_own_competes_with_its_channels() {
        let own = session("dm:a", 1, true, 3);
        let channel = |turns| session("dm:irc:b", 2, false, turns);
        assert_eq!(plan(&[own.clone(), channel(9)]), merged("dm:irc:b", &["dm:a"]));
        assert_eq!(
            plan(&[own.clone(), channel(2)]),
            [],
            "the channel's label is not used any more"
        );
        assert_eq!(plan(&[channel(9)]), [], "the next message finds the longest session");
        let own_channel = session("dm:irc:a", 1, false, 99);
        assert_eq!(plan(&[own, own_channel]), [], "its key leads elsewhere already");
    }

    #[test]
    fn sessions_of_different_personas_are_not_merged() {
        let atlas = OwnedSession { persona: Some("atlas".to_owned()), ..session("x", 1, true, 3) };
        assert_eq!(plan(&[atlas, session("dm:b", 2, true, 4)]), []);
    }

    #[test]
    fn labels_of_merged_sessions_have_the_same_end() {
        let labels: Vec<String> = merged_labels("dm:a").take(3).collect();
        assert_eq!(labels, ["dm:a~merged", "dm:a~2~merged", "dm:a~3~merged"]);
    }
}
