//! Headings of turns: short id, time, and marks for turns that failed, were cancelled, are pinned
//! or are summarized in requests.

use std::collections::{HashMap, HashSet};

use anstyle::Style;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::turn::{Kind, Status};
use ctx_engine::{Engine, StoredTurn};

use crate::problem::Problem;

use super::super::output::{CYAN, DIM, ID, RED, YELLOW};
use super::super::times::Times;

/// What the headings of a session's turns need.
pub(in crate::cli) struct TurnMarks {
    pinned: HashSet<TurnId>,
    /// Turns up to this depth are summarized in requests.
    compacted: u64,
    headings: HashMap<TurnId, String>,
    times: Times,
}

impl TurnMarks {
    pub(super) async fn read(
        engine: &Engine,
        session: &str,
        times: Times,
    ) -> Result<Self, Problem> {
        let pins = engine.contexts().pins(session).await?;
        let compacted = match engine.contexts().newest_compaction(session).await {
            Ok((_, compaction)) => match compaction.summarized_through {
                Some(turn) => engine.messages().turn(turn).await?.depth,
                None => 0,
            },
            Err(error) if error.code() == "no_compaction" => 0,
            Err(error) => return Err(error.into()),
        };
        let pinned = pins.into_iter().map(|pin| pin.turn).collect();
        Ok(Self { pinned, compacted, headings: HashMap::new(), times })
    }

    /// Marks of a turn that is shown alone.
    pub(super) fn none(times: Times) -> Self {
        Self { pinned: HashSet::new(), compacted: 0, headings: HashMap::new(), times }
    }

    /// Reads the headings of these turns.
    pub(super) async fn add(
        &mut self,
        engine: &Engine,
        turns: impl IntoIterator<Item = TurnId>,
    ) -> Result<(), Problem> {
        let mut new: Vec<TurnId> = turns.into_iter().collect();
        new.dedup();
        new.retain(|turn| !self.headings.contains_key(turn));
        let short = engine.ids().short_objects(new.iter().map(|turn| turn.0).collect()).await?;
        for (id, short) in new.into_iter().zip(short) {
            let turn = engine.messages().turn(id).await?;
            let heading = self.heading(&turn, &short);
            self.headings.insert(id, heading);
        }
        Ok(())
    }

    /// The heading of a turn that was added.
    pub(super) fn of(&self, turn: TurnId) -> &str {
        self.headings.get(&turn).map_or("", String::as_str)
    }

    fn heading(&self, turn: &StoredTurn, short: &str) -> String {
        let marks: String = self
            .marks(turn)
            .into_iter()
            .map(|(mark, style)| format!(" · {style}{mark}{style:#}"))
            .collect();
        let at = self.times.relative(turn.header.ended_at);
        format!("{DIM}turn{DIM:#} {ID}{short}{ID:#} {DIM}· {at}{DIM:#}{marks}")
    }

    fn marks(&self, turn: &StoredTurn) -> Vec<(&'static str, Style)> {
        let mut marks = Vec::new();
        match turn.header.status {
            Status::Completed => {}
            Status::Failed => marks.push(("failed", RED)),
            Status::Interrupted => marks.push(("interrupted", YELLOW)),
            Status::Cancelled => marks.push(("cancelled", YELLOW)),
        }
        if turn.header.kind == Kind::Compaction {
            marks.push(("compaction", CYAN));
        }
        if self.pinned.contains(&turn.id) {
            marks.push(("pinned", CYAN));
        } else if turn.depth <= self.compacted {
            marks.push(("compacted", DIM));
        }
        marks
    }
}
