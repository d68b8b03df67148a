//! In which sessions a search looks, and which turns of deleted sessions it still shows.

use std::collections::{HashMap, HashSet};

use ctx_core::id::SessionId;
use ctx_core::search::{FilterKey, Query};

use crate::driver::{Db, Row, args};
use crate::{Error, Target};

use super::{from_id, session_rows, turn_rows};

/// Sessions that a shared turn is looked for in.
const SHARING_MAX: i64 = 100;
/// Shortest beginning of an id that names a session.
const SHORT_ID_MIN: usize = 4;

/// What a hit shows of a session.
pub(super) struct SessionInfo {
    pub(super) id: SessionId,
    pub(super) label: String,
    pub(super) title: Option<String>,
    pub(super) project: String,
    pub(super) head: Option<i64>,
}

impl SessionInfo {
    fn from_row(row: Row<'_>) -> Result<(i64, Self), Error> {
        let info = Self {
            id: from_id("a session's id", row.get(1)?)?,
            label: row.get(2)?,
            title: row.get(3)?,
            project: row.get(4)?,
            head: row.get(5)?,
        };
        Ok((row.get(0)?, info))
    }

    /// The sessions in rows; those that were deleted are missing.
    pub(super) fn read(db: &dyn Db, rows: &[i64]) -> Result<HashMap<i64, Self>, Error> {
        if rows.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = "SELECT row, id, label, title, project, head FROM sessions WHERE row IN LIST(?1)";
        Ok(db.rows(sql, args![rows], Self::from_row)?.into_iter().collect())
    }

    /// A session that shares a turn of a deleted one.
    pub(super) fn sharing(db: &dyn Db, turn: i64) -> Result<Option<Self>, Error> {
        let forks = db.rows(
            "SELECT row, base FROM sessions WHERE base IS NOT NULL AND base >= ?1
             ORDER BY row LIMIT ?2",
            args![turn, SHARING_MAX],
            |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)),
        )?;
        for (session, base) in forks {
            if turn_rows::is_ancestor(db, turn, Some(base))? {
                return Ok(Self::read(db, &[session])?.remove(&session));
            }
        }
        Ok(None)
    }
}

/// The sessions in which a search looks.
pub(super) struct Scope {
    /// Sessions that the query names, with the turn that each started from.
    named: Option<Vec<(i64, Option<i64>)>>,
    /// Sessions that the query excludes.
    excluded: HashSet<i64>,
    /// Sessions that the caller admits.
    admitted: Option<HashSet<i64>>,
    /// Sessions whose turns may match.
    rows: Option<Vec<i64>>,
}

impl Scope {
    /// `None` if no session is in the scope.
    pub(super) fn resolve(
        db: &dyn Db,
        query: &Query,
        admitted: Option<&[SessionId]>,
    ) -> Result<Option<Self>, Error> {
        let mut scope = Self { named: None, excluded: HashSet::new(), admitted: None, rows: None };
        if let Some(ids) = admitted {
            let ids: Vec<String> = ids.iter().map(SessionId::to_string).collect();
            let mut rows = Vec::new();
            if !ids.is_empty() {
                let sql = "SELECT row FROM sessions WHERE id IN LIST(?1)";
                rows = db.rows(sql, args![ids.as_slice()], |row| row.get::<i64>(0))?;
            }
            scope.rows = Some(rows.clone());
            scope.admitted = Some(rows.into_iter().collect());
        }
        for filter in query.filters.iter().filter(|filter| filter.key == FilterKey::Session) {
            let mut found = Vec::new();
            for value in &filter.values {
                found.extend(find(db, value)?);
            }
            if filter.negated {
                scope.excluded.extend(found.iter().map(|(row, _)| *row));
                continue;
            }
            let mut rows = Vec::new();
            for (row, base) in &found {
                rows.push(*row);
                if let Some(base) = base {
                    rows.extend(makers_of_path(db, *base)?);
                }
            }
            rows.sort_unstable();
            rows.dedup();
            if let Some(admitted) = &scope.admitted {
                rows.retain(|row| admitted.contains(row));
            }
            scope.rows = Some(rows);
            scope.named = Some(found);
        }
        let is_empty = scope.rows.as_ref().is_some_and(Vec::is_empty);
        Ok((!is_empty).then_some(scope))
    }

    /// The sessions whose turns may match; `None` for all.
    pub(super) fn rows(&self) -> Option<&[i64]> {
        self.rows.as_deref()
    }

    /// Whether a turn is in the scope: a session that is named made it or inherited it.
    pub(super) fn admits_turn(&self, db: &dyn Db, turn: i64, maker: i64) -> Result<bool, Error> {
        if self.excluded.contains(&maker)
            || self.admitted.as_ref().is_some_and(|admitted| !admitted.contains(&maker))
        {
            return Ok(false);
        }
        let Some(named) = &self.named else { return Ok(true) };
        for (session, base) in named {
            if *session == maker || turn_rows::is_ancestor(db, turn, *base)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the tasks of a session are in the scope.
    pub(super) fn admits_task(&self, session: i64) -> bool {
        let is_named =
            self.named.as_ref().is_none_or(|named| named.iter().any(|(row, _)| *row == session));
        let is_admitted = self.admitted.as_ref().is_none_or(|rows| rows.contains(&session));
        is_named && is_admitted && !self.excluded.contains(&session)
    }
}

/// The session of an id, a label, an alias or the beginning of an id, and the turn it started from.
fn find(db: &dyn Db, name: &str) -> Result<Vec<(i64, Option<i64>)>, Error> {
    const BASE: &str = "SELECT row, base FROM sessions WHERE row = ?1";
    const BEGINNING: &str = "SELECT row, base FROM sessions
         WHERE substr(id, 1, length(?1)) = ?1 OR substr(id, 11, length(?1)) = ?1";
    let target = match name.parse() {
        Ok(id) => Target::Id(id),
        Err(_) => Target::Label(name.to_owned()),
    };
    let read = |row: Row<'_>| Ok((row.get::<i64>(0)?, row.get::<Option<i64>>(1)?));
    if let Some(found) = session_rows::find(db, &target)? {
        return db.rows(BASE, args![found.row], read);
    }
    let name = name.to_uppercase();
    if name.len() < SHORT_ID_MIN || !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Ok(Vec::new());
    }
    db.rows(BEGINNING, args![name.as_str()], read)
}

/// The sessions that made a turn and its ancestors.
fn makers_of_path(db: &dyn Db, turn: i64) -> Result<Vec<i64>, Error> {
    db.rows(
        "WITH RECURSIVE up(parent, session) AS (
           SELECT parent, session FROM turns WHERE id = ?1
           UNION ALL SELECT t.parent, t.session FROM turns t JOIN up ON t.id = up.parent)
         SELECT DISTINCT session FROM up",
        args![turn],
        |row| row.get(0),
    )
}

/// Which turns of deleted sessions are still shown: those that another session shares. Their rows
/// stay until the purge that follows the deletion.
pub(super) struct KeptTurns {
    /// Turns that are or were the head of a session; `None` if nothing is left to purge.
    heads: Option<HashSet<i64>>,
    /// Turns that no session needs.
    unneeded: HashSet<i64>,
}

impl KeptTurns {
    pub(super) fn read(db: &dyn Db) -> Result<Self, Error> {
        let mut heads = None;
        if db.is_true("SELECT EXISTS (SELECT 1 FROM purging)", args![])? {
            let found = db.rows(
                "SELECT turn FROM session_history WHERE turn IS NOT NULL
                 UNION SELECT head FROM sessions WHERE head IS NOT NULL",
                args![],
                |row| row.get::<i64>(0),
            )?;
            heads = Some(found.into_iter().collect());
        }
        Ok(Self { heads, unneeded: HashSet::new() })
    }

    /// Whether a turn leads to a head.
    pub(super) fn is_kept(&mut self, db: &dyn Db, turn: i64) -> Result<bool, Error> {
        let Some(heads) = &self.heads else { return Ok(true) };
        if self.unneeded.contains(&turn) {
            return Ok(false);
        }
        let below = db.rows(
            "WITH RECURSIVE down(id) AS (
               SELECT id FROM turns WHERE id = ?1
               UNION ALL SELECT t.id FROM turns t JOIN down ON t.parent = down.id)
             SELECT id FROM down",
            args![turn],
            |row| row.get::<i64>(0),
        )?;
        let is_kept = below.iter().any(|turn| heads.contains(turn));
        if !is_kept {
            self.unneeded.extend(below);
        }
        Ok(is_kept)
    }
}
