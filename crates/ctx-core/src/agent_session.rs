//! Agent sessions: conversations that agents store themselves, and how far each is synchronised.
//!
//! An agent session is reused only if ctx knows which turns the agent has seen. It is stored with
//! `clean = false` before each prompt and with `clean = true` together with the resulting turn.
//! After a crash in between it is not clean.

use serde::Serialize;

use crate::id::TurnId;

/// A conversation that an agent stores itself. It belongs to exactly one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct AgentSession {
    pub provider_id: String,
    /// The machine on which the agent stores it.
    pub host: String,
    /// The working directory of the agent.
    pub working_dir: Option<String>,
    /// The id that the agent assigned.
    pub id: String,
    /// The newest turn that the agent has seen. `None` if it was created before the first turn.
    pub synced_turn: Option<TurnId>,
    /// Whether no prompt was interrupted after `synced_turn`.
    pub clean: bool,
}

/// A turn on the path from the head to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Ancestor {
    pub id: TurnId,
    /// The provider that answered in this turn.
    pub provider_id: Option<String>,
}

/// The newest turns of a session that its agent session does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedTurns {
    /// Number of turns, counted back from the head.
    pub turns: usize,
    /// Position of the interrupted turn, counted back from the head. The agent may have seen a part
    /// of it. `None` if no turn of this agent was interrupted.
    pub cut: Option<usize>,
}

impl AgentSession {
    /// Computes the turns that the agent has not seen.
    ///
    /// Returns `None` if the agent session cannot be reused: it is on another host, in another
    /// directory, or `synced_turn` is not an ancestor of the head. `ancestors` are the turns from
    /// the head backwards, as many as were read. `reaches_root` is true if they end at the root.
    pub fn unseen_turns(
        &self,
        host: &str,
        working_dir: Option<&str>,
        ancestors: &[Ancestor],
        reaches_root: bool,
    ) -> Option<MissedTurns> {
        if self.host != host || self.working_dir.as_deref() != working_dir {
            return None;
        }
        let turns = match self.synced_turn {
            Some(synced) => ancestors.iter().position(|turn| turn.id == synced)?,
            None if reaches_root => ancestors.len(),
            None => return None,
        };
        let own = |turn: &Ancestor| turn.provider_id.as_deref() == Some(self.provider_id.as_str());
        let cut = if self.clean { None } else { ancestors[..turns].iter().position(own) };
        Some(MissedTurns { turns, cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ObjectId;

    fn turn(n: u8) -> TurnId {
        TurnId(ObjectId::from_bytes([n; 32]))
    }

    fn ancestors(newest_first: &[(u8, &str)]) -> Vec<Ancestor> {
        newest_first
            .iter()
            .map(|(n, who)| Ancestor { id: turn(*n), provider_id: Some((*who).to_owned()) })
            .collect()
    }

    fn row(synced: Option<u8>, clean: bool) -> AgentSession {
        let (provider_id, host, id) = ("me".to_owned(), "here".to_owned(), "s".to_owned());
        AgentSession {
            provider_id,
            host,
            working_dir: Some("/w".to_owned()),
            id,
            synced_turn: synced.map(turn),
            clean,
        }
    }

    #[test]
    fn missed_turns_follow_from_the_ancestors() {
        let chain = ancestors(&[(4, "other"), (3, "me"), (2, "other"), (1, "me")]);
        let see = |synced, clean, whole| {
            row(synced, clean).unseen_turns("here", Some("/w"), &chain, whole)
        };
        let table = [
            ("all turns are known", see(Some(4), true, true), Some((0, None))),
            ("another provider answered later", see(Some(3), true, true), Some((1, None))),
            ("a fork or a rewind", see(Some(9), true, true), None),
            ("created before the first turn", see(None, true, true), Some((4, None))),
            ("the root was not read", see(None, true, false), None),
            (
                "its own turn was interrupted, then another provider answered",
                see(Some(2), false, true),
                Some((2, Some(1))),
            ),
            ("interrupted before a turn of its own", see(Some(3), false, true), Some((1, None))),
        ];
        for (why, found, expected) in table {
            assert_eq!(found.map(|unseen| (unseen.turns, unseen.cut)), expected, "{why}");
        }
    }

    #[test]
    fn another_host_or_directory_is_not_reusable() {
        let chain = ancestors(&[(1, "me")]);
        assert!(row(Some(1), true).unseen_turns("there", Some("/w"), &chain, true).is_none());
        assert!(row(Some(1), true).unseen_turns("here", Some("/v"), &chain, true).is_none());
        assert!(row(Some(1), true).unseen_turns("here", None, &chain, true).is_none());
    }
}
