//! Which turns a search shows.
//!
//! A turn of a deleted session is hidden at once, although its row stays until the purge; a turn
//! that another session shares stays visible. Of equal turns that several sessions stored, the
//! newest row is shown: a page cannot know which hits an earlier page had.

use std::collections::HashSet;

use ctx_core::id::ObjectId;
use rusqlite::Connection;

use crate::Error;
use crate::driver::Table;

use super::hash_index::NewerRows;

pub(crate) struct ShownTurns<'c> {
    main: &'c Connection,
    newer: NewerRows<'c>,
    /// Read when the first turn of a deleted session is found.
    unpurged: Option<Unpurged>,
}

/// The state between a deletion and the end of the purge that follows it.
#[derive(Default)]
struct Unpurged {
    /// Turns that are or were the head of a session. Empty if nothing is left to purge.
    heads: HashSet<i64>,
    /// Turns that no session needs.
    unneeded: HashSet<i64>,
    is_purged: bool,
}

impl<'c> ShownTurns<'c> {
    pub(crate) fn new(main: &'c Connection, search_db: &'c Connection) -> Self {
        Self { main, newer: NewerRows::new(main, search_db, Table::Turns), unpurged: None }
    }

    pub(crate) fn is_shown(&mut self, row: i64, id: ObjectId) -> Result<bool, Error> {
        if !self.is_kept(row)? {
            return Ok(false);
        }
        for newer in self.newer.find(row, id)? {
            if self.is_kept(newer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a session has the turn: the one that made it, or one that shares it.
    fn is_kept(&mut self, row: i64) -> Result<bool, Error> {
        let has_session: bool = self
            .main
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM turns t JOIN sessions s ON s.row = t.session
                                WHERE t.id = ?1)",
            )?
            .query_row([row], |found| found.get(0))?;
        if has_session {
            return Ok(true);
        }
        let unpurged = match self.unpurged.take() {
            Some(unpurged) => unpurged,
            None => Unpurged::read(self.main)?,
        };
        self.unpurged.insert(unpurged).is_needed(self.main, row)
    }
}

impl Unpurged {
    fn read(main: &Connection) -> Result<Self, Error> {
        let is_purged: bool =
            main.query_row("SELECT NOT EXISTS (SELECT 1 FROM purging)", [], |row| row.get(0))?;
        if is_purged {
            return Ok(Self { is_purged, ..Self::default() });
        }
        let mut statement = main.prepare_cached(
            "SELECT turn FROM session_history WHERE turn IS NOT NULL
             UNION SELECT head FROM sessions WHERE head IS NOT NULL",
        )?;
        let heads = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Self { heads, ..Self::default() })
    }

    /// Whether the turn is a head or an ancestor of one. What a purge leaves is needed.
    fn is_needed(&mut self, main: &Connection, turn: i64) -> Result<bool, Error> {
        if self.is_purged {
            return Ok(true);
        }
        let mut children = main.prepare_cached("SELECT id FROM turns WHERE parent = ?1")?;
        let (mut visited, mut next) = (Vec::new(), vec![turn]);
        while let Some(turn) = next.pop() {
            if self.heads.contains(&turn) {
                return Ok(true);
            }
            if !self.unneeded.contains(&turn) {
                visited.push(turn);
                for child in children.query_map([turn], |row| row.get(0))? {
                    next.push(child?);
                }
            }
        }
        self.unneeded.extend(visited);
        Ok(false)
    }
}
