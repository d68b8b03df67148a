//! Write access inside one transaction, and the statements that are sent with COMMIT.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

use ctx_core::id::ObjectId;
use ctx_core::time::Timestamp;

use crate::Error;
use crate::driver::{Arg, ArgType, Db, HashQuery, Place, Row, Table, Tx};
use crate::pack::Packed;

use super::connection::{Conn, Failed};
use super::db::{Answered, DRAW, PgDb, Query, push_queries};
use super::dialect::Form;
use super::values::{Owned, encode, type_of};

/// Row numbers that one call of the sequence reserves: the increment of `row_numbers`.
pub(super) const BLOCK: i64 = 64;
/// Size of the statements of a maintenance transaction, in bytes, from which they are sent.
const UNSENT_MAX_BYTES: usize = 1 << 18;
/// The `seg` of every body.
const SEGMENT: i64 = 1;

const LOCK_SESSION: &str = "SELECT row FROM sessions WHERE row = ?1 FOR NO KEY UPDATE";
const INSERT_BODY: &str = "INSERT INTO bodies(id, data) VALUES (?1, ?2)";

/// A statement that is sent with COMMIT.
struct Queued {
    sql: &'static str,
    numbered: bool,
    args: Vec<Owned>,
    /// The write of the group that makes it.
    write: usize,
}

impl Queued {
    fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.sql, other.sql) && self.numbered == other.numbered
    }

    /// Whether it depends on no other statement: it stores a body or a blob.
    fn is_free(&self) -> bool {
        self.sql.starts_with("INSERT INTO bodies") || self.sql.starts_with("INSERT INTO blobs")
    }

    /// Whether it only adds a row, so that a write can make it twice in one statement.
    fn only_inserts(&self) -> bool {
        self.sql.starts_with("INSERT")
            && !self.sql.contains("SELECT")
            && !self.sql.contains("CONFLICT")
    }
}

/// Puts statements with the same text together. Those of one write keep their order; those of
/// different writes do not depend on each other.
fn merged(queued: &[Queued]) -> Vec<Vec<&Queued>> {
    let mut batches: Vec<Vec<&Queued>> = Vec::new();
    // The batch of the last statement of the write.
    let (mut write, mut at) = (usize::MAX, 0);
    for one in queued {
        if one.write != write {
            (write, at) = (one.write, 0);
        }
        let from = if one.is_free() { 0 } else { at };
        let fits = |batch: &Vec<&Queued>| {
            batch[0].is_same(one)
                && (one.only_inserts() || batch.iter().all(|other| other.write != write))
        };
        match batches[from..].iter().position(fits) {
            Some(found) => {
                batches[from + found].push(one);
                at = if one.is_free() { at } else { from + found };
            }
            None => {
                at = (at + 1).min(batches.len());
                batches.insert(at, vec![one]);
            }
        }
    }
    batches
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
    /// Statements that are sent with COMMIT; `None` in a maintenance transaction, which sends them
    /// with its next query.
    queued: Option<Vec<Queued>>,
    /// The write of the group that is being run.
    write: usize,
    locked: HashSet<i64>,
    /// Sessions of earlier writes of the group.
    used: HashSet<i64>,
    repeat: Cell<Option<Repeat>>,
}

fn blocks(first: impl IntoIterator<Item = i64>) -> Vec<Range<i64>> {
    let mut numbers: Vec<_> = first.into_iter().map(|first| first..first + BLOCK).collect();
    numbers.sort_unstable_by_key(|block| std::cmp::Reverse(block.start));
    numbers
}

impl<'c> PgTx<'c> {
    /// A transaction that has begun. One that queues runs a group of writes.
    pub(super) fn new(
        conn: &'c Conn,
        queues: bool,
        locked: HashSet<i64>,
        drawn: Vec<i64>,
        ahead: Answered,
    ) -> Self {
        Self {
            db: PgDb::of_writes(conn, queues, ahead),
            numbers: blocks(drawn),
            queued: queues.then(Vec::new),
            write: 0,
            locked,
            used: HashSet::new(),
            repeat: Cell::new(None),
        }
    }

    /// Begins the next write of a group, and returns the queries that the last one made.
    pub(super) fn next_write(&mut self) -> Vec<Query> {
        self.write += 1;
        self.db.made.take()
    }

    pub(super) fn take_repeat(&self) -> Option<Repeat> {
        self.repeat.take()
    }

    /// Locks a session that was found only by reading, and reads again what was read. Numbers that
    /// were reserved before the lock may be smaller than those of the transaction that had it.
    pub(super) fn lock(&mut self, session: i64) -> Result<(), Error> {
        self.db.conn.push(LOCK_SESSION, &[Arg::Int(session)])?;
        let assign = push_queries(self.db.conn, self.db.made.take())?;
        self.db.conn.push(DRAW, &[])?;
        let answers = self.db.conn.run()?;
        let mut rows: Vec<_> = answers.into_iter().map(|answer| answer.rows).collect();
        let drawn = rows.pop().unwrap_or_default();
        self.db.drawn.set(drawn.first().map(|row| row.number(0)));
        self.locked.insert(session);
        self.db.ahead = assign(rows.split_off(1));
        Ok(())
    }

    /// Sends what is queued, and what was added to the pipeline by `last`.
    pub(super) fn flush(
        &self,
        last: impl FnOnce(&Conn) -> Result<(), Error>,
    ) -> Result<(), Failed> {
        let pushed = |error| Failed { rejected: false, error };
        for batch in merged(self.queued.as_deref().unwrap_or_default()) {
            self.push_batch(&batch).map_err(pushed)?;
        }
        last(self.db.conn).map_err(pushed)?;
        self.db.conn.run().map(drop)
    }

    fn push_batch(&self, batch: &[&Queued]) -> Result<(), Error> {
        let (conn, first) = (self.db.conn, batch[0]);
        let types: Vec<ArgType> = first.args.iter().map(|arg| type_of(&arg.as_arg())).collect();
        let form = Form { numbered: first.numbered, merged: true };
        if batch.len() > 1
            && let Some(statement) = conn.statement(first.sql, &types, form)
        {
            let rows: Vec<&[Owned]> = batch.iter().map(|one| one.args.as_slice()).collect();
            return conn.push_rows(&statement, &types, &rows);
        }
        batch.iter().try_for_each(|one| {
            let args: Vec<Arg<'_>> = one.args.iter().map(Owned::as_arg).collect();
            self.push(one.sql, one.numbered, &args)
        })
    }

    fn push(&self, sql: &'static str, numbered: bool, args: &[Arg<'_>]) -> Result<(), Error> {
        let types: Vec<ArgType> = args.iter().map(type_of).collect();
        let statement = self.db.conn.statement(sql, &types, Form { numbered, merged: false });
        let statement = statement.ok_or_else(|| Error::Internal("no statement".to_owned()))?;
        self.db.conn.push_statement(&statement, args.len(), |n, out| encode(&args[n], out))
    }

    fn next_number(&mut self) -> Result<i64, Error> {
        if let Some(drawn) = self.db.drawn.take() {
            self.numbers = blocks([drawn]);
        }
        loop {
            match self.numbers.last_mut().map(Iterator::next) {
                Some(Some(number)) => return Ok(number),
                Some(None) => drop(self.numbers.pop()),
                None => {
                    let rows = self.db.conn.query(DRAW, &[])?;
                    self.numbers = blocks(rows.iter().map(|row| row.number(0)));
                }
            }
        }
    }

    /// Executes a statement later: with COMMIT, or in a maintenance transaction with the next
    /// query.
    fn run(&mut self, sql: &'static str, numbered: bool, args: &[Arg<'_>]) -> Result<(), Error> {
        let write = self.write;
        if let Some(queued) = &mut self.queued {
            let args = args.iter().map(Owned::of).collect();
            queued.push(Queued { sql, numbered, args, write });
            return Ok(());
        }
        self.push(sql, numbered, args)?;
        if self.db.conn.unsent_bytes() >= UNSENT_MAX_BYTES {
            self.db.conn.run()?;
        }
        Ok(())
    }

    fn insert_as(
        &mut self,
        number: i64,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<i64, Error> {
        let args: Vec<Arg<'_>> = args.iter().copied().chain([Arg::Int(number)]).collect();
        self.run(sql, true, &args)?;
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

    fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<(), Error> {
        self.run(sql, false, args)
    }

    fn execute_counted(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, Error> {
        self.push(sql, false, args)?;
        Ok(self.db.conn.run()?.pop().unwrap_or_default().changed)
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
                self.execute(INSERT_BODY, &data)?;
                let length = |bytes: usize| Arg::Int(i64::try_from(bytes).unwrap_or(i64::MAX));
                all.extend([Arg::Int(SEGMENT), Arg::Int(number), length(body.bytes.len())]);
                all.extend([Arg::Int(i64::from(body.packing)), length(body.size)]);
            }
            None => all.extend([[Arg::Null(ArgType::Int); 4].as_slice(), &[Arg::Int(0)]].concat()),
        }
        self.insert_as(number, sql, &all)
    }

    fn erase(&mut self, place: &Place, _: Timestamp) -> Result<(), Error> {
        self.execute("DELETE FROM bodies WHERE id = ?1", &[Arg::Int(place.off)])
    }
}
