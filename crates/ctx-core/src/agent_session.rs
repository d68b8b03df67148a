//! Agents with a history of their own: which of their conversations belongs to a session, and how far it goes.
//!
//! An agent's own conversation is used again only where ctx knows what it has seen. It is marked `clean = false` before
//! each prompt and clean again with the turn that the prompt became, so a crash in between leaves it in doubt.

use serde::Serialize;

use crate::id::TurnId;

/// An agent's own conversation, made for one session and shared with no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentSession {
    /// Whose.
    pub provider_id: String,
    /// On which machine it lies.
    pub host: String,
    /// Where the agent worked.
    pub working_dir: Option<String>,
    /// The agent's name for it.
    pub id: String,
    /// The newest turn that it has seen; none where it began with the session.
    pub synced_turn: Option<TurnId>,
    /// Whether nothing was cut off since.
    pub clean: bool,
}

/// A turn on the way from the head to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestor {
    /// Which.
    pub id: TurnId,
    /// Who answered in it.
    pub provider_id: Option<String>,
}

/// What an agent's own conversation has not seen of the turns that lead to the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unseen {
    /// So many of the newest turns.
    pub turns: usize,
    /// The place of the turn that was cut off, counted from the newest, where the agent may have seen a part of it.
    pub cut: Option<usize>,
}

impl AgentSession {
    /// How far behind it is; nothing where it does not lead to this head, or lies elsewhere.
    ///
    /// `ancestors` are the turns from the head backwards, as many as were read; `whole` says that they reach the root.
    pub fn unseen(
        &self,
        host: &str,
        working_dir: Option<&str>,
        ancestors: &[Ancestor],
        whole: bool,
    ) -> Option<Unseen> {
        if self.host != host || self.working_dir.as_deref() != working_dir {
            return None;
        }
        let turns = match self.synced_turn {
            Some(synced) => ancestors.iter().position(|turn| turn.id == synced)?,
            None if whole => ancestors.len(),
            None => return None,
        };
        let own = |turn: &Ancestor| turn.provider_id.as_deref() == Some(self.provider_id.as_str());
        let cut = if self.clean { None } else { ancestors[..turns].iter().position(own) };
        Some(Unseen { turns, cut })
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
    fn what_an_agent_has_not_seen_follows_from_the_chain() {
        let chain = ancestors(&[(4, "other"), (3, "me"), (2, "other"), (1, "me")]);
        let see =
            |synced, clean, whole| row(synced, clean).unseen("here", Some("/w"), &chain, whole);
        let table = [
            ("it has seen all", see(Some(4), true, true), Some((0, None))),
            ("others spoke since", see(Some(3), true, true), Some((1, None))),
            ("a fork or a rewind", see(Some(9), true, true), None),
            ("it began with the session", see(None, true, true), Some((4, None))),
            ("it began too long ago", see(None, true, false), None),
            (
                "its own turn was cut off, others spoke since",
                see(Some(2), false, true),
                Some((2, Some(1))),
            ),
            ("cut off before a turn of its own", see(Some(3), false, true), Some((1, None))),
        ];
        for (why, found, expected) in table {
            assert_eq!(found.map(|unseen| (unseen.turns, unseen.cut)), expected, "{why}");
        }
    }

    #[test]
    fn another_machine_or_directory_has_no_part_in_it() {
        let chain = ancestors(&[(1, "me")]);
        assert!(row(Some(1), true).unseen("there", Some("/w"), &chain, true).is_none());
        assert!(row(Some(1), true).unseen("here", Some("/v"), &chain, true).is_none());
        assert!(row(Some(1), true).unseen("here", None, &chain, true).is_none());
    }
}
