//! Rows of the source of a copy, read in batches.

use std::collections::HashSet;
use std::sync::Arc;

use ctx_core::id::ObjectId;

use crate::Error;
use crate::driver::{ArgType, Db, Place, Row, Table, args};
use crate::pack::Packed;

use super::copied_tables::{Column, CopiedTable, Insert, TABLES};

/// Rows of a batch at most.
const BATCH_ROWS: usize = 200;
/// Bytes of the bodies of a batch after which it is closed.
const BATCH_BYTES: i64 = 4 << 20;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn int(&self) -> Option<i64> {
        if let Value::Int(value) = self { Some(*value) } else { None }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(value) = self { Some(value) } else { None }
    }

    pub(crate) fn id(&self) -> Result<ObjectId, Error> {
        let bytes = if let Value::Bytes(bytes) = self { bytes.as_slice() } else { &[] };
        let bytes = bytes.try_into().map_err(|_| Error::Damaged("a hash is too short".into()))?;
        Ok(ObjectId::from_bytes(bytes))
    }
}

impl Column {
    pub(crate) const fn arg_type(self) -> ArgType {
        match self {
            Column::Text | Column::Blobs | Column::Events | Column::Label => ArgType::Text,
            Column::Bytes => ArgType::Bytes,
            _ => ArgType::Int,
        }
    }
}

/// A row of the source.
pub(crate) struct SourceRow {
    pub(crate) values: Vec<Value>,
    pub(crate) body: Option<Packed>,
}

/// Rows of one table, in the order of their numbers.
pub(crate) struct Batch {
    /// Position in [`TABLES`].
    pub(crate) table: usize,
    pub(crate) rows: Vec<SourceRow>,
}

/// Number of rows of each table in [`TABLES`].
pub(crate) fn counts(db: &dyn Db) -> Result<Vec<u64>, Error> {
    let count = |table: &CopiedTable| Ok(db.int(table.count_sql, args![])?.unwrap_or(0));
    TABLES.iter().map(|table| count(table).map(i64::unsigned_abs)).collect()
}

/// Reads everything that a target needs which has the sessions `known`.
pub(crate) fn read(
    db: &dyn Db,
    known: &HashSet<String>,
    send: &mut dyn FnMut(Batch) -> Result<(), Error>,
) -> Result<(), Error> {
    let needed = Needed::read(db, known)?;
    for (number, table) in TABLES.iter().enumerate() {
        let mut batch = Vec::new();
        let mut bytes = 0;
        db.query(table.select_sql, args![], &mut |row| {
            let values = values_of(table, row)?;
            if table.insert == Insert::Object(Table::Turns) && !needed.has(table, &values) {
                return Ok(());
            }
            let place = match table.insert {
                Insert::Object(_) => row.place(table.columns.len())?,
                _ => None,
            };
            bytes += place.map_or(0, |place| place.len);
            batch.push((values, place));
            if batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                bytes = 0;
                let rows = with_bodies(db, table, std::mem::take(&mut batch))?;
                send(Batch { table: number, rows })?;
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            send(Batch { table: number, rows: with_bodies(db, table, batch)? })?;
        }
    }
    Ok(())
}

fn values_of(table: &CopiedTable, row: Row<'_>) -> Result<Vec<Value>, Error> {
    let read = |(n, (_, column)): (usize, &(&str, Column))| {
        Ok(match column.arg_type() {
            ArgType::Text => row.get::<Option<String>>(n)?.map_or(Value::Null, Value::Text),
            ArgType::Bytes => row.0.bytes(n)?.map_or(Value::Null, |it| Value::Bytes(it.to_owned())),
            _ => row.get::<Option<i64>>(n)?.map_or(Value::Null, Value::Int),
        })
    };
    table.columns.iter().enumerate().map(read).collect()
}

/// Adds the bodies of objects, as they are stored.
fn with_bodies(
    db: &dyn Db,
    table: &CopiedTable,
    rows: Vec<(Vec<Value>, Option<Place>)>,
) -> Result<Vec<SourceRow>, Error> {
    let Insert::Object(kind) = table.insert else {
        return Ok(rows.into_iter().map(|(values, _)| SourceRow { values, body: None }).collect());
    };
    let places: Vec<Place> = rows.iter().filter_map(|(_, place)| *place).collect();
    let mut buffer = Vec::new();
    let mut ranges = db.packed(&places, &mut buffer)?.into_iter();
    rows.into_iter()
        .map(|(values, place)| {
            let range = place.and_then(|place| Some((place, ranges.next()?)));
            let body = range.map(|(place, range)| {
                Ok::<_, Error>(Packed {
                    id: table.value(&values, "hash").id()?,
                    kind: kind.kind(),
                    version: 0,
                    size: usize::try_from(place.size).unwrap_or(0),
                    packing: place.packing,
                    bytes: Arc::new(buffer[range].to_vec()),
                })
            });
            Ok(SourceRow { body: body.transpose()?, values })
        })
        .collect()
}

impl CopiedTable {
    pub(crate) fn at(&self, name: &str) -> usize {
        self.columns.iter().position(|(column, _)| *column == name).unwrap_or(0)
    }

    pub(crate) fn value<'v>(&self, values: &'v [Value], name: &str) -> &'v Value {
        &values[self.at(name)]
    }
}

/// The turns that are copied: those of copied sessions, and their ancestors.
struct Needed {
    /// Sessions that the target has, by their rows here.
    known: HashSet<i64>,
    turns: HashSet<i64>,
}

impl Needed {
    fn read(db: &dyn Db, known: &HashSet<String>) -> Result<Self, Error> {
        let mut needed = Self { known: HashSet::new(), turns: HashSet::new() };
        for sql in ["SELECT row, id FROM sessions", "SELECT row, id FROM deleted_sessions"] {
            db.query(sql, args![], &mut |row| {
                if known.contains(row.get::<&str>(1)?) {
                    needed.known.insert(row.get(0)?);
                }
                Ok(())
            })?;
        }
        if needed.known.is_empty() {
            return Ok(needed);
        }
        for sql in [
            "SELECT row, head FROM sessions",
            "SELECT row, base FROM sessions",
            "SELECT session, turn FROM session_history",
        ] {
            db.query(sql, args![], &mut |row| needed.add(row.get(0)?, row.get(1)?))?;
        }
        // A turn comes after its parent.
        let ascending = "SELECT id, parent, session FROM turns ORDER BY id DESC";
        db.query(ascending, args![], &mut |row| {
            if needed.turns.contains(&row.get::<i64>(0)?) {
                needed.turns.extend(row.get::<Option<i64>>(1)?);
            }
            needed.add(row.get(2)?, row.get(1)?)
        })?;
        Ok(needed)
    }

    /// Adds a turn that a session refers to, if the session is copied.
    fn add(&mut self, session: i64, turn: Option<i64>) -> Result<(), Error> {
        if !self.known.contains(&session) {
            self.turns.extend(turn);
        }
        Ok(())
    }

    fn has(&self, table: &CopiedTable, turn: &[Value]) -> bool {
        let (session, row) = (table.value(turn, "session").int(), table.value(turn, "id").int());
        session.is_none_or(|session| !self.known.contains(&session))
            || row.is_some_and(|row| self.turns.contains(&row))
    }
}
