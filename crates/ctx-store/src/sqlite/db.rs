//! Executes the shared SQL on a SQLite connection.
//!
//! Prepared statements are kept for the length of a transaction under the address of their text, so
//! that a group of writes looks each one up once.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use ctx_core::id::ObjectId;
use ctx_core::time::Timestamp;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, Connection};

use crate::Error;
use crate::driver::{Arg, ArgType, Cells, Db, HashQuery, Place, Row, Table, Tx};
use crate::pack::Packed;

use super::hash_index::{self, WriterHashIndex};
use super::segment::{self, BodySink};

/// How a connection finds the row of a hash.
pub(super) enum HashIndex<'c> {
    /// A reader's connection to `search.db`; `None` if it is not open.
    Reader(Option<&'c Connection>),
    /// A writer's index, which includes the blobs of its own transaction.
    Writer(RefCell<&'c mut WriterHashIndex>),
}

/// Read access on a connection.
pub(super) struct SqliteDb<'c> {
    connection: &'c Connection,
    index: HashIndex<'c>,
    /// A lookup failed because `search.db` is not open.
    index_needed: Cell<bool>,
    statements: RefCell<Vec<(StatementKey, CachedStatement<'c>)>>,
}

/// Address of a statement's text, and a bit for each parameter that is a list of exactly one value.
type StatementKey = (usize, u32);

impl<'c> SqliteDb<'c> {
    pub(super) fn new(connection: &'c Connection, index: HashIndex<'c>) -> Self {
        Self { connection, index, index_needed: Cell::new(false), statements: RefCell::default() }
    }

    /// Whether the caller must open `search.db` and run again.
    pub(super) fn index_needed(&self) -> bool {
        self.index_needed.get()
    }

    /// Runs a statement with its parameters bound.
    fn with_statement<T>(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        run: impl FnOnce(&mut CachedStatement<'c>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let key = (sql.as_ptr() as usize, single_lists(args));
        let mut statement = self.take(key, sql)?;
        let mut bound = Ok(());
        for (n, arg) in args.iter().enumerate() {
            bound = bound.and_then(|()| statement.raw_bind_parameter(n + 1, arg));
        }
        let result = bound.map_err(Error::from).and_then(|()| run(&mut statement));
        self.statements.borrow_mut().push((key, statement));
        result
    }

    fn take(&self, key: StatementKey, sql: &'static str) -> Result<CachedStatement<'c>, Error> {
        let mut statements = self.statements.borrow_mut();
        if let Some(at) = statements.iter().position(|(known, _)| *known == key) {
            return Ok(statements.swap_remove(at).1);
        }
        Ok(match sql.contains("LIST(") {
            true => self.connection.prepare_cached(&with_lists(sql, key.1))?,
            false => self.connection.prepare_cached(sql)?,
        })
    }
}

fn single_lists(args: &[Arg<'_>]) -> u32 {
    let single = |arg: &Arg<'_>| matches!(arg, Arg::Ints([_]) | Arg::Texts([_]));
    args.iter().enumerate().filter(|(_, arg)| single(arg)).fold(0, |bits, (n, _)| bits | 1 << n)
}

/// Replaces `LIST(?n)`: by the parameter itself for a single value, else by the values of a JSON
/// list.
fn with_lists(sql: &str, single_lists: u32) -> String {
    let mut text = String::with_capacity(sql.len() + 32);
    let mut rest = sql;
    while let Some(at) = rest.find("LIST(") {
        let (before, list) = rest.split_at(at);
        let (parameter, after) = list["LIST(".len()..].split_once(')').unwrap_or((list, ""));
        let number: u32 = parameter.trim_start_matches('?').parse().unwrap_or(1);
        text.push_str(before);
        if single_lists & 1 << (number - 1) != 0 {
            text.push_str(&format!("({parameter})"));
        } else {
            text.push_str(&format!("(SELECT value FROM json_each({parameter}))"));
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

impl ToSql for Arg<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |values: serde_json::Result<String>| {
            let text = values.map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
            Ok(ToSqlOutput::Owned(Value::Text(text)))
        };
        let value = match self {
            Arg::Null(_) => ValueRef::Null,
            Arg::Int(value) => ValueRef::Integer(*value),
            Arg::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Arg::Text(value) => ValueRef::Text(value.as_bytes()),
            Arg::Bytes(value) => ValueRef::Blob(value),
            Arg::Ints([value]) => ValueRef::Integer(*value),
            Arg::Texts([value]) => ValueRef::Text(value.as_bytes()),
            Arg::Ints(values) => return json(serde_json::to_string(values)),
            Arg::Texts(values) => return json(serde_json::to_string(values)),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

struct SqliteRow<'r>(&'r rusqlite::Row<'r>);

impl SqliteRow<'_> {
    fn unexpected(column: usize, found: &ValueRef<'_>) -> Error {
        Error::Damaged(format!("column {column} of a row holds {}", found.data_type()))
    }
}

impl Cells for SqliteRow<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.0.get_ref(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value)),
            other => Err(Self::unexpected(column, &other)),
        }
    }

    fn text(&self, column: usize) -> Result<Option<&str>, Error> {
        match self.0.get_ref(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes)
                .map(Some)
                .map_err(|e| Error::Damaged(format!("column {column} of a row: {e}"))),
            other => Err(Self::unexpected(column, &other)),
        }
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        match self.0.get_ref(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            other => Err(Self::unexpected(column, &other)),
        }
    }
}

impl Db for SqliteDb<'_> {
    fn query(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        each: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.with_statement(sql, args, |statement| {
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                each(Row(&SqliteRow(row)))?;
            }
            Ok(())
        })
    }

    fn locate(
        &self,
        table: Table,
        hash: HashQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(i64, ObjectId)>, Error> {
        match (&self.index, hash) {
            (HashIndex::Reader(None), _) => {
                self.index_needed.set(true);
                Err(Error::Internal("the hash index is not open".to_owned()))
            }
            (HashIndex::Reader(Some(search_db)), HashQuery::Exact(id)) => {
                let row = hash_index::locate(self.connection, search_db, table, id)?;
                Ok(row.map(|row| (row, id)).into_iter().collect())
            }
            (HashIndex::Reader(Some(search_db)), HashQuery::Prefix(digits)) => {
                hash_index::locate_prefix(self.connection, search_db, table, digits, limit)
            }
            (HashIndex::Writer(index), HashQuery::Exact(id)) => {
                let row = index.borrow_mut().find(self.connection, table, id)?;
                Ok(row.map(|row| (row, id)).into_iter().collect())
            }
            (HashIndex::Writer(_), HashQuery::Prefix(_)) => {
                Err(Error::Internal("a writer looks hashes up whole".to_owned()))
            }
        }
    }

    fn packed(&self, places: &[Place], buffer: &mut Vec<u8>) -> Result<Vec<Range<usize>>, Error> {
        segment::read_packed(self.connection, places, buffer)
    }
}

/// Write access inside one transaction.
pub(super) struct SqliteTx<'c> {
    db: SqliteDb<'c>,
    sink: BodySink<'c>,
}

impl<'c> SqliteTx<'c> {
    pub(super) fn new(db: SqliteDb<'c>, sink: BodySink<'c>) -> Self {
        Self { db, sink }
    }

    pub(super) fn index_needed(&self) -> bool {
        self.db.index_needed()
    }

    /// Stores the bodies that are still buffered. The caller commits next.
    pub(super) fn flush(self) -> Result<(), Error> {
        self.sink.flush(self.db.connection)
    }
}

impl Db for SqliteTx<'_> {
    fn query(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        each: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.db.query(sql, args, each)
    }

    fn locate(
        &self,
        table: Table,
        hash: HashQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(i64, ObjectId)>, Error> {
        self.db.locate(table, hash, limit)
    }

    fn packed(&self, places: &[Place], buffer: &mut Vec<u8>) -> Result<Vec<Range<usize>>, Error> {
        self.db.packed(places, buffer)
    }
}

impl Tx for SqliteTx<'_> {
    fn insert(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<i64, Error> {
        self.execute(sql, args)?;
        Ok(self.db.connection.last_insert_rowid())
    }

    fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<(), Error> {
        self.execute_counted(sql, args).map(drop)
    }

    fn execute_counted(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, Error> {
        self.db.with_statement(sql, args, |statement| Ok(statement.raw_execute()? as u64))
    }

    fn insert_object(
        &mut self,
        table: Table,
        sql: &'static str,
        args: &[Arg<'_>],
        body: Option<&Packed>,
    ) -> Result<i64, Error> {
        const ARGS_MAX: usize = 16;
        let place = body.map(|body| self.sink.put(self.db.connection, body)).transpose()?;
        let mut all = [Arg::Null(ArgType::Int); ARGS_MAX];
        all[..args.len()].copy_from_slice(args);
        let placed = &mut all[args.len()..args.len() + 5];
        placed[4] = Arg::Int(0);
        if let Some(Place { seg, off, len, packing, size }) = place {
            placed.copy_from_slice(&[
                Arg::Int(seg),
                Arg::Int(off),
                Arg::Int(len),
                Arg::Int(i64::from(packing)),
                Arg::Int(size),
            ]);
        }
        let row = self.insert(sql, &all[..args.len() + 5])?;
        if let (Table::Blobs, Some(body), HashIndex::Writer(index)) = (table, body, &self.db.index)
        {
            index.borrow_mut().add(body.id, row);
        }
        Ok(row)
    }

    fn erase(&mut self, place: &Place, now: Timestamp) -> Result<(), Error> {
        segment::erase(self.db.connection, place.seg, place.off, place.len, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_one_parameter_or_a_json_list() {
        let sql = "SELECT 1 WHERE a IN LIST(?1) AND b IN LIST(?2)";
        assert_eq!(single_lists(&[Arg::Ints(&[1, 2]), Arg::Ints(&[1])]), 0b10);
        assert_eq!(
            with_lists(sql, 0b10),
            "SELECT 1 WHERE a IN (SELECT value FROM json_each(?1)) AND b IN (?2)"
        );
    }

    #[test]
    fn lists_of_any_length_select_their_values() {
        let connection = Connection::open_in_memory().expect("a database");
        let db = SqliteDb::new(&connection, HashIndex::Reader(None));
        let db: &dyn Db = &db;
        for values in [vec![], vec![2], vec![1, 3]] {
            let found = db
                .rows(
                    "WITH t(n) AS (VALUES (1), (2), (3)) SELECT n FROM t WHERE n IN LIST(?1)",
                    &[Arg::Ints(&values)],
                    |row| row.get::<i64>(0),
                )
                .expect("a query");
            assert_eq!(found, values);
        }
    }
}
