//! Executes the shared SQL on a connection.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ctx_core::id::ObjectId;
use ctx_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::Error;
use crate::driver::{Arg, ArgType, Cells, Db, HashQuery, Place, Row, Table, Tx};
use crate::pack::Packed;

use super::connection::{Answer, Conn, Prepared, Request};

/// Row numbers that one call of the sequence reserves: the increment of `row_numbers`.
pub(super) const BLOCK: i64 = 64;
/// Rows that a long read holds in memory at a time.
const FETCH_ROWS: usize = 500;
/// The `seg` of every body.
const SEGMENT: i64 = 1;

pub(super) const DRAW: &str = "SELECT nextval('row_numbers') FROM generate_series(1, ?1)";
const LOCK_SESSION: &str = "SELECT row FROM sessions WHERE row = ?1 FOR NO KEY UPDATE";

/// Read access on a connection.
pub(super) struct PgDb<'c> {
    conn: &'c Conn,
    /// Begins the transaction. It is sent with the first query.
    begin: Cell<Option<&'static str>>,
    /// Whether result sets of any size are read in parts.
    long: bool,
    cursors: Cell<usize>,
    /// The newest row before which no other can appear, if it is known.
    settled: Option<i64>,
    settled_needed: Cell<bool>,
    /// Queries that were sent ahead, with their answers.
    ahead: Vec<(Query, Vec<tokio_postgres::Row>)>,
    /// The queries that were made, for the next write of the same kind.
    made: RefCell<Vec<Query>>,
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

    fn is(&self, sql: &str, args: &[Arg<'_>]) -> bool {
        std::ptr::eq(self.sql, sql)
            && self.args.len() == args.len()
            && self.args.iter().zip(args).all(|(own, arg)| *own == Owned::of(arg))
    }
}

impl<'c> PgDb<'c> {
    /// A snapshot for reading.
    pub(super) fn snapshot(conn: &'c Conn, long: bool, settled: Option<i64>) -> Self {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        Self { begin: Cell::new(Some(BEGIN)), long, ..Self::within(conn, settled) }
    }

    /// Read access inside a transaction that has begun, or without one.
    pub(super) fn within(conn: &'c Conn, settled: Option<i64>) -> Self {
        Self {
            conn,
            begin: Cell::new(None),
            long: false,
            cursors: Cell::new(0),
            settled,
            settled_needed: Cell::new(false),
            ahead: Vec::new(),
            made: RefCell::default(),
        }
    }

    /// Whether a query needs the newest settled row and must be run again with it.
    pub(super) fn settled_needed(&self) -> bool {
        self.settled_needed.get()
    }

    /// Ends the snapshot.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.begin.get().is_some() { Ok(()) } else { self.conn.command("COMMIT") }
    }

    fn fetch(&self, request: Request<'_>) -> Result<Vec<tokio_postgres::Row>, Error> {
        let begin = self.begin.take().map(Request::Command);
        let requests: Vec<Request<'_>> = begin.into_iter().chain([request]).collect();
        let answers = self.conn.send(&requests).map_err(|failed| failed.error)?;
        Ok(answers.into_iter().next_back().unwrap_or_default().rows)
    }

    /// Reads a result set in parts, between which other queries can run.
    fn query_in_parts(
        &self,
        sql: &'static str,
        each: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let name = format!("part_{}", self.cursors.replace(self.cursors.get() + 1));
        let text = super::dialect::translate(sql, 0).text;
        self.fetch(Request::Command(&format!("DECLARE {name} NO SCROLL CURSOR FOR {text}")))?;
        let fetch = self.conn.prepare_text(&format!("FETCH {FETCH_ROWS} FROM {name}"))?;
        loop {
            let rows = self.fetch(Request::Query(&fetch, &[]))?;
            rows.iter().try_for_each(|row| each(Row(&PgRow(row))))?;
            if rows.len() < FETCH_ROWS {
                return self.conn.command(&format!("CLOSE {name}"));
            }
        }
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
        self.made.borrow_mut().push(Query::new(sql, args));
        if let Some((_, rows)) = self.ahead.iter().find(|(query, _)| query.is(sql, args)) {
            return rows.iter().try_for_each(|row| each(Row(&PgRow(row))));
        }
        let statement = self.conn.prepare(sql, args, false)?;
        let rows = match (statement.settled, self.settled) {
            (false, _) => self.fetch(Request::Query(&statement, args))?,
            (true, Some(settled)) => {
                let args: Vec<Arg<'_>> = args.iter().copied().chain([Arg::Int(settled)]).collect();
                self.fetch(Request::Query(&statement, &args))?
            }
            (true, None) => {
                self.settled_needed.set(true);
                return Err(Error::Internal("the newest settled row is not known".to_owned()));
            }
        };
        rows.iter().try_for_each(|row| each(Row(&PgRow(row))))
    }

    fn locate(
        &self,
        table: Table,
        hash: HashQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(i64, ObjectId)>, Error> {
        let (low, high) = match hash {
            HashQuery::Exact(id) => (*id.as_bytes(), *id.as_bytes()),
            HashQuery::Prefix(digits) => match (bound(digits, b'0'), bound(digits, b'f')) {
                (Some(low), Some(high)) => (low, high),
                _ => return Ok(Vec::new()),
            },
        };
        let sql = match table {
            Table::Turns => {
                "SELECT id, hash FROM turns WHERE hash >= ?1 AND hash <= ?2 ORDER BY id LIMIT ?3"
            }
            Table::Steps => {
                "SELECT id, hash FROM steps WHERE hash >= ?1 AND hash <= ?2 ORDER BY id LIMIT ?3"
            }
            Table::Commits => {
                "SELECT id, hash FROM commits WHERE hash >= ?1 AND hash <= ?2 ORDER BY id LIMIT ?3"
            }
            Table::Blobs => {
                "SELECT id, hash FROM blobs WHERE hash >= ?1 AND hash <= ?2 ORDER BY id LIMIT ?3"
            }
        };
        let args = &[Arg::Bytes(&low), Arg::Bytes(&high), crate::driver::limit_arg(limit)];
        let statement = self.conn.prepare(sql, args, false)?;
        let rows = self.fetch(Request::Query(&statement, args))?;
        let read = |row| Ok((Row(&PgRow(row)).get(0)?, Row(&PgRow(row)).get(1)?));
        rows.iter().map(read).collect()
    }

    fn packed(&self, places: &[Place], buffer: &mut Vec<u8>) -> Result<Vec<Range<usize>>, Error> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = places.iter().map(|place| place.off).collect();
        let args = &[Arg::Ints(&ids)];
        let statement =
            self.conn.prepare("SELECT id, data FROM bodies WHERE id IN LIST(?1)", args, false)?;
        let rows = self.fetch(Request::Query(&statement, args))?;
        let bodies: HashMap<i64, &[u8]> =
            rows.iter().map(|row| (row.get(0), row.get::<_, &[u8]>(1))).collect();
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

struct PgRow<'r>(&'r tokio_postgres::Row);

impl<'r> PgRow<'r> {
    fn get<T: tokio_postgres::types::FromSql<'r>>(&self, column: usize) -> Result<T, Error> {
        self.0.try_get(column).map_err(|e| Error::Damaged(format!("column {column} of a row: {e}")))
    }
}

impl Cells for PgRow<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.0.columns().get(column).map(|column| column.type_()) {
            Some(&Type::BOOL) => Ok(self.get::<Option<bool>>(column)?.map(i64::from)),
            Some(&Type::INT4) => Ok(self.get::<Option<i32>>(column)?.map(i64::from)),
            _ => self.get(column),
        }
    }

    fn text(&self, column: usize) -> Result<Option<&str>, Error> {
        self.get(column)
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        self.get(column)
    }
}

/// A statement that is sent with COMMIT.
struct Queued {
    statement: Prepared,
    args: Vec<Owned>,
}

/// A parameter that outlives the call.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Owned {
    Null(ArgType),
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Owned {
    fn of(arg: &Arg<'_>) -> Self {
        match *arg {
            Arg::Null(kind) => Self::Null(kind),
            Arg::Int(value) => Self::Int(value),
            Arg::Bool(value) => Self::Int(i64::from(value)),
            Arg::Text(value) => Self::Text(value.to_owned()),
            Arg::Bytes(value) => Self::Bytes(value.to_owned()),
            Arg::Ints(values) => Self::Ints(values.to_owned()),
            Arg::Texts(values) => Self::Texts(values.to_owned()),
        }
    }

    pub(super) fn as_arg(&self) -> Arg<'_> {
        match self {
            Self::Null(kind) => Arg::Null(*kind),
            Self::Int(value) => Arg::Int(*value),
            Self::Text(value) => Arg::Text(value),
            Self::Bytes(value) => Arg::Bytes(value),
            Self::Ints(values) => Arg::Ints(values),
            Self::Texts(values) => Arg::Texts(values),
        }
    }
}

/// Why a write of a group must be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// In this transaction, after its session was locked.
    Now(i64),
    /// In the next one: an earlier write of this group changes the same session.
    Later,
}

/// Write access inside one transaction.
pub(super) struct PgTx<'c> {
    db: PgDb<'c>,
    /// Reserved row numbers. The last block has the smallest: a turn has a larger number than its
    /// parent.
    numbers: Vec<Range<i64>>,
    /// Statements that are sent with COMMIT; `None` in a maintenance transaction.
    queued: Option<Vec<Queued>>,
    locked: HashSet<i64>,
    /// Sessions of earlier writes of the group.
    used: HashSet<i64>,
    repeat: Cell<Option<Repeat>>,
}

impl<'c> PgTx<'c> {
    /// A transaction that has begun. One that queues runs a group of writes.
    pub(super) fn new(
        conn: &'c Conn,
        queues: bool,
        locked: HashSet<i64>,
        blocks: &[i64],
        ahead: Vec<(Query, Vec<tokio_postgres::Row>)>,
    ) -> Self {
        let mut numbers: Vec<_> = blocks.iter().map(|first| *first..first + BLOCK).collect();
        numbers.sort_unstable_by_key(|block| std::cmp::Reverse(block.start));
        Self {
            db: PgDb { ahead, ..PgDb::within(conn, None) },
            numbers,
            queued: queues.then(Vec::new),
            locked,
            used: HashSet::new(),
            repeat: Cell::new(None),
        }
    }

    /// The queries that were made since the last call.
    pub(super) fn take_made(&self) -> Vec<Query> {
        self.db.made.take()
    }

    pub(super) fn take_repeat(&self) -> Option<Repeat> {
        self.repeat.take()
    }

    /// Locks a session that was found only by reading, and reads again what was read. Numbers that
    /// were reserved before the lock may be smaller than those of the transaction that had it.
    pub(super) fn lock(&mut self, session: i64) -> Result<(), Error> {
        let lock = Query::new(LOCK_SESSION, &[Arg::Int(session)]);
        let draw = Query::new(DRAW, &[Arg::Int(1)]);
        let queries: Vec<Query> = [lock, draw].into_iter().chain(self.take_made()).collect();
        let mut answers = self.db.conn.query_all(&queries)?;
        let read = answers.split_off(2);
        self.locked.insert(session);
        let first: Option<i64> = answers.pop().and_then(|rows| Some(rows.first()?.get(0)));
        self.numbers = first.map(|first| first..first + BLOCK).into_iter().collect();
        self.db.ahead = queries.into_iter().skip(2).zip(read).collect();
        Ok(())
    }

    /// Sends what is queued, and then `last`.
    pub(super) fn flush(
        &self,
        last: &[Request<'_>],
    ) -> Result<Vec<Answer>, super::connection::Failed> {
        let queued = self.queued.as_deref().unwrap_or_default();
        let args: Vec<Vec<Arg<'_>>> =
            queued.iter().map(|one| one.args.iter().map(Owned::as_arg).collect()).collect();
        let own =
            queued.iter().zip(&args).map(|(one, args)| Request::Execute(&one.statement, args));
        let last = last.iter().map(|request| match request {
            Request::Command(sql) => Request::Command(sql),
            Request::Query(statement, args) => Request::Query(statement, args),
            Request::Execute(statement, args) => Request::Execute(statement, args),
        });
        self.db.conn.send(&own.chain(last).collect::<Vec<_>>())
    }

    fn next_number(&mut self) -> Result<i64, Error> {
        loop {
            match self.numbers.last_mut().map(Iterator::next) {
                Some(Some(number)) => return Ok(number),
                Some(None) => drop(self.numbers.pop()),
                None => {
                    let rows = self.db.conn.query(DRAW, &[Arg::Int(1)])?;
                    self.numbers.extend(rows.iter().map(|row| {
                        let first: i64 = row.get(0);
                        first..first + BLOCK
                    }));
                }
            }
        }
    }

    fn run(&mut self, statement: Prepared, args: &[Arg<'_>]) -> Result<u64, Error> {
        match &mut self.queued {
            Some(queued) => {
                queued.push(Queued { statement, args: args.iter().map(Owned::of).collect() });
                Ok(0)
            }
            None => {
                let answers = self.db.conn.send(&[Request::Execute(&statement, args)]);
                Ok(answers.map_err(|failed| failed.error)?.pop().unwrap_or_default().changed)
            }
        }
    }

    fn insert_as(
        &mut self,
        number: i64,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<i64, Error> {
        let statement = self.db.conn.prepare(sql, args, true)?;
        let args: Vec<Arg<'_>> = args.iter().copied().chain([Arg::Int(number)]).collect();
        self.run(statement, &args)?;
        Ok(number)
    }
}

impl Db for PgTx<'_> {
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

impl Tx for PgTx<'_> {
    fn lock_session(&mut self, session: i64) -> Result<(), Error> {
        let repeat = match () {
            () if self.queued.is_none() => return Ok(()),
            () if self.used.contains(&session) => Repeat::Later,
            () if !self.locked.contains(&session) => Repeat::Now(session),
            () => {
                self.used.insert(session);
                return Ok(());
            }
        };
        self.repeat.set(Some(repeat));
        Err(Error::Internal("the session is not locked".to_owned()))
    }

    fn insert(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<i64, Error> {
        let number = self.next_number()?;
        self.insert_as(number, sql, args)
    }

    fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, Error> {
        let statement = self.db.conn.prepare(sql, args, false)?;
        self.run(statement, args)
    }

    fn insert_object(
        &mut self,
        _: Table,
        sql: &'static str,
        args: &[Arg<'_>],
        body: Option<&Packed>,
    ) -> Result<i64, Error> {
        let number = self.next_number()?;
        let mut all = args.to_vec();
        match body {
            Some(body) => {
                let data = [Arg::Int(number), Arg::Bytes(&body.bytes)];
                self.execute("INSERT INTO bodies(id, data) VALUES (?1, ?2)", &data)?;
                let length = |bytes: usize| Arg::Int(i64::try_from(bytes).unwrap_or(i64::MAX));
                all.extend([Arg::Int(SEGMENT), Arg::Int(number), length(body.bytes.len())]);
                all.extend([Arg::Int(i64::from(body.packing)), length(body.size)]);
            }
            None => all.extend([[Arg::Null(ArgType::Int); 4].as_slice(), &[Arg::Int(0)]].concat()),
        }
        self.insert_as(number, sql, &all)
    }

    fn erase(&mut self, place: &Place, _: Timestamp) -> Result<(), Error> {
        self.execute("DELETE FROM bodies WHERE id = ?1", &[Arg::Int(place.off)]).map(drop)
    }
}
