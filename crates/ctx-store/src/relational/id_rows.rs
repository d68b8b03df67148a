//! Lookup of records by the beginning of their id, and the shortest unique beginnings.
//!
//! The random half of a ULID has an index of its own (`substr(id, 11)`). Runs have none, because
//! one would be written with every turn: their random half is found by a scan.

use ctx_core::id::ObjectId;
use ctx_core::short_id::{SHORT_MIN, random_half, shortest_unique};

use crate::Error;
use crate::driver::{Db, HashQuery, Table, args, limit_arg};

/// Rows of one table with equal first digits, above which more digits are compared.
const NEIGHBOURS_MAX: usize = 64;

/// Records that a user can name by the beginning of their ULID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum UlidKind {
    Session,
    Task,
    Run,
    Entity,
    Outgoing,
    Token,
}

macro_rules! by_kind {
    ($kind:expr, $sql:ident) => {
        match $kind {
            UlidKind::Session => $sql!("sessions", "id"),
            UlidKind::Task => $sql!("tasks", "id"),
            UlidKind::Run => $sql!("runs", "run_id"),
            UlidKind::Entity => $sql!("entities", "id"),
            UlidKind::Outgoing => $sql!("outbox", "id"),
            UlidKind::Token => $sql!("tokens", "id"),
        }
    };
}

macro_rules! select_beginning {
    ($table:literal, $id:literal) => {
        concat!(
            "SELECT a.found FROM (SELECT ",
            $id,
            " AS found FROM ",
            $table,
            " WHERE ",
            $id,
            " >= ?1 AND ",
            $id,
            " < ?2 ORDER BY ",
            $id,
            " LIMIT ?3) a
             UNION SELECT b.found FROM (SELECT ",
            $id,
            " AS found FROM ",
            $table,
            " WHERE substr(",
            $id,
            ", 11) >= ?1 AND substr(",
            $id,
            ", 11) < ?2
              ORDER BY substr(",
            $id,
            ", 11) LIMIT ?3) b ORDER BY 1 LIMIT ?3"
        )
    };
}

macro_rules! select_neighbours {
    ($table:literal, $id:literal) => {
        concat!(
            "SELECT (SELECT substr(",
            $id,
            ", 11) FROM ",
            $table,
            " WHERE substr(",
            $id,
            ", 11) < ?1
                     ORDER BY substr(",
            $id,
            ", 11) DESC LIMIT 1),
                    (SELECT substr(",
            $id,
            ", 11) FROM ",
            $table,
            " WHERE substr(",
            $id,
            ", 11) > ?1
                     ORDER BY substr(",
            $id,
            ", 11) LIMIT 1),
                    (SELECT ",
            $id,
            " FROM ",
            $table,
            " WHERE ",
            $id,
            " < ?1
                     ORDER BY ",
            $id,
            " DESC LIMIT 1),
                    (SELECT ",
            $id,
            " FROM ",
            $table,
            " WHERE ",
            $id,
            " > ?1
                     ORDER BY ",
            $id,
            " LIMIT 1)"
        )
    };
}

/// The ids that begin with a text in upper case, or whose random half does, at most `limit`.
pub(crate) fn ids_beginning(
    db: &dyn Db,
    kind: UlidKind,
    beginning: &str,
    limit: usize,
) -> Result<Vec<String>, Error> {
    // `~` is after every character of a ULID.
    let end = format!("{beginning}~");
    db.rows(by_kind!(kind, select_beginning), args![beginning, &end, limit_arg(limit)], |row| {
        row.get(0)
    })
}

/// The shortest beginning of a ULID's random half that no other id of the kind has.
pub(crate) fn short_id(db: &dyn Db, kind: UlidKind, id: &str) -> Result<String, Error> {
    let half = random_half(id);
    let neighbours = db.row(by_kind!(kind, select_neighbours), args![half], |row| {
        (0..4).map(|column| row.get::<Option<String>>(column)).collect::<Result<Vec<_>, _>>()
    })?;
    let neighbours = neighbours.unwrap_or_default();
    let short = shortest_unique(half, neighbours.iter().flatten().map(String::as_str));
    let is_taken = kind == UlidKind::Session && is_name(db, &short)?;
    // A label goes before a short id.
    Ok(if is_taken { half.to_owned() } else { short })
}

fn is_name(db: &dyn Db, text: &str) -> Result<bool, Error> {
    db.is_true(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE label = ?1)
                       OR EXISTS (SELECT 1 FROM session_aliases WHERE alias = ?1)
                THEN 1 ELSE 0 END",
        args![text],
    )
}

/// The shortest beginning of a hash that no other object has.
pub(crate) fn short_hash(db: &dyn Db, id: ObjectId) -> Result<String, Error> {
    let digits = id.to_string();
    let mut length = SHORT_MIN;
    loop {
        let mut others = Vec::new();
        let mut is_crowded = false;
        for table in Table::ALL {
            let found = db.locate(table, HashQuery::Prefix(&digits[..length]), NEIGHBOURS_MAX)?;
            is_crowded |= found.len() == NEIGHBOURS_MAX;
            others.extend(found.into_iter().map(|(_, other)| other).filter(|other| *other != id));
        }
        if is_crowded && length < digits.len() {
            length += 2;
            continue;
        }
        let others: Vec<String> = others.iter().map(ObjectId::to_string).collect();
        let short = shortest_unique(&digits, others.iter().map(String::as_str));
        return Ok(if short.len() < length { digits[..length].to_owned() } else { short });
    }
}
