//! Compares two branches: the last common turn, and the turns and written files of each side after
//! it.

use std::collections::BTreeMap;

use ctx_core::ancestry::file_written_by;
use ctx_core::id::TurnId;
use ctx_core::message::Part;
use ctx_core::session::Session;
use ctx_core::time::Timestamp;
use ctx_store::{StoredTurn, TurnQuery};

use crate::engine::{Engine, Error};
use crate::sessions::Sessions;

/// Most files that are listed per side.
const FILES_MAX: usize = 1000;

/// The evidence that a file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A task recorded the write.
    Task,
    /// A tool call with the file as its argument.
    ToolCall,
}

/// One of two branches.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Side {
    pub session: Session,
    /// Number of turns after the common ancestor.
    pub own: u64,
    /// A page of those turns, oldest first.
    pub turns: Vec<StoredTurn>,
    /// Files that the side's tasks wrote after the branches diverged, and files that tool calls in
    /// `turns` wrote.
    pub files: BTreeMap<String, Writer>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Diff {
    /// The last common turn; none where the sessions share no turn.
    pub ancestor: Option<StoredTurn>,
    pub sides: [Side; 2],
    /// The depth at which the next page starts.
    pub next: Option<u64>,
}

impl Sessions<'_> {
    /// Compares two sessions: for each, at most `limit` turns after the common ancestor, from the
    /// depth `from` on.
    ///
    /// Fails if a session does not exist, or a turn is damaged.
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

    /// The last common ancestor of two turns; a turn is its own ancestor.
    ///
    /// Fails if a turn does not exist.
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

/// Files that tool calls of a turn wrote.
fn written_in(turn: &StoredTurn) -> Vec<String> {
    let messages = turn.messages().ok().flatten().unwrap_or_default();
    let parts = messages.into_iter().flat_map(|message| message.content);
    let file = |part: Part| match part {
        Part::ToolCall { name, params, .. } => file_written_by(&name, &params).map(str::to_owned),
        _ => None,
    };
    parts.filter_map(file).collect()
}
