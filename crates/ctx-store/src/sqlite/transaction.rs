//! What the decisions of one transaction share, and the statements that they are made of most often.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};

use crate::{Error, Target};

use super::hashes::{Table, Tail};
use super::rows::{self, SESSION_COLUMNS, SessionRow};
use super::segment::End;

/// What one transaction shares between the decisions in it.
pub(crate) struct Transaction<'a> {
    pub(crate) connection: &'a Connection,
    /// Where bodies are put.
    pub(crate) end: End<'a>,
    /// Blobs that the hash index has not seen yet.
    pub(crate) tail: &'a mut Tail,
    /// Words of what was stored, for the index behind the commits.
    pub(crate) words: Vec<(Table, i64, Arc<[u32]>)>,
    pub(crate) compress: bool,
    hot: [Option<CachedStatement<'a>>; Hot::COUNT],
}

/// Statements that every turn needs, found once in a transaction and not once a turn.
#[derive(Clone, Copy)]
pub(crate) enum Hot {
    SessionById,
    SessionByLabel,
    InsertTurn,
    InsertBlob,
    InsertMove,
    InsertEvents,
    UpdateSession,
}

impl Hot {
    const COUNT: usize = 7;

    fn sql(self) -> Cow<'static, str> {
        match self {
            Self::SessionById => format!("SELECT {SESSION_COLUMNS} WHERE s.id = ?1").into(),
            Self::SessionByLabel => format!("SELECT {SESSION_COLUMNS} WHERE s.label = ?1").into(),
            Self::InsertTurn => {
                "INSERT INTO turns(hash, version, parent, depth, session, header, blobs, body_version, seg, off, len, packing, size)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
                    .into()
            }
            Self::InsertBlob => {
                "INSERT INTO blobs(hash, version, seg, off, len, packing, size, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)".into()
            }
            Self::InsertMove => "INSERT INTO session_history(session, turn, changed_at) VALUES (?1, ?2, ?3)".into(),
            Self::InsertEvents => "INSERT INTO events(session, prev, seq, at, events) VALUES (?1, ?2, ?3, ?4, ?5)".into(),
            Self::UpdateSession => {
                "UPDATE sessions SET head = ?2, turn_count = ?3, task = ?4, pending_prompt = ?5, seq = ?6, last_event = ?7,
                 updated_at = ?8, last_activity_at = ?8 WHERE row = ?1"
                    .into()
            }
        }
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        end: End<'a>,
        tail: &'a mut Tail,
        compress: bool,
    ) -> Self {
        Self {
            connection,
            end,
            tail,
            words: Vec::new(),
            compress,
            hot: [const { None }; Hot::COUNT],
        }
    }

    /// One of them, ready.
    pub(crate) fn hot(&mut self, which: Hot) -> Result<&mut CachedStatement<'a>, Error> {
        let slot = &mut self.hot[which as usize];
        let statement = match slot.take() {
            Some(statement) => statement,
            None => self.connection.prepare_cached(&which.sql())?,
        };
        Ok(slot.insert(statement))
    }

    /// The session that a write is about.
    pub(crate) fn find_session(&mut self, target: &Target) -> Result<Option<SessionRow>, Error> {
        let found = match target {
            Target::Id(id) => {
                return rows::session_with(self.hot(Hot::SessionById)?, &id.to_string());
            }
            Target::Label(label) => rows::session_with(self.hot(Hot::SessionByLabel)?, label)?,
        };
        // It may be an alias.
        if found.is_some() { Ok(found) } else { rows::find_session(self.connection, target) }
    }
}
