//! How far back a request reaches: to the first turn that the newest compaction keeps. The store
//! walks from the head with this and the engine takes over the result, so that both always mean the
//! same compaction.

use super::{By, Compaction};
use crate::id::TurnId;
use crate::turn::Kind;

/// Whether a turn's summary stands for the turns before it. A compaction that an agent made of its
/// own window concerns that agent alone.
pub fn replaces_history(kind: Kind, compaction: Option<&Compaction>) -> bool {
    let by_agent = compaction.is_some_and(|compaction| compaction.metadata.by == By::Agent);
    kind == Kind::Compaction && !by_agent
}

/// The walk from a head back to the oldest turn that is sent.
#[derive(Debug, Default)]
pub struct Boundary {
    visited: usize,
    compaction: Option<usize>,
    first_kept: Option<TurnId>,
}

impl Boundary {
    /// Takes the next turn of the walk, the head first. Returns whether its parent belongs to the
    /// walk too.
    pub fn visit(&mut self, turn: TurnId, kind: Kind, compaction: Option<&Compaction>) -> bool {
        let at = self.visited;
        self.visited += 1;
        if self.compaction.is_none() && replaces_history(kind, compaction) {
            self.compaction = Some(at);
            self.first_kept = compaction.and_then(|compaction| compaction.first_kept);
        }
        // Without a kept turn, nothing before the compaction is sent.
        self.compaction.is_none() || self.first_kept.is_some_and(|first| first != turn)
    }

    /// The place of the newest compaction among the visited turns, counted from the head.
    pub const fn compaction(&self) -> Option<usize> {
        self.compaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::{Metadata, Trigger, Type};
    use crate::id::ObjectId;

    fn turn(n: u8) -> TurnId {
        TurnId(ObjectId::from_bytes([n; 32]))
    }

    fn compaction(by: By, first_kept: Option<u8>) -> Compaction {
        Compaction {
            summary: "so far".to_owned(),
            summarized_through: None,
            first_kept: first_kept.map(turn),
            turns_summarized: 1,
            kind: Type::Summary,
            model: None,
            provider: None,
            tokens_before: 2,
            tokens_after: 1,
            summary_tokens: 1,
            summarization_input_tokens: None,
            summarization_output_tokens: None,
            duration_ms: 0,
            trigger: Trigger::Manual,
            metadata: Metadata { by, ..Metadata::default() },
        }
    }

    /// Walks a history of turns `newest, newest - 1, … 1`; returns the oldest visited turn and the
    /// compaction.
    fn walk(newest: u8, compactions: &[(u8, By, Option<u8>)]) -> (u8, Option<usize>) {
        let mut boundary = Boundary::default();
        for n in (1..=newest).rev() {
            let row = compactions
                .iter()
                .find(|(at, ..)| *at == n)
                .map(|(_, by, kept)| compaction(*by, *kept));
            let kind = if row.is_some() { Kind::Compaction } else { Kind::Normal };
            if !boundary.visit(turn(n), kind, row.as_ref()) {
                return (n, boundary.compaction());
            }
        }
        (1, boundary.compaction())
    }

    #[test]
    fn a_request_reaches_back_to_the_first_turn_that_the_newest_compaction_keeps() {
        use By::{Agent, Ctx};
        for (compactions, expected) in [
            (vec![], (1, None)),
            (vec![(8, Ctx, Some(5))], (5, Some(2))),
            (vec![(8, Ctx, None)], (8, Some(2))),
            (vec![(8, Ctx, Some(6)), (4, Ctx, Some(2))], (6, Some(2))),
            (vec![(8, Ctx, Some(3)), (4, Ctx, None)], (3, Some(2))),
            (vec![(8, Agent, None)], (1, None)),
            (vec![(9, Agent, None), (8, Ctx, Some(7))], (7, Some(2))),
        ] {
            assert_eq!(walk(10, &compactions), expected, "{compactions:?}");
        }
    }
}
