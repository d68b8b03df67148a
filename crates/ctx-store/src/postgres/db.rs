//! Reads with the shared SQL on a connection.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;

use ctx_core::id::ObjectId;

use crate::Error;
use crate::driver::{Arg, ArgType, Db, HashQuery, Place, Row, Table, limit_arg};

use super::connection::Conn;
use super::dialect::Form;
use super::values::{self, Owned, encode, type_of};

/// Rows that a long read holds in memory at a time.
const FETCH_ROWS: usize = 500;

const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const DRAW: &str = "SELECT nextval('row_numbers')";
/// Without order and limit: with them, a plan could read the table in the order of `id`.
const LOCATE_BLOB: &str = "SELECT id, hash FROM blobs WHERE hash = ?1";

/// Read access on a connection.
pub(super) struct PgDb<'c> {
    pub(super) conn: &'c Conn,
    /// The transaction is not begun yet: that is sent with the first query.
    unbegun: Cell<bool>,
    /// Whether result sets of any size are read in parts.
    long: bool,
    cursors: Cell<usize>,
    /// The newest row before which no other can appear, if it is known.
    settled: Option<i64>,
    settled_needed: Cell<bool>,
    /// Queries that were sent ahead, with their answers.
    pub(super) ahead: Answered,
    /// The queries that were made, for the next write of the same kind.
    pub(super) made: RefCell<Vec<Query>>,
    /// Whether it reads for a group of writes, which draws row numbers.
    draws: bool,
    /// The block of numbers that was drawn after the last query that was not sent ahead.
    pub(super) drawn: Cell<Option<i64>>,
}

/// A query that can be sent ahead.
#[derive(Clone)]
pub(super) struct Query {
    pub(super) sql: &'static str,
    pub(super) args: Vec<Owned>,
}

impl Query {
    pub(super) fn new(sql: &'static str, args: &[Arg<'_>]) -> Self {
        Self { sql, args: args.iter().map(Owned::of).collect() }
    }

    /// The lookup of a blob that a write brings.
    pub(super) fn of_blob(id: ObjectId) -> Self {
        Self::new(LOCATE_BLOB, &[Arg::Bytes(id.as_bytes())])
    }
}

/// Queries with the rows of their answers.
pub(super) type Answered = HashMap<Query, Vec<values::Row>>;

/// A statement is identified by the address of its text.
impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.sql, other.sql) && self.args == other.args
    }
}

impl Eq for Query {}

impl Hash for Query {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sql.as_ptr().hash(state);
        self.args.hash(state);
    }
}

/// Adds queries to the pipeline: those with the same text as one statement. The function that is
/// returned assigns the rows of the answers to the queries.
pub(super) fn push_queries(
    conn: &Conn,
    queries: Vec<Query>,
) -> Result<impl FnOnce(Vec<Vec<values::Row>>) -> Answered, Error> {
    let mut seen = HashSet::new();
    let mut groups: Vec<Vec<Query>> = Vec::new();
    for query in queries {
        if !seen.insert(query.clone()) {
            continue;
        }
        let group = groups.iter_mut().find(|group| std::ptr::eq(group[0].sql, query.sql));
        match group.filter(|group| single(&group[0]).is_some() && single(&query).is_some()) {
            Some(group) => group.push(query),
            None => groups.push(vec![query]),
        }
    }
    let mut sent: Vec<(Vec<Query>, bool)> = Vec::new();
    for group in groups {
        let rows: Option<Vec<Vec<Owned>>> = match group.len() {
            1 => None,
            _ => group.iter().map(single).collect(),
        };
        let types: Vec<ArgType> = match &rows {
            Some(rows) => rows[0].iter().map(|arg| type_of(&arg.as_arg())).collect(),
            None => Vec::new(),
        };
        let form = Form { numbered: false, merged: true };
        let merged = rows.as_ref().and_then(|_| conn.statement(group[0].sql, &types, form));
        match (merged, rows) {
            (Some(statement), Some(rows)) => {
                let rows: Vec<&[Owned]> = rows.iter().map(Vec::as_slice).collect();
                conn.push_rows(&statement, &types, &rows)?;
                sent.push((group, true));
            }
            _ => {
                for query in group {
                    let args: Vec<Arg<'_>> = query.args.iter().map(Owned::as_arg).collect();
                    conn.push(query.sql, &args)?;
                    sent.push((vec![query], false));
                }
            }
        }
    }
    Ok(move |answers: Vec<Vec<values::Row>>| {
        let mut found = HashMap::new();
        for ((mut group, merged), rows) in sent.into_iter().zip(answers) {
            if !merged {
                found.extend(group.pop().map(|query| (query, rows)));
                continue;
            }
            let mut of_each = vec![Vec::new(); group.len()];
            for mut row in rows {
                let nth = usize::try_from(row.pop() - 1).ok();
                if let Some(rows) = nth.and_then(|nth| of_each.get_mut(nth)) {
                    rows.push(row);
                }
            }
            found.extend(group.into_iter().zip(of_each));
        }
        found
    })
}

/// The parameters of a query that can be merged: a list has one value.
fn single(query: &Query) -> Option<Vec<Owned>> {
    let single = |arg: &Owned| match arg {
        Owned::Ints(values) => match values.as_slice() {
            [value] => Some(Owned::Int(*value)),
            _ => None,
        },
        Owned::Texts(values) => match values.as_slice() {
            [value] => Some(Owned::Text(value.clone())),
            _ => None,
        },
        Owned::Null(ArgType::Ints | ArgType::Texts) => None,
        other => Some(other.clone()),
    };
    query.args.iter().map(single).collect()
}

impl<'c> PgDb<'c> {
    /// A snapshot for reading.
    pub(super) fn snapshot(conn: &'c Conn, long: bool, settled: Option<i64>) -> Self {
        Self { unbegun: Cell::new(true), long, settled, ..Self::within(conn) }
    }

    /// Read access inside a transaction that has begun, or without one.
    pub(super) fn within(conn: &'c Conn) -> Self {
        Self {
            conn,
            unbegun: Cell::new(false),
            long: false,
            cursors: Cell::new(0),
            settled: None,
            settled_needed: Cell::new(false),
            ahead: HashMap::new(),
            made: RefCell::default(),
            drawn: Cell::new(None),
            draws: false,
        }
    }

    /// Read access of a transaction that writes; a group of writes draws row numbers.
    pub(super) fn of_writes(conn: &'c Conn, draws: bool, ahead: Answered) -> Self {
        Self { draws, ahead, ..Self::within(conn) }
    }

    /// Whether a query needs the newest settled row and must be run again with it.
    pub(super) fn settled_needed(&self) -> bool {
        self.settled_needed.get()
    }

    /// Ends the snapshot, without waiting for the end.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.unbegun.get() {
            return Ok(());
        }
        self.conn.push(COMMIT, &[])?;
        self.conn.run_later()
    }

    fn begin(&self) -> Result<(), Error> {
        if !self.unbegun.take() {
            return Ok(());
        }
        self.conn.push(BEGIN_SNAPSHOT, &[])?;
        // A long read reads whole tables.
        if self.long { self.conn.push_text("SET LOCAL enable_seqscan = on") } else { Ok(()) }
    }

    /// Runs the pipeline that ends with a query. In a group of writes, row numbers are drawn after
    /// it: they are larger than those of the rows that it has found.
    fn fetch(&self) -> Result<Vec<values::Row>, Error> {
        if self.draws {
            self.conn.push(DRAW, &[])?;
        }
        let mut answers = self.conn.run()?;
        if self.draws {
            let drawn = answers.pop().unwrap_or_default().rows;
            self.drawn.set(drawn.first().map(|row| row.number(0)));
        }
        Ok(answers.pop().unwrap_or_default().rows)
    }

    /// Reads a result set in parts, between which other queries can run.
    fn query_in_parts(
        &self,
        sql: &'static str,
        each: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let name = format!("part_{}", self.cursors.replace(self.cursors.get() + 1));
        let text = sql.replace("/*pg ", "").replace("*/", "");
        self.begin()?;
        self.conn.push_text(&format!("DECLARE {name} NO SCROLL CURSOR FOR {text}"))?;
        loop {
            self.conn.push_text(&format!("FETCH {FETCH_ROWS} FROM {name}"))?;
            let rows = self.fetch()?;
            rows.iter().try_for_each(|row| each(Row(row)))?;
            if rows.len() < FETCH_ROWS {
                return self.conn.push_text(&format!("CLOSE {name}"));
            }
        }
    }

    /// The rows of a query that is not sent ahead, or of one that was.
    fn rows_of<T>(
        &self,
        query: Query,
        read: impl FnOnce(&[values::Row]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(rows) = self.ahead.get(&query) {
            return read(rows);
        }
        let mut args: Vec<Arg<'_>> = query.args.iter().map(Owned::as_arg).collect();
        let types: Vec<ArgType> = args.iter().map(type_of).collect();
        let statement = self.conn.plain(query.sql, &types)?;
        if statement.settled {
            let Some(settled) = self.settled else {
                self.settled_needed.set(true);
                return Err(Error::Internal("the newest settled row is not known".to_owned()));
            };
            args.push(Arg::Int(settled));
        }
        self.begin()?;
        self.conn.push_statement(&statement, args.len(), |n, out| encode(&args[n], out))?;
        read(&self.fetch()?)
    }
}

impl Db for PgDb<'_> {
    fn query(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        each: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.long && args.is_empty() {
            return self.query_in_parts(sql, each);
        }
        let query = Query::new(sql, args);
        if self.draws {
            self.made.borrow_mut().push(query.clone());
        }
        self.rows_of(query, |rows| rows.iter().try_for_each(|row| each(Row(row))))
    }

    fn locate(
        &self,
        table: Table,
        hash: HashQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(i64, ObjectId)>, Error> {
        macro_rules! located {
            ($condition:literal) => {
                match table {
                    Table::Turns => concat!("SELECT id, hash FROM turns WHERE ", $condition),
                    Table::Steps => concat!("SELECT id, hash FROM steps WHERE ", $condition),
                    Table::Commits => concat!("SELECT id, hash FROM commits WHERE ", $condition),
                    Table::Blobs => concat!("SELECT id, hash FROM blobs WHERE ", $condition),
                }
            };
        }
        let query = match hash {
            HashQuery::Exact(id) if table == Table::Blobs => Query::of_blob(id),
            HashQuery::Exact(id) => Query::new(located!("hash = ?1"), &[Arg::Bytes(id.as_bytes())]),
            HashQuery::Prefix(digits) => match (bound(digits, b'0'), bound(digits, b'f')) {
                (Some(low), Some(high)) => Query::new(
                    located!("hash >= ?1 AND hash <= ?2 ORDER BY id LIMIT ?3"),
                    &[Arg::Bytes(&low), Arg::Bytes(&high), limit_arg(limit)],
                ),
                _ => return Ok(Vec::new()),
            },
        };
        let read = |row: &values::Row| Ok((Row(row).get(0)?, Row(row).get(1)?));
        let found: Result<Vec<(i64, ObjectId)>, Error> =
            self.rows_of(query, |rows| rows.iter().map(read).collect());
        let mut found = found?;
        found.sort_unstable_by_key(|(row, _)| *row);
        found.truncate(limit);
        Ok(found)
    }

    fn packed(&self, places: &[Place], buffer: &mut Vec<u8>) -> Result<Vec<Range<usize>>, Error> {
        const BODIES: &str = "SELECT id, data FROM bodies WHERE id IN LIST(?1)";
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = places.iter().map(|place| place.off).collect();
        self.rows_of(Query::new(BODIES, &[Arg::Ints(&ids)]), |rows| {
            let mut bodies: HashMap<i64, &[u8]> = HashMap::new();
            for row in rows {
                bodies.insert(Row(row).get(0)?, Row(row).get(1)?);
            }
            let mut ranges = Vec::with_capacity(places.len());
            for place in places {
                let body = bodies.get(&place.off).filter(|body| body.len() as i64 == place.len);
                let body = body.ok_or_else(|| {
                    Error::Damaged(format!("body {} is missing or has another length", place.off))
                })?;
                let from = buffer.len();
                buffer.extend_from_slice(body);
                ranges.push(from..buffer.len());
            }
            Ok(ranges)
        })
    }
}

/// The smallest or largest hash that begins with hex digits.
fn bound(digits: &str, fill: u8) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let digits = digits.as_bytes();
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() > 64 || !digits.iter().all(is_digit) {
        return None;
    }
    let digit = |n: usize| char::from(*digits.get(n).unwrap_or(&fill)).to_digit(16);
    for (n, byte) in hash.iter_mut().enumerate() {
        *byte = u8::try_from(digit(2 * n)? * 16 + digit(2 * n + 1)?).ok()?;
    }
    Some(hash)
}
