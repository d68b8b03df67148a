//! Two branches beside each other: where they part, and what each said and changed after it.

use ctx_store::TurnQuery;
use std::collections::BTreeMap;

use ctx_core::ancestry::file_written_by;
use ctx_core::id::TurnId;
use ctx_core::message::Part;
use ctx_core::session::Session;
use ctx_core::time::Timestamp;
use ctx_store::StoredTurn;

use crate::engine::{Engine, Error};
use crate::sessions::Sessions;

/// The most files that are named on a side.
const FILES_MAX: usize = 1000;

/// What is known to have written a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A task observed it.
    Task,
    /// A tool was called that says so.
    ToolCall,
}

/// One of two branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Its session.
    pub session: Session,
    /// How many turns it has of its own.
    pub own: u64,
    /// Some of them, oldest first.
    pub turns: Vec<StoredTurn>,
    /// The files that its tasks wrote since the branches parted, and that tools were called to write in these turns.
    pub files: BTreeMap<String, Writer>,
}

/// Two branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The last turn that both have; nothing where they have none in common.
    pub ancestor: Option<StoredTurn>,
    /// The first, and the second.
    pub sides: [Side; 2],
    /// From which depth the next page begins.
    pub next: Option<u64>,
}

impl Sessions<'_> {
    /// Compares two sessions: of each, at most `limit` turns after the last that they share, from a depth on.
    ///
    /// # Errors
    /// If there is no such session, or a turn is damaged.
    pub async fn diff(
        self,
        a: &str,
        b: &str,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Diff, Error> {
        let (a, b) = (
            self.engine.sessions().get(a).await?.session,
            self.engine.sessions().get(b).await?.session,
        );
        let ancestor = match (a.head, b.head) {
            (Some(a), Some(b)) => self.engine.store().common_ancestor(a, b).await?,
            _ => None,
        };
        let ancestor = match ancestor {
            Some(turn) => Some(self.engine.messages().turn(turn).await?),
            None => None,
        };
        let shared = ancestor.as_ref().map_or(0, |turn| turn.depth);
        let after = ancestor.as_ref().map_or(Timestamp(i64::MIN), |turn| turn.header.ended_at);
        let first = from.unwrap_or(0).max(shared + 1);
        let last = first.saturating_add((limit as u64).saturating_sub(1));
        let longest = a.turn_count.max(b.turn_count);
        let sides = [
            self.engine.side(a, shared, after, (first, last)).await?,
            self.engine.side(b, shared, after, (first, last)).await?,
        ];
        Ok(Diff { ancestor, sides, next: (last < longest).then(|| last + 1) })
    }

    /// The last turn that two turns both descend from, or are.
    ///
    /// # Errors
    /// If there is no such turn.
    pub async fn common_ancestor(self, a: TurnId, b: TurnId) -> Result<Option<TurnId>, Error> {
        Ok(self.engine.store().common_ancestor(a, b).await?)
    }
}

impl Engine {
    async fn side(
        &self,
        session: Session,
        shared: u64,
        after: Timestamp,
        (first, last): (u64, u64),
    ) -> Result<Side, Error> {
        let last = last.min(session.turn_count);
        let mut turns = match session.head {
            Some(head) if first <= last => {
                self.store()
                    .turns(TurnQuery::from_depth(head, last, (last + 1 - first) as usize))
                    .await?
            }
            _ => Vec::new(),
        };
        turns.reverse();
        let called = turns.iter().flat_map(written_in).map(|path| (path, Writer::ToolCall));
        let mut files: BTreeMap<String, Writer> = called.take(FILES_MAX).collect();
        let observed = self.store().files_written(session.id, after, FILES_MAX).await?;
        files.extend(observed.into_iter().map(|path| (path, Writer::Task)));
        Ok(Side { own: session.turn_count.saturating_sub(shared), session, turns, files })
    }
}

/// The files that tools were called to write in a turn.
fn written_in(turn: &StoredTurn) -> Vec<String> {
    let messages = turn.messages().ok().flatten().unwrap_or_default();
    let parts = messages.into_iter().flat_map(|message| message.content);
    let file = |part: Part| match part {
        Part::ToolCall { name, params, .. } => file_written_by(&name, &params).map(str::to_owned),
        _ => None,
    };
    parts.filter_map(file).collect()
}
